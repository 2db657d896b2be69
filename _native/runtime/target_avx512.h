/* From here to target_end.h functions may use AVX-512 with F, VL, DQ and BW (not guarded). */
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt")
#endif
