/* Dictionary encoding of values; see dictionary_api.h. A hash of a value's bits gives the dictionary entry that is
 * compared first. */
#include "common.h"
#include "dictionary_api.h"

/* Maximum size of the dictionary, and of the hash table. */
enum { MAX_VALUES = 16, SLOTS = 256 };

#define NUMBER(WORD, MULTIPLIER, SHIFT)                                                                              \
    static int number_##WORD(int64_t n, const WORD *values, WORD *table, uint8_t *numbers)                           \
    {                                                                                                                \
        uint8_t first[SLOTS] = {0};                                                                                  \
        int count = 1;                                                                                               \
        memset(table, 0, MAX_VALUES * sizeof *table);                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                            \
            const WORD value = values[i];                                                                            \
            uint8_t *const slot = &first[(WORD)(value * MULTIPLIER) >> SHIFT];                                       \
            int at = *slot;                                                                                          \
            if (table[at] != value) {                                                                                \
                for (at = 0; at < count && table[at] != value; at++)                                                 \
                    ;                                                                                                \
                if (at == MAX_VALUES)                                                                                \
                    return -1;                                                                                       \
                if (at == count)                                                                                     \
                    table[count++] = value;                                                                          \
                *slot = (uint8_t)at;                                                                                 \
            }                                                                                                        \
            if (numbers)                                                                                             \
                numbers[i] = (uint8_t)at;                                                                            \
        }                                                                                                            \
        return count;                                                                                                \
    }
NUMBER(uint32_t, UINT32_C(0x9e3779b1), 24)
NUMBER(uint64_t, UINT64_C(0x9e3779b97f4a7c15), 56)

int asp_number_values(int dtype, int64_t n, const void *values, void *table, uint8_t *numbers)
{
    return dtype == 0 ? number_uint32_t(n, values, table, numbers) : number_uint64_t(n, values, table, numbers);
}
