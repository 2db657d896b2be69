/* What tells whether the arrays of an operand were written since the last look (autosparse/operands/watch.py). */
typedef struct asp_watched {
    const void *array, *descr, *data; /* the object, its dtype, its memory: as they were when this was filled in */
    const void *held[6];              /* the array and what it is a view of, whose references are counted: those that */
    int64_t weak_at[6];               /* ... lie beneath what it is a view of are last; bytes to weak references, or 0 */
    int32_t n_held, n_beneath;
    int64_t references;               /* of `held`, together, while nobody else has any; negative: nothing can be told */
    int64_t invalidated_at, clean_at;       /* slots of the operand that hold one object unless the array was handed out */
    int64_t n_bytes, n_least;         /* bytes in use, and elements that the array must have */
    uint64_t *hashes;                 /* of the chunks; NULL: there was no look yet */
    int64_t *versions;                /* of each chunk of the values: the version in which it changed last; else NULL */
    int64_t n_looks;
} asp_watched;
typedef struct asp_watch {
    const void *array_type, *rows;    /* rows: the operand's, once they are known; NULL: Python must look */
    int64_t header;                   /* bytes of an object before the fields of an array */
    const char *operand;              /* its address, and its slots: */
    int64_t arrays_at, rows_at, checked_at, exported_at, aliases_before_at, values_version_at;
    int64_t beneath_references;       /* of an object that lies beneath, while nobody else has any */
    int64_t n_own;                    /* of the references to arrays that `references` counts: those by other than views */
    int64_t n_rows, nnz;
    int32_t itype, just_seen;         /* just_seen: bits of arrays that `validate` has looked at for this very product */
    int64_t generation;               /* how often this was filled in */
    asp_watched of[3];                /* indptr, indices, data */
    int64_t n_looks, look_ns, smoothed_look_ns, total_look_ns;
} asp_watch;
enum { ASP_WATCH_SMOOTHING = 8 };
/* Address of a C function `PyObject *(PyObject *state, PyObject *kept)`: a builtin `watch(refreshes, n_threads)` on the
 * asp_watch at the address `state`, an int, that keeps `kept` alive. n_threads 0: as many as there are.
 *
 * refreshes False: whether the structure is what it was, and so within bounds; if nobody holds what was handed out, the
 * operand's `rows` are set. True: whether all arrays were looked at and the structure is what it was; the version of the
 * values has risen if those are not. False as an answer: Python must look. */
uintptr_t asp_watch_maker(void);
/* References to the object at this address. */
int64_t asp_references_to(uintptr_t object);
