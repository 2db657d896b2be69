/* Memory on huge pages, and areas of them from which blocks below a huge page are cut one after the other (output.c). One
 * fault for 2 MiB takes a tenth of the time of 512 faults. */
#ifndef ASP_HUGE_PAGES_H
#define ASP_HUGE_PAGES_H

#include <stddef.h>

/* Sizes in bytes; AREA_START is the place of an area's first block. */
enum { HUGE_PAGE = 2 << 20, AREA_BYTES = 8 << 20, AREA_START = 64 };

/* Start of an area. */
typedef struct {
    size_t used;
    int n_users; /* blocks, and one while it is `current` */
} area;

#ifdef __linux__
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Map at least `bytes` bytes at a multiple of HUGE_PAGE; NULL without memory. The mapping is one area of the system,
 * without which it could not be moved. */
static char *map(size_t bytes)
{
    char *begin = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) return NULL;
    char *start = (char *)(((uintptr_t)begin + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    if (start > begin) munmap(begin, (size_t)(start - begin));
    if (start < begin + HUGE_PAGE) munmap(start + bytes, (size_t)(begin + HUGE_PAGE - start));
#ifdef MADV_HUGEPAGE
    madvise(start, bytes, MADV_HUGEPAGE);
#endif
    return start;
}

/* Return the size of a mapping for `all` bytes, of which the first `used` are used at once. A last huge page is whole only
 * where that adds at most an eighth to these: the system fills all of it at the first write. */
static size_t mapped_bytes(size_t used, size_t all)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t unit = (HUGE_PAGE - used % HUGE_PAGE) % HUGE_PAGE <= used / 8 ? HUGE_PAGE : page;
    return (all + unit - 1) / unit * unit;
}

static area *current;

static void leave(area *shared)
{
    if (shared && !__atomic_sub_fetch(&shared->n_users, 1, __ATOMIC_ACQ_REL)) munmap(shared, AREA_BYTES);
}

/* Cut a block of `bytes` bytes, a multiple of AREA_START, from the current area or a new one, which `of` receives; NULL
 * without memory. One thread at a time may call it. */
static char *cut(size_t bytes, area **of)
{
    if (!current || current->used + bytes > AREA_BYTES) {
        area *made = (area *)map(AREA_BYTES);
        if (!made) return NULL;
        *made = (area){AREA_START, 1};
        leave(current);
        current = made;
    }
    char *block = (char *)current + current->used;
    current->used += bytes;
    __atomic_add_fetch(&current->n_users, 1, __ATOMIC_RELAXED);
    *of = current;
    return block;
}

/* Return the pages of a block of the area `shared` to the system, but for a first and a last one that it may share. */
static void give_up(void *block, size_t bytes, area *shared)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = ((uintptr_t)block + page - 1) / page * page, end = ((uintptr_t)block + bytes) / page * page;
    if (end > first) madvise((void *)first, end - first, MADV_DONTNEED);
    leave(shared);
}
#endif

#endif
