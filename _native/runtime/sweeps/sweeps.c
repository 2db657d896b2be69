/* Sweeps: programs of vector operations, executed chunk by chunk on the pool's threads, with sums that are added by
 * chunks. */
#include "sweeps.h"

#include <stdatomic.h>

#include "kernel_api.h"
#include "matmul.h"
#include "matmul_api.h"
#include "pool_api.h"
#include "sweeps_api.h"

enum { CHUNK_BYTES = 8192 };   /* bytes of one vector per chunk: a chunk's vectors stay in the L1 cache between steps */
enum { MAX_LANES = 16 };      /* reals of the widest vectors */
enum { PERIOD_REALS = 64 };    /* minimum number of reals of the rows that share coefficients of columns */
enum { STACK_BYTES = 16384 };
enum { PARTED_ROWS = 1 << 14 }; /* minimum rows of a product of which threads take single parts: shorter parts cost time */
enum { CACHED_BYTES = 1 << 20 };                        /* size that stays in a core's own cache */
static const double CACHED_NS = 0.03, STREAMED_NS = 0.08; /* estimated ns per byte on one thread */

static int is_complex(int dtype) { return dtype >= ASP_C64; }
static int real_bytes(int dtype) { return dtype == ASP_F32 || dtype == ASP_C64 ? 4 : 8; }

/* Return the operations for a dtype and the instruction set in use. */
static const asp_sweep_bodies *bodies_for(int dtype)
{
    const int at = real_bytes(dtype) == 8;
    static const asp_sweep_bodies *const *const tables[] = ASP_ISA_TABLE(asp_sweep);
    return tables[asp_isa()][at];
}

/* Return the reals of a row. */
static int64_t row_reals(int dtype, int64_t n_columns) { return asp_max(n_columns, 1) * (1 + is_complex(dtype)); }

/* Return the number of reals of whole rows that fill whole vectors, at least PERIOD_REALS. */
static int64_t period_of(int64_t width)
{
    int64_t rows = MAX_LANES;
    while (rows % 2 == 0 && rows / 2 * width % MAX_LANES == 0) rows /= 2;
    const int64_t least = rows * width;
    return least * ((PERIOD_REALS + least - 1) / least);
}

/* Return the number of elements, or rows, of a chunk. */
static int64_t chunk_rows(int dtype, int64_t n_columns)
{
    return asp_max(1, CHUNK_BYTES / real_bytes(dtype) / row_reals(dtype, n_columns));
}

int64_t asp_sweep_chunks(int dtype, int64_t n, int64_t n_columns)
{
    const int64_t rows = chunk_rows(dtype, n_columns);
    return (n + rows - 1) / rows;
}

double asp_sweep_serial_ns(int dtype, int64_t n_elements, int64_t n_vectors)
{
    const double bytes = (double)n_elements * row_reals(dtype, 0) * real_bytes(dtype) * (double)n_vectors;
    return bytes * (bytes < CACHED_BYTES ? CACHED_NS : STREAMED_NS);
}

/* A sweep while it is executed. */
typedef struct {
    const asp_sweep *sweep;
    const asp_sweep_bodies *bodies;
    int64_t rows, width, n_chunks; /* rows per chunk; reals per row */
    int64_t period;                /* reals that share coefficients of columns */
    const char *re, *im;           /* coefficients of columns as the operations read them */
    int item, failed;              /* bytes of a real */
} sweeping;

/* Return where the reals of vector `place` begin in a chunk whose first element, or row, is `row`. */
static char *reals_at(const sweeping *it, int place, int64_t row)
{
    return (char *)it->sweep->vectors[place] + row * it->width * it->item;
}

/* Execute a COMBINE step on one chunk; `at` is the number of its first coefficient. */
static void combine(const sweeping *it, const int32_t *code, int64_t at, int64_t row, int64_t n)
{
    const void *terms[ASP_SWEEP_TERMS];
    const int n_terms = code[2];
    for (int t = 0; t < n_terms; t++) terms[t] = reals_at(it, code[3 + t], row);
    void *out = reals_at(it, code[1], row);
    if (it->sweep->n_columns) {
        const int64_t from = at * it->period * it->item;
        it->bodies->combine_columns(out, terms, it->re + from, it->im ? it->im + from : NULL, n_terms, it->width,
                                    it->period, n);
        return;
    }
    const double *c = (const double *)it->sweep->coefficients + 2 * at;
    int is_real = 1;
    for (int t = 0; t < n_terms; t++) is_real &= c[2 * t + 1] == 0;
    (is_real ? it->bodies->combine : it->bodies->combine_complex)(out, terms, c, n_terms, n);
}

/* Execute a SCALE step on one chunk. */
static void scale(const sweeping *it, const int32_t *code, int64_t row, int64_t n)
{
    const int is_real = !is_complex(it->sweep->dtype), is_d_real = code[4];
    void *out = reals_at(it, code[1], row);
    const void *v = reals_at(it, code[3], row);
    const char *d = (const char *)it->sweep->vectors[code[2]] + row * (is_d_real ? 1 : 2) * it->item;
    if (it->sweep->n_columns)
        it->bodies->scale_rows(out, d, v, it->width, !is_d_real, n);
    else
        (is_real ? it->bodies->scale : is_d_real ? it->bodies->scale_by_real : it->bodies->scale_complex)(out, d, v, n);
}

/* Compute the sums of the columns of a chunk: sums per real of a period, then the sums per column, in order. */
static void dot_columns(sweeping *it, const void *u, const void *v, int64_t n, double *sums)
{
    const int is_pair = is_complex(it->sweep->dtype), n_columns = it->sweep->n_columns;
    const size_t bytes = (size_t)it->period * sizeof(double) * (1 + is_pair);
    double stack[STACK_BYTES / sizeof(double)], *room = bytes <= sizeof stack ? stack : malloc(bytes);
    if (!room) {
        it->failed = 1;
        return;
    }
    double *re = room, *im = is_pair ? room + it->period : NULL;
    memset(room, 0, bytes);
    it->bodies->dot_columns(u, v, re, im, it->period, n);
    for (int column = 0; column < n_columns; column++) {
        double sum[2] = {0, 0};
        for (int64_t at = column * (1 + is_pair); at < it->period; at += it->width) {
            sum[0] += is_pair ? re[at] + re[at + 1] : re[at];
            sum[1] += is_pair ? im[at] - im[at + 1] : 0;
        }
        memcpy(sums + 2 * column, sum, sizeof sum);
    }
    if (room != stack) free(room);
}

/* Execute all steps on one chunk. */
static void run_chunk(sweeping *it, int64_t chunk)
{
    const asp_sweep *sweep = it->sweep;
    const int64_t row = chunk * it->rows, n = asp_min(it->rows, sweep->n - row) * it->width;
    const int64_t sums_of_dot = asp_max(sweep->n_columns, 1);
    double *sums = (double *)sweep->partials + 2 * chunk * sweep->n_dots * sums_of_dot;
    int64_t coefficient = 0;
    for (const int32_t *code = sweep->codes; *code != ASP_STOP;) {
        if (*code == ASP_COMBINE) {
            combine(it, code, coefficient, row, n);
            coefficient += code[2];
            code += 3 + code[2];
        } else if (*code == ASP_SCALE) {
            scale(it, code, row, n);
            code += 5;
        } else {
            const void *u = reals_at(it, code[1], row), *v = reals_at(it, code[2], row);
            if (sweep->n_columns) dot_columns(it, u, v, n, sums);
            else (is_complex(sweep->dtype) ? it->bodies->dot_complex : it->bodies->dot)(u, v, n, sums);
            sums += 2 * sums_of_dot;
            code += 3;
        }
    }
}

/* The call-interval tuner (call_intervals.c) decides per task whether helpers make the program faster, from one call of the
 * task to the next. Different sweeps of an iteration are different tasks, so that an interval is one iteration. */
#define TASK(number)                                                                            \
    static void run_chunks_##number(void *context, int64_t begin, int64_t end)                  \
    {                                                                                           \
        for (int64_t chunk = begin; chunk < end; chunk++) run_chunk(context, chunk);            \
    }
TASK(0) TASK(1) TASK(2) TASK(3) TASK(4) TASK(5) TASK(6)

static asp_task task_of(const asp_sweep *sweep)
{
    static const asp_task tasks[] = {run_chunks_0, run_chunks_1, run_chunks_2, run_chunks_3,
                                     run_chunks_4, run_chunks_5, run_chunks_6};
    return tasks[(3 * sweep->n_coefficients + sweep->n_dots) % 7];
}

/* Compute sums[j] = partials[0][j] + partials[1][j] + ..., for `width` doubles. */
static void add_up(const double *partials, int64_t n_chunks, int64_t width, double *sums)
{
    for (int64_t at = 0; at < width; at++) sums[at] = n_chunks ? partials[at] : 0;
    for (int64_t chunk = 1; chunk < n_chunks; chunk++)
        for (int64_t at = 0; at < width; at++) sums[at] += partials[chunk * width + at];
}

static int threads_of(int n_threads) { return n_threads ? n_threads : asp_max_threads(); }

/* Repeat the coefficients of columns over a period; returns their memory, NULL without. */
static char *spread_coefficients(sweeping *it)
{
    const asp_sweep *sweep = it->sweep;
    const int64_t n = sweep->n_coefficients, bytes = n * it->period * it->item;
    const int is_pair = is_complex(sweep->dtype);
    char *room = malloc((size_t)(bytes * (1 + is_pair)) + 1);
    if (!room) return NULL;
    it->re = room;
    it->im = is_pair ? room + bytes : NULL;
    for (int64_t c = 0; c < n; c++)
        for (int part = 0; part <= is_pair; part++)
            it->bodies->spread((const double *)sweep->coefficients + 2 * c * sweep->n_columns, part, sweep->n_columns, 1 + is_pair,
                               it->period, room + part * bytes + c * it->period * it->item);
    return room;
}

/* Describe a sweep for its chunks; return ASP_OK or ASP_NO_MEMORY. `*room` is memory that the caller frees. */
static int begin_sweep(sweeping *it, const asp_sweep *sweep, char **room)
{
    *it = (sweeping){.sweep = sweep, .bodies = bodies_for(sweep->dtype), .item = real_bytes(sweep->dtype)};
    it->rows = chunk_rows(sweep->dtype, sweep->n_columns);
    it->width = row_reals(sweep->dtype, sweep->n_columns);
    it->period = period_of(it->width);
    it->n_chunks = asp_sweep_chunks(sweep->dtype, sweep->n, sweep->n_columns);
    *room = NULL;
    return sweep->n_columns && !(*room = spread_coefficients(it)) ? ASP_NO_MEMORY : ASP_OK;
}

/* Add up the sums of all chunks. */
static int end_sweep(const sweeping *it, char *room)
{
    const asp_sweep *sweep = it->sweep;
    const int64_t width = 2 * sweep->n_dots * asp_max(sweep->n_columns, 1);
    add_up((const double *)sweep->partials, it->n_chunks, width, (double *)sweep->dots);
    free(room);
    return it->failed ? ASP_NO_MEMORY : ASP_OK;
}

int asp_sweep_run(const asp_sweep *sweep)
{
    sweeping it;
    char *room;
    if (begin_sweep(&it, sweep, &room)) return ASP_NO_MEMORY;
    if (it.n_chunks == 1) run_chunk(&it, 0);
    else asp_parallel(task_of(sweep), &it, it.n_chunks, 1, it.n_chunks, threads_of(sweep->n_threads), sweep->serial_ns);
    return end_sweep(&it, room);
}

/* Observer of a product: execute the steps on the chunks that these rows complete. */
static void sweep_rows(void *context, int64_t begin, int64_t end)
{
    sweeping *it = context;
    _Atomic int32_t *left = (_Atomic int32_t *)it->sweep->left;
    end = asp_min(end, it->sweep->n);
    for (int64_t chunk = begin / it->rows, stop; begin < end; chunk++, begin = stop) {
        stop = asp_min(end, (chunk + 1) * it->rows);
        const int32_t n = (int32_t)(stop - begin);
        if (atomic_fetch_sub_explicit(&left[chunk], n, memory_order_acq_rel) == n) run_chunk(it, chunk);
    }
}

/* Pool task: execute the steps on those of the chunks [begin, end) that the observer has not seen complete. */
static void sweep_rest(void *context, int64_t begin, int64_t end)
{
    const sweeping *it = context;
    const int32_t *left = (const int32_t *)it->sweep->left;
    for (int64_t chunk = begin; chunk < end; chunk++)
        if (left[chunk]) run_chunk(context, chunk);
}

/* Describe a sweep that observes a product; return ASP_OK or ASP_NO_MEMORY. */
static int begin_after(sweeping *it, const asp_sweep *sweep, char **room)
{
    if (begin_sweep(it, sweep, room)) return ASP_NO_MEMORY;
    int32_t *left = (int32_t *)sweep->left;
    for (int64_t chunk = 0; chunk < it->n_chunks; chunk++)
        left[chunk] = (int32_t)asp_min(it->rows, sweep->n - chunk * it->rows);
    return ASP_OK;
}

/* Execute the steps on the chunks that a product with this status has not completed; return the status of both. */
static int end_after(sweeping *it, int status, int n_threads, char *room)
{
    const asp_sweep *sweep = it->sweep;
    int64_t n_left = 0;
    for (int64_t chunk = 0; chunk < it->n_chunks; chunk++) n_left += ((const int32_t *)sweep->left)[chunk] != 0;
    if (status == ASP_OK && n_left)
        asp_parallel(sweep_rest, it, it->n_chunks, 1, it->n_chunks, n_threads,
                     sweep->serial_ns * (double)n_left / (double)it->n_chunks);
    const int ended = end_sweep(it, room);
    return status ? status : ended;
}

int asp_sweep_run_after(const asp_sweep *sweep, int dtype, int itype, int64_t n_rows, int64_t n_cols,
                        const void *indptr, const void *indices, const void *data, const void *B, void *out,
                        int64_t n_vecs, int n_threads)
{
    sweeping it;
    char *room;
    if (begin_after(&it, sweep, &room)) return ASP_NO_MEMORY;
    const asp_row_observer observer = {.done = sweep_rows, .context = &it, .step = it.rows};
    const int status = asp_csr_mm_observed(dtype, itype, n_rows, n_cols, indptr, indices, data, B, out, n_vecs,
                                           n_threads, &observer);
    return end_after(&it, status, n_threads, room);
}

/* asp_parallel for an observed kernel: a thread takes one part at a time, whose rows are still in its cache. */
static int run_parts(asp_task task, void *context, int64_t n_items, int64_t min_items, int64_t max_items, int n_threads,
                     double serial_ns)
{
    (void)max_items;
    return asp_parallel(task, context, n_items, min_items, min_items, n_threads, serial_ns);
}

int asp_sweep_run_after_kernel(const asp_sweep *sweep, uintptr_t kernel, const asp_operand *A, uintptr_t B,
                               uintptr_t out, int64_t n_threads, int64_t chunk, int64_t value_bytes, int64_t n_reads)
{
    sweeping it;
    char *room;
    if (begin_after(&it, sweep, &room)) return ASP_NO_MEMORY;
    asp_operand observed = *A;
    if (A->window > 0 && it.rows % A->window == 0) observed.done = (void *)(uintptr_t)sweep_rows;
    observed.observer = &it;
    if (sweep->n >= PARTED_ROWS) observed.parallel = (void *)(uintptr_t)run_parts;
    const int status = asp_run_kernel(kernel, &observed, B, 1, out, 1, 1, n_threads, chunk, value_bytes, n_reads);
    return end_after(&it, status, (int)n_threads, room);
}
