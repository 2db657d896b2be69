/* The way of a product whose operands were looked at before, from Python straight to the kernel. */
typedef struct asp_entry {
    const void *rows_slot; /* where the operand keeps its `rows` now */
    const void *rows, *options, *array_type, *descr, *transposed; /* objects that must be the same */
    int64_t header; /* bytes of an object before the fields of an array */
    int32_t n_dims, dtype, itype, flags, n_threads; /* n_threads 0: ask */
    int64_t n_major, n_minor, n_vecs;
    const void *const *indptr, *const *indices, *const *data; /* where the addresses are */
    int64_t n_calls, product_ns; /* since they were last taken */
    int64_t limit_ns;            /* product_ns from which this way is closed */
    int64_t n_running;           /* generated kernels that run now */
    uintptr_t kernel;            /* a generated one; 0: the default kernel, and nothing below matters */
    const void *operand;         /* its asp_operand */
    int64_t chunk, most_threads, value_bytes, n_reads; /* see asp_run_kernel */
    const void *places[3]; /* where the user's arrays must lie, of a kernel that reads them; NULL: it reads a copy, and */
    const void *structure_slot, *structure_version; /* ... this slot of the operand must hold this object, */
    const void *values_slot, *packed_slot;          /* ... these slots of the operand and of the copy the same one, */
    void *watch;                                    /* ... once this asp_watch has looked; NULL: nobody can */
    int64_t looks_left; /* looks after which Python computes one product, and accounts for what they cost */
} asp_entry;
/* Address of a C function `PyObject *(PyObject *state, PyObject *kept)`: a builtin `run(B, out, options, transposed)` on
 * the asp_entry at the address `state`, an int, that keeps `kept` alive. It answers True when out holds the product;
 * False when anything is not as it was: nothing was done. */
uintptr_t asp_entry_maker(void);
/* Return n_calls, or product_ns, and set it to 0: no call of another thread is lost in between. */
int64_t asp_entry_take_calls(asp_entry *entry);
int64_t asp_entry_take_ns(asp_entry *entry);
