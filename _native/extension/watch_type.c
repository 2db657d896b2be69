/* The type Watch: state by which writes to the arrays of an operand are detected. */
#include "extension.h"

PyTypeObject *watch_type;

static PyObject *watch_look_run(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    asp_watch *watch = (asp_watch *)self;
    if (n_args != 3 || !PyObject_TypeCheck(args[0], fields_type))
        return PyErr_Format(PyExc_TypeError, "look takes an operand, refreshes and n_threads");
    const long given = PyLong_AsLong(args[2]);
    if (given == -1 && PyErr_Occurred()) return NULL;
    const int n_threads = given > 0 ? (int)given : runtime.asp_max_threads();
    asp_fields *operand = (asp_fields *)args[0];
    watch->just_seen = 0; /* this caller may not be the product that just_seen was recorded for */
    const int is_good = args[1] == Py_True ? asp_watch_refreshes(watch, operand, n_threads)
                                           : asp_watch_validates(watch, operand, n_threads);
    if (PyErr_Occurred()) return NULL;
    return PyBool_FromLong(is_good);
}

static int watch_clear(PyObject *self)
{
    asp_watch *watch = (asp_watch *)self;
    Py_CLEAR(watch->rows);
    for (int at = 0; at < 3; ++at) {
        asp_watched *one = watch->of + at;
        one->array = one->descr = NULL;
        Py_CLEAR(one->held);
        Py_CLEAR(one->hashes);
        Py_CLEAR(one->versions);
    }
    return 0;
}

static PyObject *watch_retire(PyObject *self, PyObject *unused)
{
    (void)unused;
    ((asp_watch *)self)->generation += 1;
    watch_clear(self);
    Py_RETURN_NONE;
}

/* Return the array of n elements of this type, as a new reference, or NULL for any other object. */
static PyArrayObject *watch_numbers(PyObject *object, int type, int64_t n)
{
    PyArrayObject *array = asp_array(object, 1, ASP_WRITTEN);
    if (!array || PyArray_TYPE(array) != type || PyArray_DIM(array, 0) != n) return NULL;
    Py_INCREF(array);
    return array;
}

/* Store one array: (array, tuple of objects that hold it or None, number of references to these without outside
 * references and leases, number beneath its base, is leased, hashes or None, versions or None). Return 0, or -1 with an
 * exception. */
static int watch_fill_one(asp_watch *watch, asp_watched *one, PyObject *spec, int64_t n_least)
{
    PyObject *object, *held, *hashes, *versions;
    Py_ssize_t expected, n_beneath;
    int is_leased;
    if (!PyArg_ParseTuple(spec, "OOnnpOO", &object, &held, &expected, &n_beneath, &is_leased, &hashes, &versions)) return -1;
    PyArrayObject *array = asp_array(object, 1, ASP_READ);
    if (!array || (held != Py_None && !PyTuple_Check(held))) {
        PyErr_SetString(PyExc_TypeError, "a contiguous vector, and the tuple of objects that hold it, are needed");
        return -1;
    }
    one->array = object;
    one->descr = (PyObject *)PyArray_DESCR(array);
    one->data = PyArray_BYTES(array);
    one->n_least = n_least;
    one->n_bytes = n_least * PyArray_ITEMSIZE(array);
    if (held != Py_None) {
        const Py_ssize_t n_held = PyTuple_GET_SIZE(held);
        Py_INCREF(held);
        one->held = held;
        one->n_beneath = n_beneath < 0 ? 0 : n_beneath < n_held ? n_beneath : n_held;
        one->references = expected + (is_leased && n_held > 0);
        watch->n_own += n_held - one->n_beneath;
    }
    watch->n_own += is_leased;
    one->hashes = watch_numbers(hashes, NPY_UINT64, asp_watch_chunks(one));
    one->versions = one->hashes ? watch_numbers(versions, NPY_INT64, asp_watch_chunks(one)) : NULL;
    return 0;
}

static PyObject *watch_fill_in(PyObject *self, PyObject *args)
{
    asp_watch *watch = (asp_watch *)self;
    PyObject *rows, *specs[3];
    long long n_rows, nnz;
    int itype;
    if (!PyArg_ParseTuple(args, "O(LL)i(O!O!O!):fill_in", &rows, &n_rows, &nnz, &itype, &PyTuple_Type, specs,
                          &PyTuple_Type, specs + 1, &PyTuple_Type, specs + 2))
        return NULL;
    watch->generation += 1;
    watch_clear(self);
    watch->n_own = watch->just_seen = 0;
    watch->n_rows = n_rows;
    watch->nnz = nnz;
    watch->itype = itype;
    for (int at = 0; at < 3; ++at)
        if (watch_fill_one(watch, watch->of + at, specs[at], at ? nnz : n_rows + 1)) {
            watch_clear(self);
            return NULL;
        }
    Py_INCREF(rows);
    watch->rows = rows;
    Py_RETURN_NONE;
}

static PyObject *watch_note_lease(PyObject *self, PyObject *field)
{
    asp_watch *watch = (asp_watch *)self;
    const long at = PyLong_AsLong(field);
    if (at < 0 || at > 2) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "a field from 0 to 2 is needed");
    watch->of[at].references += watch->of[at].held && PyTuple_GET_SIZE(watch->of[at].held) > 0;
    watch->n_own += 1;
    Py_RETURN_NONE;
}

static PyObject *watch_looks_of(PyObject *self, void *closure)
{
    (void)closure;
    const asp_watched *of = ((asp_watch *)self)->of;
    return Py_BuildValue("(LLL)", (long long)of[0].n_looks, (long long)of[1].n_looks, (long long)of[2].n_looks);
}

static int watch_traverse(PyObject *self, visitproc visit, void *arg)
{
    const asp_watch *watch = (asp_watch *)self;
    Py_VISIT(watch->rows);
    for (int at = 0; at < 3; ++at) {
        Py_VISIT(watch->of[at].held);
        Py_VISIT(watch->of[at].hashes);
        Py_VISIT(watch->of[at].versions);
    }
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void watch_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    watch_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef watch_methods[] = {
    {"look", (PyCFunction)(void (*)(void))watch_look_run, METH_FASTCALL, "Check the arrays of an operand for writes."},
    {"fill_in", watch_fill_in, METH_VARARGS, "Watch the given arrays from now on."},
    {"retire", watch_retire, METH_NOARGS, "Disable answers until `fill_in`."},
    {"note_lease", watch_note_lease, METH_O, "Count one more reference to an array as the package's own."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef watch_members[] = {
    {"n_looks", T_LONGLONG, offsetof(asp_watch, n_looks), 0, NULL},
    {"look_ns", T_LONGLONG, offsetof(asp_watch, look_ns), 0, NULL},
    {"smoothed_look_ns", T_LONGLONG, offsetof(asp_watch, smoothed_look_ns), 0, NULL},
    {"total_look_ns", T_LONGLONG, offsetof(asp_watch, total_look_ns), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef watch_getset[] = {
    {"n_looks_of", watch_looks_of, NULL, "Number of looks at indptr, indices and data.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot watch_slots[] = {
    {Py_tp_doc, "State by which writes to the arrays of an operand are detected."},
    {Py_tp_methods, watch_methods},
    {Py_tp_members, watch_members},
    {Py_tp_getset, watch_getset},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_traverse, watch_traverse},
    {Py_tp_clear, watch_clear},
    {Py_tp_dealloc, watch_dealloc},
    {0, NULL},
};

static PyType_Spec watch_spec = {
    .name = "autosparse._native._extension.Watch",
    .basicsize = sizeof(asp_watch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = watch_slots,
};

int asp_add_watch(PyObject *module)
{
    watch_type = (PyTypeObject *)PyType_FromSpec(&watch_spec);
    return watch_type ? PyModule_AddObjectRef(module, "Watch", (PyObject *)watch_type) : -1;
}
