/* Column panels of a dense operand B, copied to rows that begin on cache lines.
 *
 * NumPy's arrays begin 16 or 32 bytes into a cache line. A row of 128 bytes then lies in three lines instead of two,
 * and every vector that is loaded lies in two: measured 1.3 to 2 times the product's time while B is in a core's own
 * cache. A B that is wider than that cache is taken in panels that fit it. The threads share one copy (measured
 * faster than a copy for each).
 */
#ifndef ASP_PANELS_H
#define ASP_PANELS_H

#include <stdint.h>

typedef struct {
    int64_t width; /* bytes of a row of a panel; the last one may be narrower */
    int64_t ld;    /* bytes between the rows of a copy */
    int copies;    /* whether copying pays */
} asp_panels;

/* Panels of B (n_rows x row_bytes, `ld` bytes between rows) for a product of `n_reads` nonzeros. Their width depends on
 * sizes only, not on where B lies; so does then the order of every sum. */
asp_panels asp_choose_panels(const void *B, int64_t n_rows, int64_t row_bytes, int64_t ld, int64_t n_reads);

/* Memory for one copied panel, kept from call to call; NULL when none is wanted, there is none or it is in use. */
char *asp_take_panel(const asp_panels *panels, int64_t n_rows);
void asp_give_panel(void);

/* Copy `width` bytes of every row. */
void asp_copy_panel(char *panel, int64_t panel_ld, const char *B, int64_t ld, int64_t n_rows, int64_t width,
                    int n_threads);

#endif
