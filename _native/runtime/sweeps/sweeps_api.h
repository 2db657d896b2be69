/* Sweeps: lists of steps on vectors of one length and dtype, executed in one pass over memory
 * (autosparse/linalg/sweeps.py). */
enum { ASP_SWEEP_VECTORS = 24, ASP_SWEEP_CODES = 96, ASP_SWEEP_TERMS = 4, ASP_SWEEP_STEPS = 16 };
/* First code of a step and the codes that follow; vectors are given by their index in `vectors`. COMBINE: out,
 * n_terms, terms: out = sum of coefficient * term. SCALE: out, d, v, whether d is real: out = d v. DOT: u, v: one
 * result, the sum of conj(u) v. STOP ends the program. */
enum { ASP_STOP = 0, ASP_COMBINE = 1, ASP_SCALE = 2, ASP_DOT = 3 };
/* A compiled sweep; one thread may run it at a time. */
typedef struct asp_sweep {
    int32_t dtype;          /* 0 float, 1 double, 2 and 3 their complex */
    int32_t n_threads;      /* maximum number of threads; 0: asp_max_threads() */
    int32_t n_coefficients; /* number of coefficients of all steps, per column */
    int32_t n_dots;
    /* 0: vectors; else columns of arrays in C order, with coefficients and dot products per column */
    int32_t n_columns;
    int32_t codes[ASP_SWEEP_CODES];
    uintptr_t vectors[ASP_SWEEP_VECTORS]; /* addresses of the elements */
    int64_t n;              /* elements of a vector, or rows */
    double serial_ns;       /* estimated time on one thread */
    /* Addresses of doubles, in pairs (real, imaginary). */
    uintptr_t coefficients; /* in the order of the terms; the columns of a term are adjacent */
    uintptr_t partials;     /* room for asp_sweep_chunks * n_dots * max(n_columns, 1) pairs */
    uintptr_t dots;         /* results, in the layout of the coefficients */
    uintptr_t left;         /* address of asp_sweep_chunks int32_t for asp_sweep_run_after; 0: not used */
} asp_sweep;
/* Return the number of chunks of a sweep. The chunks and the order of summation depend on the extents and the dtype
 * only. */
int64_t asp_sweep_chunks(int dtype, int64_t n, int64_t n_columns);
/* Return the estimated time of a pass over n_vectors vectors on one thread, ns. It decides whether threads are
 * woken. */
double asp_sweep_serial_ns(int dtype, int64_t n_elements, int64_t n_vectors);
/* Execute the steps; return ASP_OK or ASP_NO_MEMORY. Results are bitwise the same for any number of threads and any
 * instruction set. */
int asp_sweep_run(const asp_sweep *sweep);
/* Compute out = A B, A in CSR with the codes of asp_csr_mm, and execute the steps, which may read and write `out` but
 * must not write B. A thread executes the steps on a chunk as soon as the rows of the chunk are complete. `out` has as
 * many rows as the sweep's vectors and n_vecs columns. Results are those of asp_csr_mm and asp_sweep_run; returns as
 * asp_csr_mm. */
int asp_sweep_run_after(const asp_sweep *sweep, int dtype, int itype, int64_t n_rows, int64_t n_cols,
                        const void *indptr, const void *indices, const void *data, const void *B, void *out,
                        int64_t n_vecs, int n_threads);
/* As asp_sweep_run_after, for one column and a generated kernel with the arguments of asp_run_kernel. The steps may have
 * been executed on some chunks where the kernel returns 1. */
int asp_sweep_run_after_kernel(const asp_sweep *sweep, uintptr_t kernel, const asp_operand *A, uintptr_t B,
                               uintptr_t out, int64_t n_threads, int64_t chunk, int64_t value_bytes, int64_t n_reads);
