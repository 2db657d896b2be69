/* Implementation of watch_api.h, compiled with the extension's own module like entry_python.h, whose `entry_array` it
 * uses. All of it runs with the GIL held, which is released while bytes are hashed. */
#include <stdlib.h>
#include <string.h>

/* Sets of arrays: bit 0 indptr, bit 1 indices, bit 2 data. */
enum { WATCH_STRUCTURE = 3, WATCH_VALUES = 4, WATCH_ALL = 7 };

int64_t asp_references_to(uintptr_t object) { return (int64_t)Py_REFCNT((PyObject *)object); }

static PyObject **watch_slot(const asp_watch *watch, int64_t at) { return (PyObject **)(watch->operand + at); }

/* Store an object in a slot of the operand. */
static void watch_set(const asp_watch *watch, int64_t at, const void *object)
{
    PyObject **slot = watch_slot(watch, at), *old = *slot;
    Py_INCREF((PyObject *)(uintptr_t)object);
    *slot = (PyObject *)(uintptr_t)object;
    Py_XDECREF(old);
}

static const entry_array *watch_array(const asp_watch *watch, const void *object)
{
    return (const entry_array *)((const char *)object + watch->header);
}

/* Return whether the arrays are the objects for which the watch was filled in, at the same addresses and long
 * enough. */
static int watch_is_same(const asp_watch *watch)
{
    PyObject *arrays = *watch_slot(watch, watch->arrays_at);
    if (!watch->rows || !arrays || PyList_Size(arrays) != 3) return 0;
    for (int at = 0; at < 3; ++at) {
        const asp_watched *one = watch->of + at;
        if ((const void *)PyList_GetItem(arrays, at) != one->array) return 0;
        const entry_array *array = watch_array(watch, one->array);
        if (array->data != one->data || (const void *)array->descr != one->descr || array->n_dims != 1 ||
            (array->flags & ENTRY_READ) != ENTRY_READ || array->dimensions[0] < one->n_least)
            return 0;
    }
    if (watch_array(watch, watch->of[0].array)->dimensions[0] != watch->n_rows + 1) return 0;
    const char *indptr = watch->of[0].data;
    const int64_t nnz = watch->itype ? ((const int64_t *)indptr)[watch->n_rows] : ((const int32_t *)indptr)[watch->n_rows];
    return nnz == watch->nnz;
}

/* Return whether no outside reference can reach the memory of an array. */
static int watch_is_alone(const asp_watched *one)
{
    int64_t total = 0;
    for (int at = 0; at < one->n_held; ++at) {
        const char *object = one->held[at];
        total += Py_REFCNT((PyObject *)(uintptr_t)object);
        if (one->weak_at[at] && *(const void *const *)(object + one->weak_at[at]))
            return 0; /* a weak reference could create a new alias, which no count shows */
    }
    return total == one->references;
}

/* Return whether the array was exported since its last check. */
static int watch_is_invalidated(const asp_watch *watch, const asp_watched *one)
{
    return *watch_slot(watch, one->invalidated_at) != *watch_slot(watch, one->clean_at);
}

static int64_t watch_chunks(const asp_watched *one) { return (one->n_bytes + ASP_LOOK_CHUNK - 1) / ASP_LOOK_CHUNK; }

/* A check by one thread: which arrays, whether each was unreachable from outside before, and the hashes of their
 * current content. */
typedef struct watch_look {
    int n, at[3], alone[3];
    asp_looked pieces[3];
} watch_look;

/* Choose which of the arrays `which` must be hashed; -1 if Python must check. */
static int watch_choose(const asp_watch *watch, int which, watch_look *look)
{
    for (int at = 0; at < 3; ++at) {
        const asp_watched *one = watch->of + at;
        if (!(which >> at & 1)) continue;
        const int is_alone = watch_is_alone(one);
        if (is_alone && !watch_is_invalidated(watch, one)) continue;
        if (!one->hashes) return -1;
        look->at[look->n] = at;
        look->alone[look->n] = is_alone;
        look->pieces[look->n++] = (asp_looked){one->data, one->n_bytes, NULL};
    }
    return look->n;
}

/* Store the new hashes of the values and raise their version, also per changed chunk. */
static int watch_take_values(const asp_watch *watch, const uint64_t *now)
{
    const asp_watched *one = watch->of + 2;
    const int64_t n = watch_chunks(one);
    const int64_t version = PyLong_AsLongLong(*watch_slot(watch, watch->values_version_at)) + 1;
    PyObject *risen = PyLong_FromLongLong(version);
    if (!risen) return 0;
    for (int64_t c = 0; c < n; ++c)
        if (one->hashes[c] != now[c]) {
            one->hashes[c] = now[c];
            if (one->versions) one->versions[c] = version;
        }
    watch_set(watch, watch->values_version_at, risen);
    Py_DECREF(risen);
    return 1;
}

/* Compare the hashes with the previous ones and mark arrays as clean; return 0 if the structure changed. */
static int watch_take(asp_watch *watch, const watch_look *look, PyObject *token)
{
    for (int at = 0; at < look->n; ++at) {
        const asp_watched *one = watch->of + look->at[at];
        if (!memcmp(one->hashes, look->pieces[at].hashes, (size_t)watch_chunks(one) * sizeof *one->hashes)) continue;
        if (look->at[at] < 2 || !watch_take_values(watch, look->pieces[at].hashes)) return 0;
    }
    for (int at = 0; at < look->n; ++at)
        if (look->alone[at]) watch_set(watch, watch->of[look->at[at]].clean_at, token);
    return 1;
}

/* Count a check and its duration. */
static void watch_count(asp_watch *watch, int64_t took_ns)
{
    watch->n_looks += 1;
    watch->look_ns = took_ns;
    watch->total_look_ns += took_ns;
    watch->smoothed_look_ns += watch->smoothed_look_ns ? (took_ns - watch->smoothed_look_ns) / ASP_WATCH_SMOOTHING : took_ns;
}

/* Hash the arrays `which` where necessary and compare; return 0 if Python must check. An access stores None in the
 * slot; a check stores its own token, and marks the array as clean only if nothing outside could reach the array
 * before it was hashed: an alias that was gone by then cannot write any more. */
static int watch_looks(asp_watch *watch, int which, int n_threads)
{
    watch_look look = {.n = 0};
    const int n = watch_choose(watch, which, &look);
    if (n <= 0) return n == 0;
    const int64_t start_ns = entry_now_ns(), generation = watch->generation;
    uint64_t few[96], *hashes = few;
    int64_t n_chunks = 0;
    for (int at = 0; at < n; ++at) n_chunks += watch_chunks(watch->of + look.at[at]);
    if (n_chunks > (int64_t)(sizeof few / sizeof *few) && !(hashes = malloc((size_t)n_chunks * sizeof *hashes))) return 0;
    PyObject *token = PyObject_CallObject((PyObject *)&PyBaseObject_Type, NULL), *kept[3];
    int is_taken = 0;
    if (token) {
        int64_t begin = 0;
        for (int at = 0; at < n; ++at) {
            look.pieces[at].hashes = hashes + begin;
            begin += watch_chunks(watch->of + look.at[at]);
            watch_set(watch, watch->of[look.at[at]].invalidated_at, token);
            watch->of[look.at[at]].n_looks += 1;
            kept[at] = (PyObject *)(uintptr_t)watch->of[look.at[at]].array;
            Py_INCREF(kept[at]); /* another thread may replace the arrays */
        }
        Py_BEGIN_ALLOW_THREADS;
        asp_look_at_all(look.pieces, n, ASP_LOOK_CHUNK, n_threads);
        Py_END_ALLOW_THREADS;
        if (generation == watch->generation) {
            is_taken = watch_take(watch, &look, token);
            watch_count(watch, entry_now_ns() - start_ns);
        }
        for (int at = 0; at < n; ++at) Py_DECREF(kept[at]);
        Py_DECREF(token);
    }
    if (hashes != few) free(hashes);
    PyErr_Clear();
    return is_taken;
}

/* Return whether there are no more references to the arrays than before the first array of the structure was
 * exported. */
static int watch_is_back(const asp_watch *watch)
{
    if (*watch_slot(watch, watch->exported_at) != Py_True) return 1;
    int64_t total = -watch->n_own;
    for (int at = 0; at < 3; ++at) {
        const entry_array *array = watch_array(watch, watch->of[at].array);
        total += Py_REFCNT((PyObject *)(uintptr_t)watch->of[at].array) + (array->base ? Py_REFCNT(array->base) : 0);
        for (int n = watch->of[at].n_held - watch->of[at].n_beneath; n < watch->of[at].n_held; ++n)
            total += Py_REFCNT((PyObject *)(uintptr_t)watch->of[at].held[n]) - watch->beneath_references;
    }
    return total <= PyLong_AsLongLong(*watch_slot(watch, watch->aliases_before_at));
}

/* Check the structure and set the operand's rows if possible; return whether it is unchanged. */
static int watch_validates(asp_watch *watch, int n_threads)
{
    watch->just_seen = 0;
    if (!watch_is_same(watch)) return 0;
    const int is_back = watch_is_back(watch), is_checked = *watch_slot(watch, watch->checked_at) == Py_True;
    if (!is_checked && !watch_looks(watch, WATCH_STRUCTURE, n_threads)) return 0;
    if (is_back || is_checked) {
        watch_set(watch, watch->checked_at, Py_True);
        watch_set(watch, watch->exported_at, Py_False);
        watch_set(watch, watch->rows_at, watch->rows);
    } else {
        /* Exported arrays are still referenced elsewhere, so every product must check. */
        watch->just_seen = WATCH_STRUCTURE;
    }
    return 1;
}

/* Check all arrays but those that `validate` has checked for this product. */
static int watch_refreshes(asp_watch *watch, int n_threads)
{
    const int has_rows = (const void *)*watch_slot(watch, watch->rows_at) == watch->rows;
    const int is_good = has_rows || watch->just_seen ? watch_is_same(watch) : watch_validates(watch, n_threads);
    const int seen = has_rows ? 0 : watch->just_seen;
    watch->just_seen = 0;
    return is_good && watch_looks(watch, WATCH_ALL & ~seen, n_threads);
}

static PyObject *watch_run(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    asp_watch *watch = PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
    if (!watch || n_args != 2) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "(refreshes, n_threads)");
    long n_threads = PyLong_AsLong(args[1]);
    n_threads = n_threads > 0 ? n_threads : asp_max_threads();
    watch->just_seen = 0; /* this caller may not be the product that just_seen was recorded for */
    const int is_good = args[0] == Py_True ? watch_refreshes(watch, (int)n_threads) : watch_validates(watch, (int)n_threads);
    if (PyErr_Occurred()) return NULL;
    PyObject *answer = is_good ? Py_True : Py_False;
    Py_INCREF(answer);
    return answer;
}

static PyMethodDef watch_method = {"watch", (PyCFunction)(void (*)(void))watch_run, 0x0080 /* METH_FASTCALL */, NULL};

static PyObject *watch_make(PyObject *state, PyObject *kept)
{
    PyObject *self = PyTuple_Pack(2, state, kept);
    PyObject *made = self ? PyCFunction_NewEx(&watch_method, self, NULL) : NULL;
    Py_XDECREF(self);
    return made;
}

uintptr_t asp_watch_maker(void) { return (uintptr_t)watch_make; }
