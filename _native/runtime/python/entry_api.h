/* Fast call: a product whose operands were validated before, called from Python without interpretation of its
 * arguments. */
typedef struct asp_entry {
    const void *rows_slot; /* slot in which the operand stores its current `rows` */
    const void *rows, *options, *array_type, *descr, *transposed; /* objects that must be identical */
    int64_t header; /* bytes of an object before the fields of an array */
    int32_t n_dims, dtype, itype, flags, n_threads; /* n_threads 0: asp_max_threads() */
    int64_t n_major, n_minor, n_vecs;
    const void *const *indptr, *const *indices, *const *data; /* slots that hold the addresses */
    int64_t n_calls, product_ns; /* counters since they were last read and cleared */
    int64_t limit_ns;            /* value of product_ns from which the fast call is refused */
    int64_t n_running;           /* generated kernels running now */
    uintptr_t kernel;            /* a generated kernel; 0: the default kernel, and the fields below are unused */
    const void *operand;         /* the kernel's asp_operand */
    int64_t chunk, most_threads, value_bytes, n_reads; /* as in asp_run_kernel */
    /* A kernel that reads the user's arrays: their required addresses. NULL: the kernel reads a packed copy, which is
     * current if the conditions below hold. */
    const void *places[3];
    const void *structure_slot, *structure_version; /* this slot of the operand must hold this object */
    const void *values_slot, *packed_slot; /* these slots of the operand and of the copy must hold the same object */
    void *watch; /* asp_watch that checks the arrays before; NULL: no check is possible */
    int64_t looks_left; /* checks after which Python computes one product and accounts for their cost */
} asp_entry;
/* Return the address of a C function `PyObject *(PyObject *state, PyObject *kept)`. It creates a builtin `run(B, out,
 * options, transposed)` on the asp_entry at the address `state` (an int) that keeps `kept` alive. The builtin returns
 * True when out holds the product, and False, without any effect, when anything has changed. */
uintptr_t asp_entry_maker(void);
/* Return n_calls, or product_ns, and set it to 0 atomically, so that no concurrent call is lost. */
int64_t asp_entry_take_calls(asp_entry *entry);
int64_t asp_entry_take_ns(asp_entry *entry);
