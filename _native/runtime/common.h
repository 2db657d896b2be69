/* Platform macros, compiler attributes, dtype codes and small helpers that every source of the runtime uses. */
#ifndef ASP_COMMON_H
#define ASP_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "platform.h"

/* 1 where one library can hold functions for several x86 instruction sets. This needs per-function target attributes,
 * which gcc and clang have. */
#if defined(__x86_64__) && defined(__GNUC__)
#define ASP_X86 1
#else
#define ASP_X86 0
#endif
/* 1 on 64-bit ARM. */
#if defined(__aarch64__) && defined(__GNUC__)
#define ASP_ARM 1
#else
#define ASP_ARM 0
#endif

#include "isa.h"

#define ASP_INLINE static inline __attribute__((always_inline, unused))
#define ASP_NOINLINE __attribute__((noinline))

/* Linkage of tile functions. They are inlined once per number of vectors, which is then a compile-time constant.
 * With ASP_SHARED_TILES one function serves all vector counts and its loops stay loops: builds that check every access
 * would emit millions of checks otherwise, and `make dev` would compile for a minute (build_runtime.py). */
#ifdef ASP_SHARED_TILES
#define ASP_TILE static __attribute__((noinline, unused))
#else
#define ASP_TILE ASP_INLINE
#endif

/* Unroll the following loop, whose trip count is a compile-time constant, completely. Without full unrolling the
 * accumulators of the loop are kept in memory instead of registers. */
#if defined(ASP_SHARED_TILES)
#define ASP_UNROLL
#elif defined(__clang__)
#define ASP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ASP_UNROLL _Pragma("GCC unroll 32")
#endif

/* ASP_PIN and ASP_PIN_VECTOR: keep x in a general or a vector register from here on. The compiler may neither move the
 * computation of x past this point nor fold it into its uses. ASP_PIN_MEMORY: keep x in memory, which leaves registers
 * for other values. */
#if ASP_X86
#define ASP_PIN(x) __asm__("" : "+r"(x))
#define ASP_PIN_VECTOR(x) __asm__("" : "+v"(x))
#define ASP_PIN_MEMORY(x) __asm__("" : : "r"(&(x)))
#elif ASP_ARM
#define ASP_PIN(x) __asm__("" : "+r"(x))
#define ASP_PIN_VECTOR(x) __asm__("" : "+w"(x))
#define ASP_PIN_MEMORY(x) __asm__("" : : "r"(&(x)))
#else
#define ASP_PIN(x) ((void)0)
#define ASP_PIN_MEMORY(x) ((void)0)
#define ASP_PIN_VECTOR(x) ((void)0)
#endif

/* Order non-temporal (streaming) stores of this thread before all of its later stores, as other threads see them. */
#if ASP_X86
#define ASP_STREAM_END() __asm__ volatile("sfence" ::: "memory")
#else
#define ASP_STREAM_END() ((void)0)
#endif

/* Define the variable `name`, a choice that tests override by calling `hook(value)` (hooks.h), and read it by
 * ASP_FORCED(name). Its value is -1, "the runtime chooses", unless a test sets it; without ASP_HOOKS it is the
 * constant -1. */
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

/* Return codes of functions that may fail. ASP_BAD_CODE: unknown dtype, index type or option; ASP_BAD_SIZE: a negative
 * or unsupported dimension. */
enum { ASP_OK = 0, ASP_BAD_CODE = 1, ASP_NO_MEMORY = 2, ASP_BAD_SIZE = 3 };
/* Codes of value types (parameter `dtype`): float, double, and the complex numbers of either. */
enum { ASP_F32 = 0, ASP_F64 = 1, ASP_C64 = 2, ASP_C128 = 3 };
/* Further codes, of products of integers (pairs/): bool, and integers modulo a power of two. Values of a sparse operand
 * may also be stored as signed integers. */
enum { ASP_BOOL = 4, ASP_U8 = 5, ASP_U16 = 6, ASP_U32 = 7, ASP_U64 = 8, ASP_I8_STORED = 9, ASP_I64_STORED = 12 };
/* Codes of index types (parameter `itype`). */
enum { ASP_I32 = 0, ASP_I64 = 1 };

/* Call the variant of `name` that each_index.h has compiled for indices of type `itype`. */
#define ASP_BY_INDEX(itype, name, ...) ((itype) == ASP_I32 ? name##_int32(__VA_ARGS__) : name##_int64(__VA_ARGS__))
/* Call the variant of `name` for the value type `dtype`: NAME(name_0) for float, _1 for double, _2 and _3 for their
 * complex types. NAME adds the index type's suffix. */
#define ASP_BY_DTYPE(dtype, name, ...)                  \
    switch (dtype) {                                    \
    case 0: NAME(name##_0)(__VA_ARGS__); break;         \
    case 1: NAME(name##_1)(__VA_ARGS__); break;         \
    case 2: NAME(name##_2)(__VA_ARGS__); break;         \
    default: NAME(name##_3)(__VA_ARGS__); break;        \
    }
/* Call DEFINE(code, C type) for each value type. */
#define ASP_EACH_DTYPE(DEFINE) \
    DEFINE(0, float) DEFINE(1, double) DEFINE(2, float _Complex) DEFINE(3, double _Complex)

/* Return element k of an array of int32 or int64 indices. */
ASP_INLINE int64_t asp_index_at(int itype, const void *indices, int64_t k)
{
    return itype == ASP_I32 ? ((const int32_t *)indices)[k] : ((const int64_t *)indices)[k];
}

/* Store `value` at crd[at], an array of 16-, 32- or 64-bit coordinates. */
ASP_INLINE void asp_put(void *crd, int bits, int64_t at, int64_t value)
{
    switch (bits) {
    case 16: ((uint16_t *)crd)[at] = (uint16_t)value; break;
    case 32: ((int32_t *)crd)[at] = (int32_t)value; break;
    default: ((int64_t *)crd)[at] = value; break;
    }
}

/* A CSR matrix that packing functions read. The arrays are borrowed; the index and value types are passed beside it. */
typedef struct {
    int64_t n_rows, n_cols;
    const void *indptr, *indices, *data;
} asp_pattern;

ASP_INLINE int64_t asp_min(int64_t a, int64_t b) { return a < b ? a : b; }
ASP_INLINE int64_t asp_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Granularity in bytes of memory that one thread writes repeatedly while other threads write beside it. It is two
 * cache lines, because x86 prefetchers fetch lines in pairs: smaller units would cause false sharing. */
enum { ASP_OWN_BYTES = 128 };
/* Return `bytes` rounded up to a positive multiple of ASP_OWN_BYTES. */
ASP_INLINE int64_t asp_own_bytes(int64_t bytes)
{
    return asp_max(1, (bytes + ASP_OWN_BYTES - 1) / ASP_OWN_BYTES) * ASP_OWN_BYTES;
}
/* Return n_threads blocks of asp_own_bytes(bytes) bytes each, uninitialised, or NULL. Release them by asp_free_aligned(). */
ASP_INLINE void *asp_take_own(int64_t n_threads, int64_t bytes)
{
    return asp_take_aligned(ASP_OWN_BYTES, (size_t)(n_threads * asp_own_bytes(bytes)));
}

#endif
