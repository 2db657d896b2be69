/* Thresholds of glibc's malloc, which programs share with this library. */
#pragma once

#include <stddef.h>
#include <stdlib.h>

#ifdef __GLIBC__
#include <stdatomic.h>

/* Largest block whose release raises the thresholds, less room for malloc's own header and a page. */
enum { ASP_MAX_RAISED_BYTES = (32 << 20) - (1 << 16) };

/* Let arrays of up to twice `bytes` come from the heap, which keeps their pages.
 *
 * glibc maps an array of 128 KiB or more anew, with a page fault for each page, until an array of this size was freed.
 * Results of A @ x are kept here instead of freed. Without this function each step of an iteration would thus fault on
 * NumPy's vectors of the same size, and take up to 1.3 times as long. */
static inline void asp_raise_heap_thresholds(size_t bytes)
{
    static _Atomic size_t raised;
    if (bytes <= atomic_load_explicit(&raised, memory_order_relaxed)) return;
    atomic_store_explicit(&raised, bytes, memory_order_relaxed);
    void *volatile block = malloc(bytes < ASP_MAX_RAISED_BYTES / 2 ? 2 * bytes : (size_t)ASP_MAX_RAISED_BYTES);
    free(block); /* volatile: the compiler keeps both calls */
}
#else
static inline void asp_raise_heap_thresholds(size_t bytes) { (void)bytes; }
#endif
