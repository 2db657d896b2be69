/* Generated kernels that are compiled with the runtime; tables end with a key of NULL. */
#ifndef ASP_SHIPPED_H
#define ASP_SHIPPED_H

typedef struct {
    const char *key; /* KernelSpec.key */
    void (*kernel)(void);
} asp_shipped;

#define ASP_SHIPPED_TABLES(isa)                                                                       \
    asp_shipped_##isa##_f32_slices, asp_shipped_##isa##_f32_sorted, asp_shipped_##isa##_f32_blocks,   \
        asp_shipped_##isa##_f64_slices, asp_shipped_##isa##_f64_sorted, asp_shipped_##isa##_f64_blocks
/* Values from a table: where registers are wide enough for one. */
#define ASP_NUMBERED_TABLES(isa)                                                      \
    asp_shipped_##isa##_f32_slices_numbered, asp_shipped_##isa##_f32_sorted_numbered, \
        asp_shipped_##isa##_f64_slices_numbered, asp_shipped_##isa##_f64_sorted_numbered

extern const asp_shipped asp_shipped_avx2_f32_slices[], asp_shipped_avx2_f32_sorted[], asp_shipped_avx2_f32_blocks[],
    asp_shipped_avx2_f64_slices[], asp_shipped_avx2_f64_sorted[], asp_shipped_avx2_f64_blocks[],
    asp_shipped_avx512_f32_slices[], asp_shipped_avx512_f32_sorted[], asp_shipped_avx512_f32_blocks[],
    asp_shipped_avx512_f64_slices[], asp_shipped_avx512_f64_sorted[], asp_shipped_avx512_f64_blocks[],
    asp_shipped_avx512_f32_slices_numbered[], asp_shipped_avx512_f32_sorted_numbered[],
    asp_shipped_avx512_f64_slices_numbered[], asp_shipped_avx512_f64_sorted_numbered[];

#endif
