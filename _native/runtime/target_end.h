/* End the region that target_avx2.h or target_avx512.h began. Has no include guard. */
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
