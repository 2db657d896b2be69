/* What differs between operating systems, threads and aligned memory, and a clock. Included by common.h. */
#ifndef ASP_PLATFORM_H
#define ASP_PLATFORM_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* 1 where there are POSIX threads; elsewhere the caller computes every product (threads/alone.c). wakeup.h has a
 * condition variable where there is no futex, placing.c no affinity, and limits.c and waiting.c do without /proc. */
#if defined(__unix__) || defined(__APPLE__)
#define ASP_HAVE_THREADS 1
#else
#define ASP_HAVE_THREADS 0
#endif

#ifdef _WIN32
#include <malloc.h>
/* Return uninitialised memory at a multiple of `alignment`, a power of two, or NULL; released by asp_free_aligned. */
static inline void *asp_take_aligned(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }
static inline void asp_free_aligned(void *memory) { _aligned_free(memory); }
#else
static inline void *asp_take_aligned(size_t alignment, size_t bytes)
{
    void *memory = NULL;
    return posix_memalign(&memory, alignment, bytes) ? NULL : memory;
}
static inline void asp_free_aligned(void *memory) { free(memory); }
#endif

/* Tell the processor that this is a spin loop. */
static inline void asp_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Return the monotonic time in nanoseconds. */
static inline int64_t asp_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
