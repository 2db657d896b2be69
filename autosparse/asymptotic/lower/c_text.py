"""C that every kernel of an einsum shares: growing outputs, workspaces, searches."""

from __future__ import annotations

from typing import Final

HELPERS: Final = r"""
#include <complex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#undef I
TYPES
typedef struct { X *crd[N_MODES]; V *val; int64_t n, capacity; } asp_out;
typedef struct { V *value; uint64_t *bits; X *list; int64_t n, extent; } asp_space;

void asp_free(asp_out *out)
{
  for (int m = 0; m < N_MODES; m++) free(out->crd[m]);
  free(out->val);
}

static int grow(asp_out *out, int64_t n)
{
  if (out->n + n <= out->capacity) return 0;
  int64_t capacity = out->capacity + out->capacity / 2 + n + 1024;
  for (int m = 0; m < N_MODES; m++) {
    X *crd = realloc(out->crd[m], capacity * sizeof(X));
    if (!crd) return 1;
    out->crd[m] = crd;
  }
  V *val = realloc(out->val, capacity * sizeof(V));
  if (!val) return 1;
  out->val = val;
  out->capacity = capacity;
  return 0;
}

/* An entry; added to the last one where that has the same coordinates. */
static inline int push(asp_out *out, const X *at, V value)
{
  const int64_t n = out->n;
  if (n) {
    int same = 1;
    for (int m = 0; m < N_MODES; m++) same &= out->crd[m][n - 1] == at[m];
    if (same) { out->val[n - 1] += value; return 0; }
  }
  if (n == out->capacity && grow(out, 1)) return 1;
  for (int m = 0; m < N_MODES; m++) out->crd[m][n] = at[m];
  out->val[n] = value;
  out->n = n + 1;
  return 0;
}

static int space_new(asp_space *w, int64_t extent)
{
  w->n = 0;
  w->extent = extent;
  w->value = malloc((extent + 1) * sizeof(V));
  w->list = malloc((extent + 1) * sizeof(X));
  w->bits = calloc(extent / 64 + 1, 8);
  return !(w->value && w->list && w->bits);
}

static void space_free(asp_space *w) { free(w->value); free(w->list); free(w->bits); }

static inline int space_has(const asp_space *w, X i) { return w->bits[i >> 6] >> (i & 63) & 1; }

static inline void space_add(asp_space *w, X i, V value)
{
  const uint64_t bit = (uint64_t)1 << (i & 63);
  if (w->bits[i >> 6] & bit) { w->value[i] += value; return; }
  w->bits[i >> 6] |= bit;
  w->value[i] = value;
  w->list[w->n++] = i;
}

static void space_clear(asp_space *w)
{
  for (int64_t n = 0; n < w->n; n++) w->bits[w->list[n] >> 6] = 0;
  w->n = 0;
}

static int by_index(const void *a, const void *b)
{
  const X x = *(const X *)a, y = *(const X *)b;
  return (x > y) - (x < y);
}

/* What was touched, in order: read off the bits where that is cheaper than sorting. */
static void space_sort(asp_space *w)
{
  if (w->n <= 24) {
    for (int64_t n = 1; n < w->n; n++) {
      const X x = w->list[n];
      int64_t m = n;
      for (; m > 0 && w->list[m - 1] > x; m--) w->list[m] = w->list[m - 1];
      w->list[m] = x;
    }
  } else if (w->extent / 64 < 24 * w->n) {
    int64_t n = 0;
    for (int64_t word = 0; n < w->n; word++)
      for (uint64_t left = w->bits[word]; left; left &= left - 1) w->list[n++] = word * 64 + __builtin_ctzll(left);
  } else {
    qsort(w->list, w->n, sizeof(X), by_index);
  }
}

/* The first position from `first` on whose coordinate is at least `i`. */
static inline X find_from(const X *crd, X first, X last, int64_t i)
{
  while (first < last) {
    const X middle = first + (last - first) / 2;
    if (crd[middle] < i) first = middle + 1; else last = middle;
  }
  return first;
}

static inline X find(const X *crd, X first, X last, X i)
{
  const X at = find_from(crd, first, last, i);
  return at < last && crd[at] == i ? at : -1;
}

/* `find_from` in time logarithmic in the distance. */
static inline X gallop(const X *crd, X at, X last, X i)
{
  X step = 1;
  while (at + step < last && crd[at + step] < i) { at += step; step *= 2; }
  return find_from(crd, at + 1, at + step < last ? at + step : last, i);
}
"""

FLUSH: Final = r"""
/* The buffered last mode, in order, at the coordinates `at` of the others. */
static int flush(asp_out *out, asp_space *row, const X *at, int last)
{
  space_sort(row);
  if (grow(out, row->n)) return 1;
  for (int m = 0; m < N_MODES; m++) {
    X *crd = out->crd[m] + out->n;
    if (m == last) memcpy(crd, row->list, row->n * sizeof(X));
    else for (int64_t n = 0; n < row->n; n++) crd[n] = at[m];
  }
  for (int64_t n = 0; n < row->n; n++) out->val[out->n + n] = row->value[row->list[n]];
  out->n += row->n;
  space_clear(row);
  return 0;
}
"""
