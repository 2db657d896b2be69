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

/* Tiles are compiled once for each count of vectors, which is a constant in them. Where every access is checked, that
 * is millions of checks: there, one function serves all counts, and its loops stay loops (build_runtime.py). */
#ifdef ASP_CHECKED
#define ASP_TILE static __attribute__((noinline, unused))
#else
#define ASP_TILE ASP_INLINE
#endif

/* Loops over a compile-time count of vectors: without full unrolling the accumulators live in memory. */
#if defined(ASP_CHECKED)
#define ASP_UNROLL
#elif defined(__clang__)
#define ASP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ASP_UNROLL _Pragma("GCC unroll 32")
#endif

/* The value is made here and kept in a register: the compiler may neither move it nor fold it into its uses.
 * ASP_PIN_MEMORY: it lives in memory, so that registers are left for others. */
#if ASP_X86
#define ASP_PIN(x) __asm__("" : "+r"(x))
#define ASP_PIN_VECTOR(x) __asm__("" : "+v"(x))
#define ASP_PIN_MEMORY(x) __asm__("" : : "r"(&(x)))
#else
#define ASP_PIN(x) ((void)0)
#define ASP_PIN_MEMORY(x) ((void)0)
#define ASP_PIN_VECTOR(x) ((void)0)
#endif

/* Stores past the caches are seen by other threads before whatever this one stores later. */
#if ASP_X86
#define ASP_STREAM_END() __asm__ volatile("sfence" ::: "memory")
#else
#define ASP_STREAM_END() ((void)0)
#endif

/* A choice that tests can force by calling `hook` (hooks.h): without hooks it is always -1, as the runtime chooses. */
#ifdef ASP_HOOKS
#define ASP_FORCIBLE(name, hook)   \
    static _Atomic int name = -1;  \
    void hook(int to);             \
    void hook(int to) { atomic_store_explicit(&name, to, memory_order_relaxed); }
#define ASP_FORCED(name) atomic_load_explicit(&name, memory_order_relaxed)
#else
#define ASP_FORCIBLE(name, hook) enum { name = -1 };
#define ASP_FORCED(name) ((int)name)
#endif

#define ASP_GLUE_(a, b, c, d) a##_##b##_##c##_##d
#define ASP_GLUE(a, b, c, d) ASP_GLUE_(a, b, c, d)

enum { ASP_OK = 0, ASP_BAD_CODE = 1, ASP_NO_MEMORY = 2, ASP_BAD_SIZE = 3 };
enum { ASP_F32 = 0, ASP_F64 = 1, ASP_C64 = 2, ASP_C128 = 3 };
enum { ASP_I32 = 0, ASP_I64 = 1 };

/* What each_index.h has made of `name`, for indices of type `itype`. */
#define ASP_BY_INDEX(itype, name, ...) ((itype) == ASP_I32 ? name##_int32(__VA_ARGS__) : name##_int64(__VA_ARGS__))
/* What a body has made of `name` for the value type `dtype`: NAME(name_0) for float, 1 double, 2 and 3 their complex. */
#define ASP_BY_DTYPE(dtype, name, ...)                  \
    switch (dtype) {                                    \
    case 0: NAME(name##_0)(__VA_ARGS__); break;         \
    case 1: NAME(name##_1)(__VA_ARGS__); break;         \
    case 2: NAME(name##_2)(__VA_ARGS__); break;         \
    default: NAME(name##_3)(__VA_ARGS__); break;        \
    }
#define ASP_EACH_DTYPE(DEFINE) \
    DEFINE(0, float) DEFINE(1, double) DEFINE(2, float _Complex) DEFINE(3, double _Complex)

ASP_INLINE int64_t asp_index_at(int itype, const void *indices, int64_t k)
{
    return itype == ASP_I32 ? ((const int32_t *)indices)[k] : ((const int64_t *)indices)[k];
}

/* Coordinates as formats store them: of 16, 32 or 64 bits. */
ASP_INLINE void asp_put(void *crd, int bits, int64_t at, int64_t value)
{
    switch (bits) {
    case 16: ((uint16_t *)crd)[at] = (uint16_t)value; break;
    case 32: ((int32_t *)crd)[at] = (int32_t)value; break;
    default: ((int64_t *)crd)[at] = value; break;
    }
}

/* A matrix in compressed rows, as packers read it. */
typedef struct {
    int64_t n_rows, n_cols;
    const void *indptr, *indices, *data;
} asp_pattern;

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
