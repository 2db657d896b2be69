"""C source shared by the kernels of einsum: growing outputs, workspaces, searches."""

from __future__ import annotations

from typing import Final

HELPERS: Final = r"""
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#undef I
TYPES
typedef struct { X *crd[N_MODES]; W *val; int64_t n, capacity; } asp_out;
typedef struct { /* touched: stamp == turn; `bits` are zero but while `space_sort` runs */
  W *value; uint32_t *stamp, turn; X *list; int64_t n, extent; uint64_t *bits;
} asp_space;

/* Memory of outputs: the runtime's, in pages that earlier ones gave back, once `asp_memory` has said so. */
static void *take_fresh(size_t bytes) { return malloc(bytes); }
static void give_back(void *block, size_t bytes) { (void)bytes, free(block); }
static void *(*asp_take)(size_t) = take_fresh;
static void (*asp_give)(void *, size_t) = give_back;

void asp_memory(void *(*take)(size_t), void (*give)(void *, size_t)) { asp_take = take, asp_give = give; }

void asp_free(asp_out *out)
{
  for (int m = 0; m < N_MODES; m++)
    if (out->crd[m]) asp_give(out->crd[m], out->capacity * sizeof(X)), out->crd[m] = 0;
  if (out->val) asp_give(out->val, out->capacity * sizeof(W)), out->val = 0;
}

/* `used` bytes of a block in a larger one; NULL, and the block as it was, where there is no memory. */
static void *moved(void *block, size_t used, size_t bytes)
{
  void *larger = asp_take(bytes);
  if (larger && block) memcpy(larger, block, used), asp_give(block, used);
  return larger;
}

static int grow(asp_out *out, int64_t n)
{
  if (out->n + n <= out->capacity) return 0;
  const int64_t capacity = 2 * out->capacity + n + 1024;
  for (int m = 0; m < N_MODES; m++) {
    X *crd = moved(out->crd[m], out->n * sizeof(X), capacity * sizeof(X));
    if (!crd) return 1;
    out->crd[m] = crd;
  }
  W *val = moved(out->val, out->n * sizeof(W), capacity * sizeof(W));
  if (!val) return 1;
  out->val = val;
  out->capacity = capacity;
  return 0;
}

/* An entry; added to the last one where that has the same coordinates. */
static inline int push(asp_out *out, const X *at, W value)
{
  const int64_t n = out->n;
  if (n) {
    int same = 1;
    for (int m = 0; m < N_MODES; m++) same &= out->crd[m][n - 1] == at[m];
    if (same) { out->val[n - 1] = plus(out->val[n - 1], value); return 0; }
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
  w->value = malloc((extent + 1) * sizeof(W));
  w->list = malloc((extent + 1) * sizeof(X));
  w->stamp = calloc(extent + 1, sizeof *w->stamp);
  w->bits = calloc(extent / 64 + 1, sizeof *w->bits);
  w->turn = 1;
  return !(w->value && w->list && w->stamp && w->bits);
}

static void space_free(asp_space *w) { free(w->value), free(w->list), free(w->stamp), free(w->bits); }

static inline int space_has(const asp_space *w, X i) { return w->stamp[i] == w->turn; }

static inline void space_add(asp_space *w, X i, W value)
{
  const int is_new = w->stamp[i] != w->turn; /* no branch: it would be mispredicted every other time */
  w->list[w->n] = i;
  w->n += is_new;
  w->value[i] = plus(is_new ? (W)ZERO : w->value[i], value);
  w->stamp[i] = w->turn;
}

static void space_clear(asp_space *w)
{
  w->n = 0;
  if (++w->turn) return;
  memset(w->stamp, 0, (w->extent + 1) * sizeof *w->stamp);
  w->turn = 1;
}

static int by_index(const void *a, const void *b)
{
  const X x = *(const X *)a, y = *(const X *)b;
  return (x > y) - (x < y);
}

/* What was touched, in order: read off a set of bits where there are not too many words of it. */
static void space_sort(asp_space *w)
{
  if (w->n <= 24) {
    for (int64_t n = 1; n < w->n; n++) {
      const X x = w->list[n];
      int64_t m = n;
      for (; m > 0 && w->list[m - 1] > x; m--) w->list[m] = w->list[m - 1];
      w->list[m] = x;
    }
  } else if (w->extent / 64 < 8 * w->n) {
    for (int64_t n = 0; n < w->n; n++) w->bits[w->list[n] / 64] |= (uint64_t)1 << w->list[n] % 64;
    int64_t n = 0;
    for (int64_t word = 0; word <= w->extent / 64; word++) {
      for (uint64_t left = w->bits[word]; left; left &= left - 1) w->list[n++] = (X)(64 * word + __builtin_ctzll(left));
      w->bits[word] = 0;
    }
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
"""C source of types, growing outputs, rank-1 workspaces and searches; `TYPES` is replaced by the typedefs."""

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
"""C source that appends the buffered last mode of the output in ascending order."""

TABLE: Final = r"""
/* A workspace of any rank: entries in the order of their first touch, found by number (row-major in the order of the
 * loops around the read) through slots, one per place where there are few, else hashed. */
enum { MAX_DENSE_SLOTS = 1 << 20 };
typedef struct {
  int64_t *key, *place; W *value; int64_t n, capacity;
  int32_t *slot; int64_t n_slots; int is_dense;
  X *pos[MAX_RANK], *crd[MAX_RANK]; W *val; int64_t *sorted, *spare; int64_t room;
} asp_table;

static int table_new(asp_table *w, int64_t total)
{
  w->is_dense = total <= MAX_DENSE_SLOTS;
  w->n_slots = w->is_dense ? total + 1 : 1024;
  w->slot = calloc(w->n_slots, sizeof *w->slot);
  return !w->slot;
}

static void table_free(asp_table *w)
{
  free(w->key), free(w->place), free(w->value), free(w->slot), free(w->val), free(w->sorted), free(w->spare);
  for (int m = 0; m < MAX_RANK; m++) free(w->pos[m]), free(w->crd[m]);
}

static void table_clear(asp_table *w)
{
  if (w->n > w->n_slots / 8) memset(w->slot, 0, w->n_slots * sizeof *w->slot);
  else for (int64_t n = 0; n < w->n; n++) w->slot[w->place[n]] = 0;
  w->n = 0;
}

/* The slot of `key`: its own, or the empty one where it belongs. */
static inline int64_t table_slot(const asp_table *w, int64_t key)
{
  if (w->is_dense) return key;
  int64_t at = (int64_t)(((uint64_t)key * 0x9E3779B97F4A7C15u) >> 20) & (w->n_slots - 1);
  while (w->slot[at] && w->key[w->slot[at] - 1] != key) at = (at + 1) & (w->n_slots - 1);
  return at;
}

static inline int64_t table_find(const asp_table *w, int64_t key) { return (int64_t)w->slot[table_slot(w, key)] - 1; }

static int table_grow(asp_table *w)
{
  const int64_t capacity = 2 * w->capacity + 512;
  int64_t *key = realloc(w->key, capacity * sizeof *key);
  if (key) w->key = key;
  int64_t *place = realloc(w->place, capacity * sizeof *place);
  if (place) w->place = place;
  W *value = realloc(w->value, capacity * sizeof *value);
  if (value) w->value = value;
  if (!key || !place || !value || capacity > INT32_MAX) return 1;
  w->capacity = capacity;
  if (w->is_dense || 2 * capacity <= w->n_slots) return 0;
  int32_t *slot = calloc(4 * w->n_slots, sizeof *slot);
  if (!slot) return 1;
  free(w->slot);
  w->slot = slot, w->n_slots *= 4;
  for (int64_t n = 0; n < w->n; n++) {
    w->place[n] = table_slot(w, w->key[n]);
    w->slot[w->place[n]] = (int32_t)(n + 1);
  }
  return 0;
}

static inline int table_add(asp_table *w, int64_t key, W value)
{
  int64_t at = table_slot(w, key);
  if (w->slot[at]) { w->value[w->slot[at] - 1] = plus(w->value[w->slot[at] - 1], value); return 0; }
  if (w->n == w->capacity) {
    if (table_grow(w)) return 1;
    at = table_slot(w, key);
  }
  w->key[w->n] = key, w->place[w->n] = at, w->value[w->n] = value;
  w->slot[at] = (int32_t)++w->n;
  return 0;
}

/* Numbers of entries in ascending order of keys, in `sorted`: by bytes, from the lowest. */
static void table_sort(asp_table *w)
{
  int64_t last = 0;
  for (int64_t n = 0; n < w->n; n++) {
    w->sorted[n] = n;
    if (w->key[n] > last) last = w->key[n];
  }
  for (int shift = 0; shift < 63 && last >> shift; shift += 8) {
    int64_t first[257] = {0};
    for (int64_t n = 0; n < w->n; n++) first[(w->key[n] >> shift & 255) + 1]++;
    for (int b = 0; b < 256; b++) first[b + 1] += first[b];
    for (int64_t n = 0; n < w->n; n++) w->spare[first[w->key[w->sorted[n]] >> shift & 255]++] = w->sorted[n];
    int64_t *other = w->sorted;
    w->sorted = w->spare, w->spare = other;
  }
}

static int table_room(asp_table *w, int rank)
{
  if (w->n < w->room) return 0;
  w->room = 0;
  const int64_t room = w->capacity + 2;
  int failed = 0;
  for (int m = 0; m < rank; m++) {
    free(w->pos[m]), free(w->crd[m]);
    w->pos[m] = malloc(room * sizeof(X)), w->crd[m] = malloc(room * sizeof(X));
    failed |= !w->pos[m] || !w->crd[m];
  }
  free(w->val), free(w->sorted), free(w->spare);
  w->val = malloc(room * sizeof(W)), w->sorted = malloc(room * 8), w->spare = malloc(room * 8);
  failed |= !w->val || !w->sorted || !w->spare;
  if (!failed) w->room = room;
  return failed;
}

/* The entries as levels, one per mode: children of node p of the level above stand from crd[m][pos[m][p]] on. */
static int table_freeze(asp_table *w, int rank, const int64_t *extents)
{
  if (table_room(w, rank)) return 1;
  table_sort(w);
  X count[MAX_RANK] = {0};
  int64_t before[MAX_RANK] = {0};
  w->pos[0][0] = 0;
  for (int64_t n = 0; n < w->n; n++) {
    const int64_t entry = w->sorted[n];
    int64_t key = w->key[entry], at[MAX_RANK];
    for (int m = rank - 1; m >= 0; m--) at[m] = key % extents[m], key /= extents[m];
    int is_new = n == 0;
    for (int m = 0; m < rank; m++) {
      is_new |= at[m] != before[m] || m == rank - 1;
      before[m] = at[m];
      if (!is_new) continue;
      if (m + 1 < rank) w->pos[m + 1][count[m]] = count[m + 1];
      w->crd[m][count[m]++] = (X)at[m];
    }
    w->val[n] = w->value[entry];
  }
  w->pos[0][1] = count[0];
  for (int m = 0; m + 1 < rank; m++) w->pos[m + 1][count[m]] = count[m + 1];
  return 0;
}
"""
"""C source of workspaces of any rank: hashed or dense slots, and their conversion to a tree of levels."""

MARKS: Final = r"""
/* Where the entries of one list lie: at[i] is one more than the position of coordinate i, 0 where there is none. */
typedef struct { X *at; const X *crd; X first, last; } asp_marks;

static int marks_new(asp_marks *m, int64_t extent)
{
  m->at = calloc(extent + 1, sizeof(X));
  return !m->at;
}

static void marks_free(asp_marks *m) { free(m->at); }

static inline int marks_set(asp_marks *m, const X *crd, X first, X last)
{
  if (m->crd == crd && m->first == first && m->last == last) return 0;
  for (X p = m->first; p < m->last; p++) m->at[m->crd[p]] = 0;
  for (X p = first; p < last; p++) m->at[crd[p]] = p + 1;
  m->crd = crd, m->first = first, m->last = last;
  return 0;
}

/* Positions in first ... last - 1, at most MAX_MET, whose coordinates are marked, in order; their number. No branch
 * per coordinate: it would be mispredicted at every other one that is. */
enum { MAX_MET = 256 };
static inline int marks_meet(const asp_marks *m, const X *crd, X first, X last, X *met)
{
  int n = 0;
  for (X p = first; p < last; p++) {
    met[n] = p;
    n += m->at[crd[p]] != 0;
  }
  return n;
}
"""
"""C source of intersections by marks: an array with the position of each coordinate of one row."""
PART: Final = "static int part(void **args, const int64_t *extents, int64_t lo, int64_t hi, asp_out *out, W *result)"
"""Prototype of the function with the loops of a program."""
