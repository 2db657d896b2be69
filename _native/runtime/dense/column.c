/* Dense columns with strides, and the sizes of the caches. */
#include "matmul.h"

#include <stdio.h>

#if ASP_HAVE_THREADS
#include <unistd.h>
#endif
#if ASP_X86
#include <cpuid.h>
#endif

int64_t asp_private_cache_bytes(void)
{
    static _Atomic int64_t known = 0;
    int64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes) return bytes;
    bytes = 1 << 20;
#if defined(_SC_LEVEL2_CACHE_SIZE)
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (l2 >= 1 << 17 && l2 <= 1 << 24) bytes = l2;
#endif
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
    return bytes;
}

/* Read from sysfs, because sysconf reports the cache of a whole socket or of one core for AMD processors. */
int64_t asp_last_cache_bytes(void)
{
    static _Atomic int64_t known = 0;
    int64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes) return bytes;
    bytes = 32 << 20;
    FILE *told = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    long kib;
    if (told) {
        if (fscanf(told, "%ldK", &kib) == 1 && kib >= 1 << 10 && kib <= 1 << 21) bytes = (int64_t)kib << 10;
        fclose(told);
    }
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
    return bytes;
}

int asp_amd_family(void)
{
    int family = 0;
#if ASP_X86
    static _Atomic int known = -1; /* the CPUID instruction takes tens of microseconds in virtual machines */
    family = atomic_load_explicit(&known, memory_order_relaxed);
    if (family >= 0) return family;
    unsigned a = 0, b, c, d;
    __builtin_cpu_init();
    const int is_told = __builtin_cpu_is("amd") && __get_cpuid(1, &a, &b, &c, &d);
    family = !is_told ? 0 : (int)((a >> 8 & 0xf) < 0xf ? a >> 8 & 0xf : 0xf + (a >> 20 & 0xff));
    atomic_store_explicit(&known, family, memory_order_relaxed);
#endif
    return family;
}

int asp_column_in(asp_column *out, const void *column, int64_t n, int64_t stride, int64_t element_bytes)
{
    out->owned = NULL;
    out->elements = (char *)(uintptr_t)column;
    if (stride == 1 || n < 2) return ASP_OK;
    out->owned = malloc((size_t)(n * element_bytes));
    if (!out->owned) return ASP_NO_MEMORY;
    out->elements = out->owned;
    const char *from = column;
    char *to = out->elements;
    const int64_t step = stride * element_bytes;
    if (element_bytes < 4)
        for (int64_t i = 0; i < n; i++, from += step) memcpy(to + element_bytes * i, from, (size_t)element_bytes);
    else if (element_bytes == 4)
        for (int64_t i = 0; i < n; i++, from += step) memcpy(to + 4 * i, from, 4);
    else if (element_bytes == 8)
        for (int64_t i = 0; i < n; i++, from += step) memcpy(to + 8 * i, from, 8);
    else
        for (int64_t i = 0; i < n; i++, from += step) memcpy(to + 16 * i, from, 16);
    return ASP_OK;
}

void asp_column_out(asp_column *in, void *column, int64_t n, int64_t stride, int64_t element_bytes)
{
    if (!in->owned) return;
    char *to = column;
    for (int64_t i = 0; i < n; i++, to += stride * element_bytes)
        memcpy(to, in->elements + i * element_bytes, (size_t)element_bytes);
    free(in->owned);
    in->owned = NULL;
}
