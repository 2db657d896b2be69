/* End the region that isa_begin.h began. Has no include guard. */
#ifdef ISA_HAS_TARGET
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
#undef ISA
#undef VBYTES
#undef VEC_HEADER
#undef ISA_HAS_TARGET
#undef ISA_BY_LOADS
#undef SPMV_HEADER
#undef SPMV_PLAIN
#undef REST_CASES
#undef TILE_MAX_REAL
#undef TILE_CASES_REAL
#undef SHIFT_MIN
#undef SHIFT_CASES
#undef IDENTICAL_REGISTERS
#undef TILE_MAX_COMPLEX
#undef TILE_CASES_COMPLEX
#undef BLOCK_CASES_1
#undef BLOCK_CASES_4
#undef BLOCK_CASES_8
#undef BLOCK_MAX
#undef RESIDENT_MAX
