/* Sweeps of vector operations (autosparse/linalg/sweeps.py), compiled for given vectors. */
#include "extension.h"

#include <stdlib.h>

enum { SWEEP_SHORT = 4096 }; /* elements up to which the GIL is kept: releasing it takes longer */

/* Store a coefficient as a pair (re, im); return 0, with an exception set, if it is no number of the dtype. */
static int sweep_coefficient(const asp_sweep *sweep, PyObject *number, double *pair)
{
    pair[1] = 0;
    if (sweep->dtype >= 2 && PyComplex_Check(number)) {
        pair[0] = PyComplex_RealAsDouble(number);
        pair[1] = PyComplex_ImagAsDouble(number);
        return 1;
    }
    pair[0] = PyFloat_AsDouble(number);
    return pair[0] != -1 || !PyErr_Occurred();
}

/* Return the dot products as a tuple of Python numbers. */
static PyObject *sweep_dots(const asp_sweep *sweep)
{
    const double *dots = (const double *)sweep->dots;
    PyObject *found = PyTuple_New(sweep->n_dots);
    for (int at = 0; found && at < sweep->n_dots; at++, dots += 2) {
        PyObject *dot = sweep->dtype >= 2 ? PyComplex_FromDoubles(dots[0], dots[1]) : PyFloat_FromDouble(dots[0]);
        if (!dot || PyTuple_SetItem(found, at, dot)) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

/* Return the sweep of a builtin, whose self is (capsule of the sweep, list of its vectors). */
static asp_sweep *sweep_of(PyObject *self)
{
    return PyCapsule_GetPointer(PyTuple_GET_ITEM(self, 0), NULL);
}

asp_sweep *asp_sweep_of(PyObject *builtin)
{
    PyObject *self = PyCFunction_Check(builtin) ? PyCFunction_GetSelf(builtin) : NULL;
    if (self && PyTuple_Check(self) && PyTuple_GET_SIZE(self) == 2 && PyCapsule_CheckExact(PyTuple_GET_ITEM(self, 0)))
        return sweep_of(self);
    PyErr_Format(PyExc_TypeError, "the builtin of a sweep is needed, not %.100s", Py_TYPE(builtin)->tp_name);
    return NULL;
}

int asp_sweep_execute(const asp_sweep *sweep)
{
    if (sweep->n * (sweep->n_columns > 1 ? sweep->n_columns : 1) <= SWEEP_SHORT) return runtime.asp_sweep_run(sweep);
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = runtime.asp_sweep_run(sweep);
    Py_END_ALLOW_THREADS;
    return status;
}

/* Store all coefficients; return 0, with an exception set, if they do not fit. */
static int sweep_coefficients(const asp_sweep *sweep, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != sweep->n_coefficients) {
        PyErr_Format(PyExc_TypeError, "this sweep takes %d coefficients, not %zd", (int)sweep->n_coefficients, n_args);
        return 0;
    }
    for (Py_ssize_t at = 0; at < n_args; at++)
        if (!sweep_coefficient(sweep, args[at], (double *)sweep->coefficients + 2 * at)) return 0;
    return 1;
}

enum { PRODUCT_ARGUMENTS = 6 }; /* the method `run` of a FastCall, and its arguments */

/* The builtin `after`: return the dot products of the sweep after a product, or None if nothing was computed. */
static PyObject *sweep_after(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    const asp_sweep *sweep = sweep_of(self);
    if (!sweep) return NULL;
    if (n_args < PRODUCT_ARGUMENTS)
        return PyErr_Format(PyExc_TypeError, "a sweep after a product takes %d arguments of the product", PRODUCT_ARGUMENTS);
    if (!sweep_coefficients(sweep, args + PRODUCT_ARGUMENTS, n_args - PRODUCT_ARGUMENTS)) return NULL;
    if (!asp_fast_call_sweeps(args[0], args + 1, sweep)) Py_RETURN_NONE;
    return sweep_dots(sweep);
}

/* The builtin `run`; releases the GIL for long vectors. */
static PyObject *sweep_run(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    const asp_sweep *sweep = sweep_of(self);
    if (!sweep || !sweep_coefficients(sweep, args, n_args)) return NULL;
    return asp_sweep_execute(sweep) ? PyErr_NoMemory() : sweep_dots(sweep);
}

/* State while a sweep is compiled. */
typedef struct {
    PyObject *vectors; /* list of the vectors */
    asp_sweep sweep;
    int n_codes, n_vectors;
    int dtypes[ASP_SWEEP_VECTORS];
} sweep_compiled;

/* Return the number of a vector, adding it unless it is known; -1 if there are too many or it does not fit. All
 * vectors are contiguous and have one length. */
static int sweep_place(sweep_compiled *it, PyObject *object)
{
    PyArrayObject *array = asp_array(object, 1, ASP_READ);
    if (!array) return -1;
    for (int at = 0; at < it->n_vectors; at++)
        if (it->sweep.vectors[at] == (uintptr_t)PyArray_DATA(array) && PyList_GetItem(it->vectors, at) == object) return at;
    const int dtype = asp_value_code(array);
    if (it->n_vectors == ASP_SWEEP_VECTORS || dtype < 0) return -1;
    if (it->n_vectors == 0) it->sweep.n = PyArray_DIM(array, 0);
    if (PyArray_DIM(array, 0) != it->sweep.n || PyList_Append(it->vectors, object)) return -1;
    it->dtypes[it->n_vectors] = dtype;
    it->sweep.vectors[it->n_vectors] = (uintptr_t)PyArray_DATA(array);
    return it->n_vectors++;
}

/* Append the number of a vector, which must have the sweep's dtype, that of its first vector; return whether it
 * fits. */
static int sweep_adds(sweep_compiled *it, PyObject *object)
{
    const int place = sweep_place(it, object);
    if (place < 0 || it->n_codes + 2 >= ASP_SWEEP_CODES || it->dtypes[place] != it->dtypes[0]) return 0;
    it->sweep.codes[it->n_codes++] = place;
    return 1;
}

/* Append a step: (out, terms), (out, d, v) or (u, v), as named tuples; return whether it fits. */
static int sweep_adds_step(sweep_compiled *it, PyObject *step)
{
    if (!PyTuple_Check(step) || it->n_codes + 2 >= ASP_SWEEP_CODES) return 0;
    int32_t *const code = it->sweep.codes + it->n_codes++;
    PyObject *first = PyTuple_GetItem(step, 0), *second = PyTuple_Size(step) > 1 ? PyTuple_GetItem(step, 1) : NULL;
    if (PyTuple_Size(step) == 3) {
        *code = ASP_SCALE;
        if (!sweep_adds(it, first)) return 0;
        const int d = sweep_place(it, second), dtype = it->dtypes[0];
        if (d < 0 || (it->dtypes[d] != dtype && it->dtypes[d] + 2 != dtype)) return 0;
        it->sweep.codes[it->n_codes++] = d;
        if (!sweep_adds(it, PyTuple_GetItem(step, 2))) return 0;
        it->sweep.codes[it->n_codes++] = it->dtypes[d] < 2;
        return 1;
    }
    if (!second || !sweep_adds(it, first)) return 0;
    if (!PyTuple_Check(second)) {
        *code = ASP_DOT;
        it->sweep.n_dots++;
        return sweep_adds(it, second);
    }
    const Py_ssize_t n_terms = PyTuple_Size(second);
    if (n_terms < 1 || n_terms > ASP_SWEEP_TERMS) return 0;
    *code = ASP_COMBINE;
    it->sweep.codes[it->n_codes++] = (int32_t)n_terms;
    it->sweep.n_coefficients += (int32_t)n_terms;
    for (Py_ssize_t at = 0; at < n_terms; at++)
        if (!sweep_adds(it, PyTuple_GetItem(second, at))) return 0;
    return 1;
}

static void sweep_free(PyObject *capsule)
{
    free(PyCapsule_GetPointer(capsule, NULL));
}

/* Return a capsule of the sweep with its work space behind it. */
static PyObject *sweep_placed(const sweep_compiled *it)
{
    const int64_t n_chunks = runtime.asp_sweep_chunks(it->sweep.dtype, it->sweep.n, 0);
    const int64_t n_pairs = it->sweep.n_coefficients + it->sweep.n_dots * (1 + n_chunks);
    const size_t pairs_bytes = (size_t)n_pairs * 2 * sizeof(double);
    asp_sweep *sweep = malloc(sizeof *sweep + pairs_bytes + (size_t)n_chunks * sizeof(int32_t));
    if (!sweep) return PyErr_NoMemory();
    *sweep = it->sweep;
    sweep->coefficients = (uintptr_t)(sweep + 1);
    sweep->dots = sweep->coefficients + (uintptr_t)sweep->n_coefficients * 2 * sizeof(double);
    sweep->partials = sweep->dots + (uintptr_t)sweep->n_dots * 2 * sizeof(double);
    sweep->left = sweep->coefficients + pairs_bytes;
    PyObject *capsule = PyCapsule_New(sweep, NULL, sweep_free);
    if (!capsule) free(sweep);
    return capsule;
}

/* The builtin `bind`. */
static PyObject *sweep_bind(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    asp_sweep *sweep = sweep_of(self);
    PyObject *vectors = PyTuple_GET_ITEM(self, 1);
    const Py_ssize_t place = n_args == 2 ? PyLong_AsSsize_t(args[0]) : -1;
    if (PyErr_Occurred()) return NULL;
    if (place < 0 || place >= PyList_Size(vectors)) return PyErr_Format(PyExc_ValueError, "bind takes a position and a vector");
    PyArrayObject *array = asp_array(args[1], 1, ASP_READ), *old = asp_array(PyList_GetItem(vectors, place), 1, 0);
    if (!array || !old || PyArray_DIM(array, 0) != sweep->n ||
        asp_value_code(array) != asp_value_code(old))
        return PyErr_Format(PyExc_ValueError, "vector %zd has another dtype or length than the vector that it replaces", place);
    sweep->vectors[place] = (uintptr_t)PyArray_DATA(array);
    Py_INCREF(args[1]);
    if (PyList_SetItem(vectors, place, args[1])) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef sweep_methods[] = {
    {"run", (PyCFunction)(void (*)(void))sweep_run, METH_FASTCALL, NULL},
    {"bind", (PyCFunction)(void (*)(void))sweep_bind, METH_FASTCALL, NULL},
    {"after", (PyCFunction)(void (*)(void))sweep_after, METH_FASTCALL, NULL},
};
enum { SWEEP_METHODS = sizeof sweep_methods / sizeof *sweep_methods };

/* Return the builtins (run, bind, after) of a compiled sweep. */
static PyObject *sweep_builtins(sweep_compiled *it)
{
    it->sweep.dtype = it->dtypes[0];
    it->sweep.serial_ns = runtime.asp_sweep_serial_ns(it->sweep.dtype, it->sweep.n, it->n_vectors);
    PyObject *capsule = sweep_placed(it);
    PyObject *self = capsule ? PyTuple_Pack(2, capsule, it->vectors) : NULL;
    PyObject *found = self ? PyTuple_New(SWEEP_METHODS) : NULL;
    for (int at = 0; found && at < SWEEP_METHODS; at++) {
        PyObject *method = PyCFunction_NewEx(sweep_methods + at, self, NULL);
        if (!method || PyTuple_SetItem(found, at, method)) Py_CLEAR(found);
    }
    Py_XDECREF(self);
    Py_XDECREF(capsule);
    return found;
}

PyObject *asp_compile_sweep(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    if (n_args != 2 || !PyTuple_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "compile_sweep takes a tuple of steps and n_threads");
    sweep_compiled it = {.vectors = NULL};
    it.sweep.n_threads = (int32_t)PyLong_AsLong(args[1]);
    if (PyErr_Occurred() || !(it.vectors = PyList_New(0))) return NULL;
    int is_fine = PyTuple_GET_SIZE(args[0]) > 0;
    for (Py_ssize_t at = 0; is_fine && at < PyTuple_GET_SIZE(args[0]); at++)
        is_fine = sweep_adds_step(&it, PyTuple_GET_ITEM(args[0], at));
    PyObject *found = is_fine ? sweep_builtins(&it) : NULL;
    Py_DECREF(it.vectors);
    if (found || PyErr_Occurred()) return found;
    Py_RETURN_NONE;
}
