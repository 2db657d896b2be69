/* Tables of generated kernels by instruction set, written by tools/shipped_kernels.py: do not edit. */
#define ASP_SHIPPED_baseline(X)
#define ASP_SHIPPED_avx2(X) \
    X(avx2_f32_slices) \
    X(avx2_f32_sorted) \
    X(avx2_f32_rows) \
    X(avx2_f32_double) \
    X(avx2_f32_blocks) \
    X(avx2_f32_i64_slices) \
    X(avx2_f32_i64_sorted) \
    X(avx2_f32_i64_rows) \
    X(avx2_f32_i64_double) \
    X(avx2_f32_i64_blocks) \
    X(avx2_f64_slices) \
    X(avx2_f64_sorted) \
    X(avx2_f64_rows) \
    X(avx2_f64_double) \
    X(avx2_f64_blocks) \
    X(avx2_f64_i64_slices) \
    X(avx2_f64_i64_sorted) \
    X(avx2_f64_i64_rows) \
    X(avx2_f64_i64_double) \
    X(avx2_f64_i64_blocks)
#define ASP_SHIPPED_avx512(X) \
    X(avx512_f32_slices) \
    X(avx512_f32_slices_numbered) \
    X(avx512_f32_sorted) \
    X(avx512_f32_sorted_numbered) \
    X(avx512_f32_rows) \
    X(avx512_f32_double) \
    X(avx512_f32_high_gathered_numbered) \
    X(avx512_f32_high_loaded_numbered) \
    X(avx512_f32_blocks) \
    X(avx512_f32_i64_slices) \
    X(avx512_f32_i64_slices_numbered) \
    X(avx512_f32_i64_sorted) \
    X(avx512_f32_i64_sorted_numbered) \
    X(avx512_f32_i64_rows) \
    X(avx512_f32_i64_double) \
    X(avx512_f32_i64_high_gathered_numbered) \
    X(avx512_f32_i64_high_loaded_numbered) \
    X(avx512_f32_i64_blocks) \
    X(avx512_f64_slices) \
    X(avx512_f64_slices_numbered) \
    X(avx512_f64_sorted) \
    X(avx512_f64_sorted_numbered) \
    X(avx512_f64_rows) \
    X(avx512_f64_double) \
    X(avx512_f64_high_gathered_numbered) \
    X(avx512_f64_high_loaded_numbered) \
    X(avx512_f64_blocks) \
    X(avx512_f64_i64_slices) \
    X(avx512_f64_i64_slices_numbered) \
    X(avx512_f64_i64_sorted) \
    X(avx512_f64_i64_sorted_numbered) \
    X(avx512_f64_i64_rows) \
    X(avx512_f64_i64_double) \
    X(avx512_f64_i64_high_gathered_numbered) \
    X(avx512_f64_i64_high_loaded_numbered) \
    X(avx512_f64_i64_blocks)
#define ASP_SHIPPED_neon(X)
enum { ASP_SHIPPED_TABLES = 36 };
