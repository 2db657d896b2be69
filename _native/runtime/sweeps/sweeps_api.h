/* Sweeps: lists of steps on vectors of one length and dtype in one pass over memory (autosparse/linalg/sweeps.py). */
enum { ASP_SWEEP_VECTORS = 24, ASP_SWEEP_CODES = 96, ASP_SWEEP_TERMS = 4, ASP_SWEEP_STEPS = 16 };
/* First code of a step, and the codes that follow; places are of `vectors`.
 * COMBINE: out, n_terms, terms: out = sum of coefficient * term; SCALE: out, d, v, whether d is real: out = d v;
 * DOT: u, v: one result, the sum of conj(u) v. STOP ends the program. */
enum { ASP_STOP = 0, ASP_COMBINE = 1, ASP_SCALE = 2, ASP_DOT = 3 };
typedef struct asp_sweep {
    int32_t dtype;          /* as everywhere: 0 float, 1 double, 2 and 3 their complex */
    int32_t n_threads;      /* most threads; 0: asp_max_threads() */
    int32_t n_coefficients; /* of all steps, for each column */
    int32_t n_dots;
    int32_t n_columns;      /* 0: vectors; else columns of arrays in C order, with coefficients and dots for each */
    int32_t codes[ASP_SWEEP_CODES];
    uintptr_t vectors[ASP_SWEEP_VECTORS]; /* addresses of the elements */
    int64_t n;              /* elements of a vector, rows of columns */
    double serial_ns;       /* what one thread takes, roughly */
    /* Addresses of doubles, in pairs (real, imaginary). */
    uintptr_t coefficients; /* in the order of the terms; each term's columns lie side by side */
    uintptr_t partials;     /* room for asp_sweep_chunks * n_dots * max(n_columns, 1) pairs */
    uintptr_t dots;         /* the results, as the coefficients */
} asp_sweep;
/* Number of chunks of a sweep; a chunk's limits and its order of summation depend on the extents and the dtype only. */
int64_t asp_sweep_chunks(int dtype, int64_t n, int64_t n_columns);
/* What one thread takes for a pass over so many vectors, roughly: it decides whether threads are woken. */
double asp_sweep_serial_ns(int dtype, int64_t n_elements, int64_t n_vectors);
/* Execute the steps. ASP_OK, ASP_NO_MEMORY. Bits are the same for any number of threads and any instruction set. */
int asp_sweep_run(const asp_sweep *sweep);
