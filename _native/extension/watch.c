/* Detection of writes to the arrays of an operand, without Python code while only values were written. All of it runs
 * with the GIL held, which is released while bytes are hashed. */
#include "extension.h"

#include <stdlib.h>
#include <string.h>

/* Sets of arrays: bit 0 indptr, bit 1 indices, bit 2 data. */
enum { WATCH_STRUCTURE = 3, WATCH_ALL = 7 };
enum { WATCH_SMOOTHING = 8 };

/* References to an object beneath a base without outside references: by the tuple `held`, and by the object above. */
enum { WATCH_OWN = 2 };

int asp_watch_is_same(const asp_watch *watch, const asp_fields *operand)
{
    PyObject *arrays = operand->arrays;
    if (!watch->rows || !arrays || !PyList_CheckExact(arrays) || PyList_GET_SIZE(arrays) != 3) return 0;
    for (int at = 0; at < 3; ++at) {
        const asp_watched *one = watch->of + at;
        if (PyList_GET_ITEM(arrays, at) != one->array) return 0;
        PyArrayObject *array = (PyArrayObject *)one->array;
        if (PyArray_BYTES(array) != one->data || (const PyObject *)PyArray_DESCR(array) != one->descr ||
            PyArray_NDIM(array) != 1 || (PyArray_FLAGS(array) & ASP_READ) != ASP_READ ||
            PyArray_DIM(array, 0) < one->n_least)
            return 0;
    }
    return PyArray_DIM((PyArrayObject *)watch->of[0].array, 0) == watch->n_rows + 1 &&
           asp_index(watch->of[0].data, watch->itype, watch->n_rows) == watch->nnz;
}

/* Return whether no outside reference can reach the memory of an array. */
static int watch_is_alone(const asp_watched *one)
{
    if (!one->held) return 0;
    Py_ssize_t total = 0;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(one->held); ++at) {
        PyObject *object = PyTuple_GET_ITEM(one->held, at);
        total += Py_REFCNT(object);
        /* A weak reference could create a new alias, which no count shows. */
        if (PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) && *PyObject_GET_WEAKREFS_LISTPTR(object)) return 0;
    }
    return total == one->references;
}

/* A check by one thread: which arrays, whether each was unreachable from outside before, and the hashes of their
 * current content. */
typedef struct watch_look {
    int n, at[3], alone[3];
    asp_looked pieces[3];
} watch_look;

/* Choose which of the arrays `which` must be hashed; -1 if Python must check. */
static int watch_choose(const asp_watch *watch, const asp_fields *operand, int which, watch_look *look)
{
    for (int at = 0; at < 3; ++at) {
        const asp_watched *one = watch->of + at;
        if (!(which >> at & 1)) continue;
        const int is_alone = watch_is_alone(one);
        if (is_alone && operand->invalidated[at] == operand->clean[at]) continue;
        if (!one->hashes) return -1;
        look->at[look->n] = at;
        look->alone[look->n] = is_alone;
        look->pieces[look->n++] = (asp_looked){one->data, one->n_bytes, NULL};
    }
    return look->n;
}

/* Store the new hashes of the values and raise their version, also per changed chunk. */
static int watch_take_values(const asp_watched *one, asp_fields *operand, const uint64_t *now)
{
    const int64_t n = asp_watch_chunks(one);
    const long long version = operand->values_version ? PyLong_AsLongLong(operand->values_version) + 1 : 0;
    PyObject *risen = version ? PyLong_FromLongLong(version) : NULL;
    if (!risen) return 0;
    uint64_t *hashes = PyArray_DATA(one->hashes);
    int64_t *versions = one->versions ? PyArray_DATA(one->versions) : NULL;
    for (int64_t c = 0; c < n; ++c)
        if (hashes[c] != now[c]) {
            hashes[c] = now[c];
            if (versions) versions[c] = version;
        }
    asp_set(&operand->values_version, risen);
    Py_DECREF(risen);
    return 1;
}

/* Compare the hashes with the previous ones and mark arrays as clean; return 0 if the structure changed. */
static int watch_take(asp_watch *watch, asp_fields *operand, const watch_look *look, PyObject *token)
{
    for (int at = 0; at < look->n; ++at) {
        const asp_watched *one = watch->of + look->at[at];
        const uint64_t *now = look->pieces[at].hashes;
        if (!memcmp(PyArray_DATA(one->hashes), now, (size_t)asp_watch_chunks(one) * sizeof *now)) continue;
        if (look->at[at] < 2 || !watch_take_values(one, operand, now)) return 0;
    }
    for (int at = 0; at < look->n; ++at)
        if (look->alone[at]) asp_set(&operand->clean[look->at[at]], token);
    return 1;
}

/* Count a check and its duration. */
static void watch_count(asp_watch *watch, long long took_ns)
{
    watch->n_looks += 1;
    watch->look_ns = took_ns;
    watch->total_look_ns += took_ns;
    watch->smoothed_look_ns +=
        watch->smoothed_look_ns ? (took_ns - watch->smoothed_look_ns) / WATCH_SMOOTHING : took_ns;
}

/* Hash the arrays that were chosen, without the GIL, and compare; `token` marks the arrays as being checked. */
static int watch_hash(asp_watch *watch, asp_fields *operand, watch_look *look, uint64_t *hashes, int n_threads)
{
    const int64_t start_ns = asp_now_ns(), generation = watch->generation;
    PyObject *token = PyObject_CallObject((PyObject *)&PyBaseObject_Type, NULL), *kept[3];
    if (!token || generation != watch->generation) {
        Py_XDECREF(token);
        return 0;
    }
    for (int at = 0; at < look->n; ++at) {
        asp_watched *one = watch->of + look->at[at];
        look->pieces[at].hashes = hashes;
        hashes += asp_watch_chunks(one);
        one->n_looks += 1;
        asp_set(&operand->invalidated[look->at[at]], token);
        kept[at] = (PyObject *)(uintptr_t)one->array;
        Py_INCREF(kept[at]); /* another thread may replace the arrays */
    }
    Py_BEGIN_ALLOW_THREADS;
    runtime.asp_look_at_all(look->pieces, look->n, ASP_LOOK_CHUNK, n_threads);
    Py_END_ALLOW_THREADS;
    int is_taken = 0;
    if (generation == watch->generation) {
        is_taken = watch_take(watch, operand, look, token);
        watch_count(watch, asp_now_ns() - start_ns);
    }
    for (int at = 0; at < look->n; ++at) Py_DECREF(kept[at]);
    Py_DECREF(token);
    return is_taken;
}

/* Hash the arrays `which` where necessary and compare; return 0 if Python must check. An access stores None as the
 * invalidation; a check stores its own token, and marks the array as clean only if nothing outside could reach the
 * array before it was hashed: an alias that was gone by then cannot write any more. */
static int watch_looks(asp_watch *watch, asp_fields *operand, int which, int n_threads)
{
    watch_look look = {.n = 0};
    const int n = watch_choose(watch, operand, which, &look);
    if (n <= 0) return n == 0;
    uint64_t few[96], *hashes = few;
    int64_t n_chunks = 0;
    for (int at = 0; at < n; ++at) n_chunks += asp_watch_chunks(watch->of + look.at[at]);
    if (n_chunks > (int64_t)(sizeof few / sizeof *few) && !(hashes = malloc((size_t)n_chunks * sizeof *hashes)))
        return 0;
    const int is_taken = watch_hash(watch, operand, &look, hashes, n_threads);
    if (hashes != few) free(hashes);
    PyErr_Clear();
    return is_taken;
}

/* Return whether there are no more references to the arrays than before the first array of the structure was
 * exported. */
static int watch_is_back(const asp_watch *watch, const asp_fields *operand)
{
    if (operand->exported != Py_True) return 1;
    Py_ssize_t total = -watch->n_own;
    for (int at = 0; at < 3; ++at) {
        const asp_watched *one = watch->of + at;
        PyObject *base = PyArray_BASE((PyArrayObject *)one->array);
        if (at < 2 && *PyObject_GET_WEAKREFS_LISTPTR((PyObject *)(uintptr_t)one->array)) return 0;
        total += Py_REFCNT((PyObject *)(uintptr_t)one->array) + (base ? Py_REFCNT(base) : 0);
        const Py_ssize_t n_held = one->held ? PyTuple_GET_SIZE(one->held) : 0;
        for (Py_ssize_t n = n_held - one->n_beneath; n < n_held; ++n)
            total += Py_REFCNT(PyTuple_GET_ITEM(one->held, n)) - WATCH_OWN;
    }
    return operand->aliases_before && total <= PyLong_AsSsize_t(operand->aliases_before);
}

int asp_watch_validates(asp_watch *watch, asp_fields *operand, int n_threads)
{
    watch->just_seen = 0;
    if (!asp_watch_is_same(watch, operand)) return 0;
    const int is_back = watch_is_back(watch, operand), is_checked = operand->checked == Py_True;
    if (!is_checked && !watch_looks(watch, operand, WATCH_STRUCTURE, n_threads)) return 0;
    if (!watch->rows) return 0; /* another thread replaced the arrays meanwhile */
    if (is_back || is_checked) {
        asp_set(&operand->checked, Py_True);
        asp_set(&operand->exported, Py_False);
        asp_set_rows(operand, watch->rows);
    } else {
        /* Exported arrays are still referenced elsewhere, so every product must check. */
        watch->just_seen = WATCH_STRUCTURE;
    }
    return 1;
}

int asp_watch_refreshes(asp_watch *watch, asp_fields *operand, int n_threads)
{
    const int has_rows = operand->rows == watch->rows;
    const int is_good =
        has_rows || watch->just_seen ? asp_watch_is_same(watch, operand) : asp_watch_validates(watch, operand, n_threads);
    const int seen = has_rows ? 0 : watch->just_seen;
    watch->just_seen = 0;
    return is_good && watch_looks(watch, operand, WATCH_ALL & ~seen, n_threads);
}
