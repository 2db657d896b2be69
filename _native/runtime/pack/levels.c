/* Conversion of coordinates to the levels of a storage format, for operands of any order: one key per entry, a radix
 * sort, one pass.
 *
 * A key holds the coordinates of all levels in order, so that whole numbers are sorted. The outermost level in which
 * an entry differs from the previous one follows from the highest bit in which their keys differ. Levels that are not
 * sorted by (those below the last compressed level, or that level itself if it is the last of all) are carried along.
 */
#include "common.h"

#include "levels_api.h"
#include "pool_api.h"

/* Kinds of levels, as in asp_level_order. */
enum { UNCOMPRESSED = 0, COMPRESSED = 1, NONUNIQUE = 2, SINGLETON = 3 };
enum { MAX_LEVELS = 12, DIGIT_BITS = 11, MAX_BLOCKS = 16, BLOCK_MIN = 1 << 15 };
#define MAX_ENTRIES ((int64_t)UINT32_MAX - 1)

/* Keys of up to 127 bits. */
typedef unsigned __int128 wide_key;

/* Sorted entries, between asp_sort_entries and asp_free_entries. */
struct asp_sorted {
    asp_level_order order;
    int shift[MAX_LEVELS + 1]; /* position of each level's field in a key; [n_levels]: 0 */
    int bits[MAX_LEVELS];
    int key_bits, low_bit; /* bits of a key; entries are sorted by the fields from low_bit on */
    void *entries;
};

/* Return the number of bits of coordinates below `extent`. */
static int bits_of(int64_t extent)
{
    return extent > 1 ? 64 - __builtin_clzll((uint64_t)(extent - 1)) : 0;
}

/* Return the coordinate of entry e in level d. */
ASP_INLINE int64_t coordinate(const asp_level_order *o, int d, int64_t e)
{
    const int64_t x = asp_index_at(o->itype, o->coords[d], e);
    const int64_t split = o->split[d];
    if (split == 1) return x;
    if ((split & (split - 1)) == 0) {
        const int shift = __builtin_ctzll((uint64_t)split);
        return o->is_outer[d] ? x >> shift : x & (split - 1);
    }
    return o->is_outer[d] ? x / split : x % split;
}

#define KEY uint64_t
#define NAME(x) x##_64
#include "levels_body.h"
#undef KEY
#undef NAME
#define KEY wide_key
#define NAME(x) x##_128
#include "levels_body.h"
#undef KEY
#undef NAME

asp_sorted *asp_sort_entries(const asp_level_order *order, int64_t *n_listed, int *in_order)
{
    asp_sorted *s = order->nnz <= MAX_ENTRIES ? calloc(1, sizeof *s) : NULL;
    if (!s) return NULL;
    s->order = *order;
    for (int d = (int)order->n_levels - 1; d >= 0; --d) {
        s->bits[d] = bits_of(order->extent[d]);
        s->shift[d] = s->key_bits;
        s->key_bits += s->bits[d];
    }
    s->low_bit = order->n_sorted ? s->shift[order->n_sorted - 1] : s->key_bits;
    int ok = 0;
    if (s->key_bits < 64) ok = sort_64(s, n_listed, in_order);
    else if (s->key_bits < 128) ok = sort_128(s, n_listed, in_order);
    if (ok) return s;
    asp_free_entries(s);
    return NULL;
}

void asp_write_levels(const asp_sorted *s, int pos_bits, void *const *pos, int crd_bits, void *const *crd, void *numbers,
                      int64_t *positions)
{
    if (s->key_bits < 64) write_64(s, pos_bits, pos, crd_bits, crd, numbers, positions);
    else write_128(s, pos_bits, pos, crd_bits, crd, numbers, positions);
}

void asp_free_entries(asp_sorted *s)
{
    free(s->entries);
    free(s);
}

#define ADD_AT(R, I)                                                                                           \
    static void add_at_##R##_##I(int64_t n, const R *values, const I *numbers, const int64_t *positions, R *to) \
    {                                                                                                          \
        for (int64_t q = 0; q < n; ++q) to[positions[q]] += values[numbers ? (int64_t)numbers[q] : q];          \
    }
ADD_AT(float, int32_t)
ADD_AT(float, int64_t)
ADD_AT(double, int32_t)
ADD_AT(double, int64_t)

void asp_add_at(int dtype, int itype, int64_t n, const void *values, const void *numbers, const int64_t *positions,
                void *to)
{
    if (dtype == ASP_F32) {
        if (itype == ASP_I32) add_at_float_int32_t(n, values, numbers, positions, to);
        else add_at_float_int64_t(n, values, numbers, positions, to);
    } else if (itype == ASP_I32) add_at_double_int32_t(n, values, numbers, positions, to);
    else add_at_double_int64_t(n, values, numbers, positions, to);
}
