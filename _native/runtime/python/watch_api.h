/* State by which writes to the arrays of an operand are detected (autosparse/operands/watch.py). asp_watched describes
 * one array. */
typedef struct asp_watched {
    const void *array, *descr, *data; /* the object, its dtype, its memory, at the time this was filled in */
    /* the array and the objects that it is a view of, whose references are counted; the last n_beneath of them lie
     * beneath the array's base */
    const void *held[6];
    int64_t weak_at[6];               /* bytes from each of these to its list of weak references, or 0 */
    int32_t n_held, n_beneath;
    /* Number of references to all `held` without outside references; negative: unknown. */
    int64_t references;
    /* Slots of the operand; they hold the same object unless the array was exported. */
    int64_t invalidated_at, clean_at;
    int64_t n_bytes, n_least;         /* bytes in use, and minimum number of elements of the array */
    uint64_t *hashes;                 /* per chunk; NULL: never checked */
    int64_t *versions;                /* per chunk of the values: the version in which it last changed; else NULL */
    int64_t n_looks;
} asp_watched;
typedef struct asp_watch {
    const void *array_type, *rows;    /* rows: the operand's, once known; NULL: Python must check */
    int64_t header;                   /* bytes of an object before the fields of an array */
    const char *operand;              /* address of the operand; its slots: */
    int64_t arrays_at, rows_at, checked_at, exported_at, aliases_before_at, values_version_at;
    int64_t beneath_references;       /* number of references to an object beneath a base, without outside references */
    /* References to arrays, among those that `references` counts, that are not held by views. */
    int64_t n_own;
    int64_t n_rows, nnz;
    /* just_seen: bits of the arrays that `validate` has checked for the current product */
    int32_t itype, just_seen;
    int64_t generation;               /* how often this was filled in */
    asp_watched of[3];                /* indptr, indices, data */
    int64_t n_looks, look_ns, smoothed_look_ns, total_look_ns;
} asp_watch;
enum { ASP_WATCH_SMOOTHING = 8 };
/* Return the address of a C function `PyObject *(PyObject *state, PyObject *kept)` that creates a builtin
 * `watch(refreshes, n_threads)` on the asp_watch at the address `state` (an int), which keeps `kept` alive. n_threads
 * 0 means asp_max_threads().
 *
 * With refreshes False it returns whether the structure is unchanged, and so within bounds; if exported arrays are no
 * longer referenced elsewhere, the operand's `rows` are set. With refreshes True it returns whether all arrays were
 * checked and the structure is unchanged; the version of the values is raised if the values have changed. False means
 * that Python must check.
 */
uintptr_t asp_watch_maker(void);
/* Return the number of references to the object at this address. */
int64_t asp_references_to(uintptr_t object);
