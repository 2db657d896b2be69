/* Implementation of entry_api.h. It is compiled with the extension's own module, because the rest of the runtime does
 * not use Python's API. Fields of an array are laid out as in numpy/ndarraytypes.h, which is ABI since NumPy 1.0; the
 * Python caller has verified the layout on some arrays. */
#include <time.h>

/* The fields of an ndarray behind its object header. */
typedef struct entry_array {
    char *data;
    int n_dims;
    Py_ssize_t *dimensions, *strides;
    PyObject *base, *descr;
    int flags;
} entry_array;

enum { ENTRY_READ = 0x101, ENTRY_WRITTEN = 0x501 }; /* C_CONTIGUOUS, ALIGNED; WRITEABLE */

/* Return the monotonic time, ns. */
static int64_t entry_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Return whether two memory ranges are disjoint. */
static int entry_apart(const char *one, int64_t one_bytes, const char *other, int64_t other_bytes)
{
    return one + one_bytes <= other || other + other_bytes <= one;
}

/* Return the array behind an object, or NULL unless it is an ndarray of the expected dtype, flags and shape. */
static const entry_array *entry_seen(const asp_entry *entry, PyObject *object, int wanted)
{
    if ((const void *)Py_TYPE(object) != entry->array_type) return NULL;
    const entry_array *array = (const entry_array *)((char *)object + entry->header);
    const int is_it = array->n_dims == entry->n_dims && (const void *)array->descr == entry->descr &&
                      (array->flags & wanted) == wanted && (array->n_dims == 1 || array->dimensions[1] == entry->n_vecs);
    return is_it ? array : NULL;
}

static int watch_refreshes(asp_watch *watch, int n_threads);
static int watch_is_same(const asp_watch *watch);

static int64_t entry_threads(const asp_entry *entry) { return entry->n_threads ? entry->n_threads : asp_max_threads(); }

/* Return whether the generated kernel may compute: either it reads the user's arrays, which have not moved, or its
 * copy holds their current content. */
static int entry_is_current(asp_entry *entry)
{
    if (entry->places[0])
        return *entry->indptr == entry->places[0] && *entry->indices == entry->places[1] &&
               *entry->data == entry->places[2];
    asp_watch *watch = entry->watch;
    if (!watch || watch->rows != entry->rows || entry->looks_left <= 0) return 0;
    const int64_t n_looks = watch->n_looks;
    const int is_good = watch_refreshes(watch, (int)entry_threads(entry));
    entry->looks_left -= watch->n_looks - n_looks;
    return is_good && *(const void *const *)entry->structure_slot == entry->structure_version &&
           *(const void *const *)entry->values_slot == *(const void *const *)entry->packed_slot;
}

/* Compute the product with the generated kernel or the default one; return 0 on success. */
static int entry_product(const asp_entry *entry, int transposed, const char *B, char *out, const void *const *arrays)
{
    const int64_t n_threads = entry_threads(entry);
    if (entry->kernel)
        return asp_run_kernel(entry->kernel, entry->operand, (uintptr_t)B, entry->n_vecs, (uintptr_t)out, entry->n_vecs,
                              entry->n_vecs, n_threads < entry->most_threads ? n_threads : entry->most_threads,
                              entry->chunk, entry->value_bytes, entry->n_reads);
    return (transposed ? asp_csr_t_mm : asp_csr_mm)(entry->dtype, entry->itype, entry->n_major, entry->n_minor,
                                                    arrays[0], arrays[1], arrays[2], B, entry->n_vecs, out,
                                                    entry->n_vecs, entry->n_vecs, (int)n_threads, entry->flags);
}

/* Increment a counter of an entry that several threads use: protected by the GIL, or atomic without a GIL. */
#ifdef Py_GIL_DISABLED
#define ENTRY_ADD(counter, n) ((void)__atomic_fetch_add(&(counter), (n), __ATOMIC_RELAXED))
#else
#define ENTRY_ADD(counter, n) ((void)((counter) += (n)))
#endif

int64_t asp_entry_take_calls(asp_entry *entry) { return __atomic_exchange_n(&entry->n_calls, 0, __ATOMIC_RELAXED); }

int64_t asp_entry_take_ns(asp_entry *entry) { return __atomic_exchange_n(&entry->product_ns, 0, __ATOMIC_RELAXED); }

/* Return whether the operand's rows are those this fast call was made for: they are set, or they were validated for
 * this product while exported arrays are still referenced elsewhere. */
static int entry_has_rows(const asp_entry *entry)
{
    asp_watch *watch = entry->watch;
    if (*(const void *const *)entry->rows_slot == entry->rows) return 1;
    if (!watch || watch->rows != entry->rows || !watch->just_seen || !watch_is_same(watch)) return 0;
    if (!entry->kernel || entry->places[0]) watch->just_seen = 0; /* valid for one product */
    return 1;
}

/* Compute the product if nothing has changed; return whether it was computed. The GIL is released meanwhile. */
static int entry_serves(asp_entry *entry, PyObject *const *args)
{
    if (!entry_has_rows(entry) || args[2] != entry->options || args[3] != entry->transposed ||
        __atomic_load_n(&entry->product_ns, __ATOMIC_RELAXED) >= entry->limit_ns)
        return 0;
    const entry_array *B = entry_seen(entry, args[0], ENTRY_READ), *out = entry_seen(entry, args[1], ENTRY_WRITTEN);
    const int transposed = args[3] == Py_True;
    const int64_t n_in = transposed ? entry->n_major : entry->n_minor, n_out = entry->n_major + entry->n_minor - n_in;
    if (!B || !out || B->dimensions[0] != n_in || out->dimensions[0] != n_out) return 0;
    const int64_t item = entry->dtype == 0 ? 4 : entry->dtype == 3 ? 16 : 8, index = entry->itype ? 8 : 4;
    const char *indptr = (const char *)*entry->indptr;
    const int64_t nnz = entry->itype ? ((const int64_t *)indptr)[entry->n_major] : ((const int32_t *)indptr)[entry->n_major];
    const int64_t n_bytes = n_out * entry->n_vecs * item;
    if (!entry_apart(out->data, n_bytes, B->data, n_in * entry->n_vecs * item) ||
        !entry_apart(out->data, n_bytes, indptr, (entry->n_major + 1) * index) ||
        !entry_apart(out->data, n_bytes, (const char *)*entry->indices, nnz * index) ||
        !entry_apart(out->data, n_bytes, (const char *)*entry->data, nnz * item))
        return 0;
    const int64_t start_ns = entry_now_ns();
    if (entry->kernel && !entry_is_current(entry)) return 0;
    const void *const arrays[3] = {indptr, *entry->indices, *entry->data};
    const char *from = B->data;
    char *to = out->data;
    int status;
    ENTRY_ADD(entry->n_running, 1);
    Py_BEGIN_ALLOW_THREADS;
    status = entry_product(entry, transposed, from, to, arrays);
    Py_END_ALLOW_THREADS;
    ENTRY_ADD(entry->n_running, -1);
    if (status) return 0;
    ENTRY_ADD(entry->n_calls, 1);
    ENTRY_ADD(entry->product_ns, entry_now_ns() - start_ns);
    return 1;
}

static PyObject *entry_run(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    asp_entry *entry = PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
    PyObject *answer = entry && n_args == 4 && entry_serves(entry, args) ? Py_True : Py_False;
    Py_INCREF(answer);
    return answer;
}

static PyMethodDef entry_method = {"run", (PyCFunction)(void (*)(void))entry_run, 0x0080 /* METH_FASTCALL */, NULL};

static PyObject *entry_make(PyObject *state, PyObject *kept)
{
    PyObject *self = PyTuple_Pack(2, state, kept);
    PyObject *made = self ? PyCFunction_NewEx(&entry_method, self, NULL) : NULL;
    Py_XDECREF(self);
    return made;
}

uintptr_t asp_entry_maker(void)
{
    return (uintptr_t)entry_make;
}
