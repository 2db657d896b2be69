/* Declarations of the extension module `_extension`, which reads Python's and NumPy's objects through the C API of
 * CPython and of NumPy. Kernels are called by the addresses of the C runtime's functions (`connect` and `connect_to`). */
#ifndef ASP_EXTENSION_H
#define ASP_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <structmember.h>

#define NPY_NO_DEPRECATED_API NPY_1_25_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION /* NumPy 1.26, the oldest that pyproject.toml allows */
#define PY_ARRAY_UNIQUE_SYMBOL autosparse_extension_array_api
#ifndef ASP_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "exports.h"
#include "platform.h"

extern asp_functions runtime; /* null pointers before `connect` */

/* An operand: attributes of autosparse.operands.watched.WatchedArrays, which derives from this type. A null pointer is
 * an attribute that was not set. Arrays of three: indptr, indices, data. */
typedef struct asp_fields {
    PyObject_HEAD
    PyObject *arrays, *rows, *checked, *exported, *aliases_before, *unvalidated, *structure_version, *values_version;
    PyObject *invalidated[3], *clean[3];
    PyObject *watch;
    PyObject *retained;   /* list of arrays that were replaced while a product was reading them, or NULL */
    Py_ssize_t n_running; /* products that are computing now */
    Py_ssize_t n_values;  /* number of values, and NumPy's number of their dtype, when `rows` was set */
    int values_type;
} asp_fields;
enum { ASP_FIELDS = (offsetof(asp_fields, n_running) - offsetof(asp_fields, arrays)) / sizeof(PyObject *) };

/* State by which writes to the arrays of an operand are detected (autosparse/operands/watch.py): one array. */
typedef struct asp_watched {
    const PyObject *array, *descr;   /* the array object and its dtype when this was filled in */
    const char *data;                /* its memory at that time */
    PyObject *held;                  /* tuple of the array and the objects that it is a view of; NULL: cannot be counted */
    Py_ssize_t n_beneath;            /* number of objects in `held`, its last, that lie beneath the array's base */
    Py_ssize_t references;           /* number of references to all `held` without outside references */
    int64_t n_bytes, n_least;        /* bytes in use, and minimum number of elements of the array */
    PyArrayObject *hashes;           /* per chunk (uint64); NULL: never checked */
    PyArrayObject *versions;         /* per chunk of the values: the version in which it last changed; else NULL */
    int64_t n_looks;
} asp_watched;
typedef struct asp_watch {
    PyObject_HEAD
    PyObject *rows; /* the operand's, once known; NULL: Python must check */
    asp_watched of[3];
    Py_ssize_t n_own; /* references to arrays, among those that `references` counts, that are not held by views */
    int64_t n_rows, nnz;
    int itype, just_seen; /* just_seen: bits of the arrays that `look` has validated for the current product */
    int64_t generation;   /* how often this was filled in or retired */
    long long n_looks, look_ns, smoothed_look_ns, total_look_ns;
} asp_watch;

/* operand.c, watch_type.c and fast_call.c: types, created by the functions below; 0 means success. */
extern PyTypeObject *fields_type, *watch_type;
int asp_add_fields(PyObject *module);
int asp_add_watch(PyObject *module);
int asp_add_fast_call(PyObject *module);
PyObject *asp_make_field(PyObject *module, PyObject *args);
/* Set the operand's rows. */
void asp_set_rows(asp_fields *operand, PyObject *rows);
/* Return whether the values have the dtype, the layout and at least the length that they had when `rows` was set: an array
 * that other code holds may get others in place (`d.dtype = ...`, `d.resize(...)`). */
int asp_values_fit(const asp_fields *operand);
/* Return whether `enter`, the method `run` of a FastCall, has computed the product args[0..4] and executed the sweep over
 * the rows of its result. */
int asp_fast_call_sweeps(PyObject *enter, PyObject *const *args, const asp_sweep *sweep);

/* watch.c. Return the number of chunks of an array that are hashed. */
static inline int64_t asp_watch_chunks(const asp_watched *one)
{
    return (one->n_bytes + ASP_LOOK_CHUNK - 1) / ASP_LOOK_CHUNK;
}
/* Check the structure and set the operand's rows if possible; return whether it is unchanged. */
int asp_watch_validates(asp_watch *watch, asp_fields *operand, int n_threads);
/* Return whether the arrays are the objects for which the watch was filled in, unchanged in address and extent. */
int asp_watch_is_same(const asp_watch *watch, const asp_fields *operand);
/* Check all arrays but those that a look has validated for this product; return 0 if Python must check. */
int asp_watch_refreshes(asp_watch *watch, asp_fields *operand, int n_threads);

/* small_product.c, sweep.c, conjugate_gradients.c, stabilized.c, minimal_residual.c, least_squares.c: functions of the
 * module. */
PyObject *asp_look_run(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_product_run(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_small_product_run(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_compile_sweep(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_advance_cg(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_advance_columns_bicgstab(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_advance_columns_cg(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_advance_columns_minres(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_advance_minres(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_advance_lsqr(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_advance_lsmr(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
PyObject *asp_advance_bicgstab(PyObject *module, PyObject *const *args, Py_ssize_t n_args);
/* Return the sweep that a builtin made by compile_sweep executes; NULL, with an exception set, for other objects. */
asp_sweep *asp_sweep_of(PyObject *builtin);
/* Execute a sweep, without the GIL if its vectors are long; return ASP_OK or ASP_NO_MEMORY. */
int asp_sweep_execute(const asp_sweep *sweep);

enum { ASP_READ = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED, ASP_WRITTEN = ASP_READ | NPY_ARRAY_WRITEABLE };

/* Return the array behind an object, or NULL unless it is exactly an ndarray with these flags and 1 to most_dims
 * dimensions. */
static inline PyArrayObject *asp_array(PyObject *object, int most_dims, int flags)
{
    if (!object || !PyArray_CheckExact(object)) return NULL;
    PyArrayObject *array = (PyArrayObject *)object;
    const int n_dims = PyArray_NDIM(array);
    return n_dims >= 1 && n_dims <= most_dims && (PyArray_FLAGS(array) & flags) == flags ? array : NULL;
}

/* Return the runtime's code of the dtype of values, or -1. */
static inline int asp_value_code(PyArrayObject *array)
{
    if (PyArray_ISBYTESWAPPED(array)) return -1;
    switch (PyArray_TYPE(array)) {
    case NPY_FLOAT: return 0;
    case NPY_DOUBLE: return 1;
    case NPY_CFLOAT: return 2;
    case NPY_CDOUBLE: return 3;
    default: return -1;
    }
}

/* Return the runtime's code of the dtype of indices, or -1. */
static inline int asp_index_code(PyArrayObject *array)
{
    if (PyArray_ISBYTESWAPPED(array) || !PyArray_ISSIGNED(array)) return -1;
    return PyArray_ITEMSIZE(array) == 8 ? 1 : PyArray_ITEMSIZE(array) == 4 ? 0 : -1;
}

/* Return the bytes of a value with this code. */
static inline int64_t asp_item(int dtype) { return dtype == 0 ? 4 : dtype == 3 ? 16 : 8; }

/* Return array[at] of indices with this code. */
static inline int64_t asp_index(const char *indices, int itype, int64_t at)
{
    return itype ? ((const int64_t *)(const void *)indices)[at] : ((const int32_t *)(const void *)indices)[at];
}

#ifdef ASP_HOOKS
/* Factor of the times that tuning decisions read, which tests/chaos.py changes. */
double asp_clock_scale __attribute__((visibility("default"), weak)) = 1;
#define asp_now_ns() ((int64_t)((double)asp_now_ns() * asp_clock_scale))
#endif

/* Store an object in an attribute. */
static inline void asp_set(PyObject **slot, PyObject *object)
{
    PyObject *old = *slot;
    Py_INCREF(object);
    *slot = object;
    Py_XDECREF(old);
}

#endif
