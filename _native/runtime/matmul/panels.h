/* Column panels of a dense operand B, copied to rows that begin on cache lines.
 *
 * NumPy's arrays begin 16 or 32 bytes into a cache line. A row of 128 bytes then occupies three lines instead of two,
 * and every vector load crosses a line: the product takes 1.3 to 2 times as long while B is in a core's own cache. A B
 * that is wider than that cache is processed in panels that fit it. The threads share one copy, which is faster than a
 * copy per thread.
 */
#ifndef ASP_PANELS_H
#define ASP_PANELS_H

#include <stdint.h>

typedef struct {
    int64_t width; /* bytes of a row of a panel; the last panel may be narrower */
    int64_t ld;    /* bytes between the rows of a copy */
    int copies;    /* whether copying pays */
} asp_panels;

/* Choose the panels of B (n_rows x row_bytes, `ld` bytes between rows) for a product of `n_reads` nonzeros. Their
 * width depends on sizes only, not on B's address, so neither does the order of any sum. */
asp_panels asp_choose_panels(const void *B, int64_t n_rows, int64_t row_bytes, int64_t ld, int64_t n_reads);

/* Return memory for one copied panel, which is kept between calls; NULL if no copy pays, without memory, or while
 * another thread uses it. Release it by asp_give_panel(). */
char *asp_take_panel(const asp_panels *panels, int64_t n_rows);
void asp_give_panel(void);

/* Copy `width` bytes of every row of B into the panel. */
void asp_copy_panel(char *panel, int64_t panel_ld, const char *B, int64_t ld, int64_t n_rows, int64_t width,
                    int n_threads);

#endif
