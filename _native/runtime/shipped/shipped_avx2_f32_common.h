/* Generated kernels, written by tools/shipped_kernels.py: do not edit. */
typedef void (*asp_task)(void *context, int64_t begin, int64_t end);
typedef int (*asp_parallel_function)(asp_task task, void *context, int64_t n_items, int64_t min_items,
                                     int64_t max_items, int n_threads, double serial_ns);
typedef struct {
    int64_t size[6];            /* extents of the indices, the sparse operand's first */
    const void *pos[12], *crd[12]; /* by depth of the level */
    const void *vals;
    int64_t n_positions[12];     /* of each level; the last level's number the values */
    int64_t sorted;             /* bit d: the level at depth d lists ascending coordinates */
    asp_parallel_function parallel; /* NULL: one thread */
    const void *origin, *repeats; /* of structures: entry at each position, next entry at the same one */
    void *(*take)(size_t bytes);  /* work space, and back */
    void (*give)(void *elements, size_t bytes);
} asp_operand;
typedef struct {
    const asp_operand *A;
    uintptr_t B, C;
    int64_t ldB, ldC, n_j, n_threads, chunk;
} asp_call;
typedef float f32x1;
static inline f32x1 load_f32x1(const float *p) { return *p; }
static inline void store_f32x1(float *p, f32x1 v) { *p = v; }
static inline float sum_f32x1(f32x1 v) { return v; }
/* First of n iterations at which the share `part` of n_parts begins: chunk iterations each, or equal
 * numbers of entries and iterations. */
static int64_t asp_boundary(const POSITION *pos, int64_t n, int64_t chunk, int64_t part, int64_t n_parts)
{
    if (part >= n_parts)
        return n;
    if (chunk > 0)
        return part * chunk;
    if (!pos)
        return n * part / n_parts;
    const double wanted = ((double)(pos[n] - pos[0]) + 2.0 * (double)n) * (double)part / (double)n_parts;
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if ((double)(pos[middle] - pos[0]) + 2.0 * (double)middle < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
typedef struct {
    const asp_call *call;
    int64_t n, n_parts;
    const POSITION *weights;
    int bad;
} task_context_0;
