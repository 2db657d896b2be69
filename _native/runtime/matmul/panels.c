/* Column panels of a dense operand: when to copy, and the buffer that holds one panel; see panels.h. */
#include "panels.h"

#include "common.h"

#include <stdatomic.h>

#include "matmul.h"
#include "pool_api.h"

#if ASP_HAVE_THREADS
#include <pthread.h>
#endif

enum { LINE = 64 };
enum { NARROWEST = 128 };     /* minimum bytes of a panel's row: narrower ones read A too often */
enum { READS_PER_COPY = 70 };  /* reads per row of B from which copying it always pays */
enum { READS_PER_PANEL = 32 }; /* the same for panels of a B that is larger than a core's own cache */
enum { READS_IF_DEAR = 1000 }; /* reads per row of a B that fits, where copies are expensive; panels never pay there */
enum { COPY_ROWS_MIN = 64 }; /* minimum number of rows per range of a thread */
enum { PAGE = 4096 };

/* The process's only panel buffer; `taken` is its lock, held from asp_take_panel to asp_give_panel. */
static struct {
    atomic_flag taken;
    char *memory;
    size_t bytes;
} scratch = {.taken = ATOMIC_FLAG_INIT};

#if ASP_HAVE_THREADS
/* Reset the buffer in the child of a fork: a thread that was using or resizing it does not exist there. */
static void forget_user(void)
{
    if (!atomic_flag_test_and_set_explicit(&scratch.taken, memory_order_acquire)) {
        asp_give_panel();
        return;
    }
    scratch.memory = NULL; /* its pointer may be stale */
    scratch.bytes = 0;
    asp_give_panel();
}
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void install_fork_handler(void) { pthread_atfork(NULL, NULL, forget_user); }
static void watch_forks(void) { pthread_once(&once, install_fork_handler); }
#else
static void watch_forks(void) {}
#endif

ASP_FORCIBLE(forced_copies, asp_force_copies)

/* Return whether reading data that another thread has just written is slow. On an AMD EPYC (Zen 5), whose last-level
 * cache is half as fast as a core's own, a copy shared by two threads made most products 1.2 to 4 times as slow. On
 * Intel's servers it made them 1.3 to 2 times as fast. */
static int copies_are_dear(void)
{
    const int wish = ASP_FORCED(forced_copies);
    if (wish >= 0) return !wish;
    return asp_amd_family() > 0;
}

asp_panels asp_choose_panels(const void *B, int64_t n_rows, int64_t row_bytes, int64_t ld, int64_t n_reads)
{
    const int64_t cache_bytes = asp_private_cache_bytes() * 3 / 4;
    int64_t width = (row_bytes + LINE - 1) / LINE * LINE;
    asp_panels panels = {row_bytes, width, 0};
    const int is_dear = copies_are_dear(), fits = n_rows * width <= cache_bytes;
    const int64_t reads = is_dear                                        ? READS_IF_DEAR
                          : n_rows * width <= asp_private_cache_bytes() ? READS_PER_COPY
                                                                        : READS_PER_PANEL;
    if (is_dear && !fits) return panels;
    if (n_reads < reads * n_rows || row_bytes < LINE) return panels;
    if (fits) {
        panels.copies = ((uintptr_t)B | (uintptr_t)ld) % LINE != 0;
        return panels;
    }
    while (width > NARROWEST && n_rows * width > cache_bytes) width = (width / LINE + 1) / 2 * LINE;
    return n_rows * width <= cache_bytes ? (asp_panels){width, width, 1} : panels;
}

char *asp_take_panel(const asp_panels *panels, int64_t n_rows)
{
    const size_t bytes = ((size_t)(panels->ld * n_rows) + PAGE - 1) / PAGE * PAGE;
    if (!panels->copies) return NULL;
    watch_forks();
    if (atomic_flag_test_and_set_explicit(&scratch.taken, memory_order_acquire)) return NULL;
    if (scratch.bytes < bytes) {
        asp_free_aligned(scratch.memory);
        scratch.memory = asp_take_aligned(PAGE, bytes);
        scratch.bytes = scratch.memory ? bytes : 0;
    }
    if (scratch.memory) return scratch.memory;
    asp_give_panel();
    return NULL;
}

void asp_give_panel(void) { atomic_flag_clear_explicit(&scratch.taken, memory_order_release); }

/* Arguments of copy_task. */
typedef struct {
    char *panel;
    const char *B;
    int64_t panel_ld, ld, width;
} copy;

static void copy_task(void *context, int64_t begin, int64_t end)
{
    const copy *job = context;
    const int64_t width = job->width, lines = width / LINE * LINE;
    for (int64_t i = begin; i < end; i++) {
        char *to = job->panel + i * job->panel_ld;
        const char *from = job->B + i * job->ld;
        for (int64_t at = 0; at < lines; at += LINE) memcpy(to + at, from + at, LINE);
        if (lines < width) memcpy(to + lines, from + lines, (size_t)(width - lines));
    }
}

void asp_copy_panel(char *panel, int64_t panel_ld, const char *B, int64_t ld, int64_t n_rows, int64_t width,
                    int n_threads)
{
    copy job = {panel, B, panel_ld, ld, width};
    asp_parallel(copy_task, &job, n_rows, COPY_ROWS_MIN, n_rows, n_threads, 0.06 * (double)(n_rows * width));
}
