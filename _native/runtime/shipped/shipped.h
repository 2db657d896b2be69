/* Generated kernels that are compiled with the runtime; tables end with a key of NULL. */
#ifndef ASP_SHIPPED_H
#define ASP_SHIPPED_H

typedef struct {
    const char *key; /* KernelSpec.key */
    void (*kernel)(void);
} asp_shipped;

/* By instruction set and value type, with indices of 64 bits where it ends in _i64. */
#define ASP_SHIPPED_TABLES(isa, type) \
    asp_shipped_##isa##_##type##_slices, asp_shipped_##isa##_##type##_sorted, asp_shipped_##isa##_##type##_blocks
/* Values from a table: where registers are wide enough for one. */
#define ASP_DICTIONARY_TABLES(isa, type) \
    asp_shipped_##isa##_##type##_slices_numbered, asp_shipped_##isa##_##type##_sorted_numbered, \
        asp_shipped_##isa##_##type##_high_gathered_numbered, asp_shipped_##isa##_##type##_high_loaded_numbered
#define ASP_SHIPPED_TYPES(tables, isa) tables(isa, f32), tables(isa, f32_i64), tables(isa, f64), tables(isa, f64_i64)

#define ASP_DECLARED(isa, type) \
    asp_shipped_##isa##_##type##_slices[], asp_shipped_##isa##_##type##_sorted[], \
        asp_shipped_##isa##_##type##_blocks[]
#define ASP_DICTIONARY_DECLARED(isa, type) \
    asp_shipped_##isa##_##type##_slices_numbered[], asp_shipped_##isa##_##type##_sorted_numbered[], \
        asp_shipped_##isa##_##type##_high_gathered_numbered[], asp_shipped_##isa##_##type##_high_loaded_numbered[]

extern const asp_shipped ASP_SHIPPED_TYPES(ASP_DECLARED, avx2), ASP_SHIPPED_TYPES(ASP_DECLARED, avx512),
    ASP_SHIPPED_TYPES(ASP_DICTIONARY_DECLARED, avx512);

#endif
