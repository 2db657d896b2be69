/* What every source of the runtime shares: system facts, and words for the compiler. */
#ifndef ASP_COMMON_H
#define ASP_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__unix__) || defined(__APPLE__)
#define ASP_HAVE_THREADS 1
#else
#define ASP_HAVE_THREADS 0
#endif

/* Kernels for several instruction sets in one library need per-function targets (gcc, clang). */
#if defined(__x86_64__) && defined(__GNUC__)
#define ASP_X86 1
#else
#define ASP_X86 0
#endif

#define ASP_INLINE static inline __attribute__((always_inline, unused))
#define ASP_NOINLINE __attribute__((noinline))

/* Loops over a compile-time count of vectors: without full unrolling the accumulators live in memory. */
#ifdef __clang__
#define ASP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ASP_UNROLL _Pragma("GCC unroll 32")
#endif

/* The value is made here and kept in a register: the compiler may neither move it nor fold it into its uses. */
#if ASP_X86
#define ASP_PIN(x) __asm__("" : "+r"(x))
#define ASP_PIN_VECTOR(x) __asm__("" : "+v"(x))
#else
#define ASP_PIN(x) ((void)0)
#define ASP_PIN_VECTOR(x) ((void)0)
#endif

/* Stores past the caches are seen by other threads before whatever this one stores later. */
#if ASP_X86
#define ASP_STREAM_END() __asm__ volatile("sfence" ::: "memory")
#else
#define ASP_STREAM_END() ((void)0)
#endif

#define ASP_GLUE_(a, b, c, d) a##_##b##_##c##_##d
#define ASP_GLUE(a, b, c, d) ASP_GLUE_(a, b, c, d)

enum { ASP_OK = 0, ASP_BAD_CODE = 1, ASP_NO_MEMORY = 2, ASP_BAD_SIZE = 3 };
enum { ASP_F32 = 0, ASP_F64 = 1, ASP_C64 = 2, ASP_C128 = 3 };
enum { ASP_I32 = 0, ASP_I64 = 1 };

ASP_INLINE int64_t asp_min(int64_t a, int64_t b) { return a < b ? a : b; }
ASP_INLINE int64_t asp_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Memory that one thread writes again and again while others write beside it begins with a pair of lines (they are
 * fetched in pairs) and ends with one. */
enum { ASP_OWN_BYTES = 128 };
ASP_INLINE int64_t asp_own_bytes(int64_t bytes)
{
    return asp_max(1, (bytes + ASP_OWN_BYTES - 1) / ASP_OWN_BYTES) * ASP_OWN_BYTES;
}
/* n_threads times so much; given back by free(). */
ASP_INLINE void *asp_take_own(int64_t n_threads, int64_t bytes)
{
    return aligned_alloc(ASP_OWN_BYTES, (size_t)(n_threads * asp_own_bytes(bytes)));
}

#endif
