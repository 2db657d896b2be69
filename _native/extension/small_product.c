/* Products of a CSR matrix given as a list [indptr, indices, data] or a tuple, and its validation. */
#include "extension.h"

#include <stdlib.h>

/* Negative results. */
enum { NOT_PLAIN = -1, FAULTY = -2, NOT_SMALL = -3 };

enum { WIDE = 4 }; /* columns of a product whose limit is doubled */

/* Code of a dtype of values that has no kernels of one dtype, in the result of `examine`. */
enum { OTHER_DTYPE = 4 };

/* A sparse operand as `examine` found it. */
typedef struct small_matrix {
    PyArrayObject *indptr, *indices, *data;
    int64_t n_rows, n_cols, nnz;
    int dtype, itype;
} small_matrix;

/* Validate the arguments (arrays, n_rows, n_cols, checked, ...); the indices are read only if `checked` is not True.
 * Returns NOT_SMALL before reading any index if there are more than `most` rows or entries. */
static int examine(PyObject *const *args, int64_t most, small_matrix *A)
{
    PyArrayObject *parts[3];
    const int is_plain = PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0]);
    if (!is_plain || PySequence_Fast_GET_SIZE(args[0]) != 3) return NOT_PLAIN;
    for (Py_ssize_t at = 0; at < 3; ++at)
        if (!(parts[at] = asp_array(PySequence_Fast_GET_ITEM(args[0], at), 1, ASP_READ))) return NOT_PLAIN;
    A->indptr = parts[0], A->indices = parts[1], A->data = parts[2];
    A->dtype = asp_value_code(A->data);
    A->itype = asp_index_code(A->indices);
    if (A->itype < 0 || asp_index_code(A->indptr) != A->itype || (A->dtype < 0 && most < INT64_MAX)) return NOT_PLAIN;
    A->n_rows = PyLong_AsLongLong(args[1]);
    A->n_cols = PyLong_AsLongLong(args[2]);
    if (A->n_rows < 0 || A->n_cols < 0 || PyArray_DIM(A->indptr, 0) != A->n_rows + 1) return FAULTY;
    A->nnz = asp_index(PyArray_BYTES(A->indptr), A->itype, A->n_rows);
    if (A->nnz < 0 || A->nnz > PyArray_DIM(A->indices, 0) || A->nnz > PyArray_DIM(A->data, 0)) return FAULTY;
    if (A->nnz > most || A->n_rows > most) return NOT_SMALL;
    if (args[3] != Py_True && runtime.asp_csr_check(A->itype, A->n_rows, A->n_cols, PyArray_DATA(A->indptr),
                                                    PyArray_DATA(A->indices), PyArray_DIM(A->indices, 0),
                                                    most < INT64_MAX ? 1 : runtime.asp_max_threads()))
        return FAULTY;
    return (A->dtype < 0 ? OTHER_DTYPE : A->dtype) + 8 * A->itype;
}

/* Return a dense operand as the kernels read it: rows of contiguous elements, *ld apart. It is copied if necessary
 * (*copy, which the caller frees); NULL without memory. */
static const char *rows_of(PyArrayObject *B, int64_t item, int64_t n_vecs, int64_t *ld, void **copy)
{
    const int64_t n = PyArray_DIM(B, 0), row_step = PyArray_STRIDE(B, 0) / item;
    const int64_t column_step = PyArray_NDIM(B) == 2 ? PyArray_STRIDE(B, 1) / item : 1;
    *copy = NULL;
    *ld = row_step;
    if (n_vecs == 1 || (column_step == 1 && row_step >= n_vecs)) return PyArray_BYTES(B);
    *ld = n_vecs;
    *copy = malloc((size_t)(n * n_vecs * item) + 1);
    if (*copy)
        runtime.asp_dense_rows((int)item, n, n_vecs, PyArray_BYTES(B), row_step, column_step, *copy, n_vecs, 1);
    return *copy;
}

/* Return whether the dense operands fit the matrix, and their product has at most `most` multiplications. The limit
 * is doubled for real numbers and WIDE columns: until a fast path is open, a dispatch state costs more than threads save. */
static int fits(const small_matrix *A, PyArrayObject *B, PyArrayObject *out, int transposed, int64_t most)
{
    if (!B || !out || asp_value_code(B) != A->dtype || asp_value_code(out) != A->dtype ||
        PyArray_NDIM(out) != PyArray_NDIM(B))
        return 0;
    const int64_t n_vecs = PyArray_NDIM(B) == 2 ? PyArray_DIM(B, 1) : 1;
    /* Columns of A count where the result has as many rows, or where B is copied. */
    const int is_read_in_place = !transposed && (PyArray_FLAGS(B) & ASP_READ) == ASP_READ;
    if (n_vecs >= WIDE && !PyArray_ISCOMPLEX(B)) most *= 2;
    return n_vecs >= 1 && A->nnz + A->n_rows + (is_read_in_place ? 0 : A->n_cols) <= most / n_vecs &&
           PyArray_DIM(B, 0) == (transposed ? A->n_rows : A->n_cols) &&
           PyArray_DIM(out, 0) == (transposed ? A->n_cols : A->n_rows) &&
           (PyArray_NDIM(out) == 1 || PyArray_DIM(out, 1) == n_vecs);
}

/* Compute the product on this thread and return its ns, or a negative number. */
static int64_t multiply(PyObject *const *args)
{
    small_matrix A;
    const int64_t most = PyLong_AsLongLong(args[8]);
    const int seen = examine(args, most, &A);
    if (seen < 0) return seen;
    const int transposed = args[6] == Py_True, flags = (int)PyLong_AsLong(args[7]);
    PyArrayObject *B = asp_array(args[4], 2, NPY_ARRAY_ALIGNED), *out = asp_array(args[5], 2, ASP_WRITTEN);
    if (!fits(&A, B, out, transposed, most)) return NOT_SMALL;
    const int64_t start_ns = asp_now_ns(), item = asp_item(A.dtype);
    const int64_t n_vecs = PyArray_NDIM(B) == 2 ? PyArray_DIM(B, 1) : 1;
    int64_t ldb = n_vecs;
    void *copy = NULL;
    const char *from = PyArray_BYTES(B);
    if ((PyArray_FLAGS(B) & ASP_READ) != ASP_READ) {
        if (PyArray_STRIDE(B, 0) % item || (PyArray_NDIM(B) == 2 && PyArray_STRIDE(B, 1) % item)) return NOT_SMALL;
        if (!(from = rows_of(B, item, n_vecs, &ldb, &copy))) return NOT_SMALL;
    }
    const int status = (transposed ? runtime.asp_csr_t_mm : runtime.asp_csr_mm)(
        A.dtype, A.itype, A.n_rows, A.n_cols, PyArray_DATA(A.indptr), PyArray_DATA(A.indices), PyArray_DATA(A.data),
        from, ldb, PyArray_DATA(out), n_vecs, n_vecs, 1, flags);
    free(copy);
    return status ? NOT_SMALL : asp_now_ns() - start_ns;
}

PyObject *asp_product_run(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    enum { TAKEN = 7 };
    if (n_args != TAKEN || !PyTuple_Check(args[0])) /* not a list: the tuple holds the arrays while kernels read them */
        return PyErr_Format(PyExc_TypeError, "product takes (arrays, n_rows, n_cols, checked, B, out, transposed)");
    const int64_t most = INT64_MAX / 4;
    small_matrix A;
    const int seen = examine(args, most, &A), transposed = args[6] == Py_True;
    if (PyErr_Occurred()) return NULL;
    PyArrayObject *B = asp_array(args[4], 2, ASP_READ), *out = asp_array(args[5], 2, ASP_WRITTEN);
    if (seen < 0 || !fits(&A, B, out, transposed, most)) Py_RETURN_FALSE;
    const int64_t n_vecs = PyArray_NDIM(B) == 2 ? PyArray_DIM(B, 1) : 1;
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = (transposed ? runtime.asp_csr_t_mm : runtime.asp_csr_mm)(
        A.dtype, A.itype, A.n_rows, A.n_cols, PyArray_DATA(A.indptr), PyArray_DATA(A.indices), PyArray_DATA(A.data),
        PyArray_DATA(B), n_vecs, PyArray_DATA(out), n_vecs, n_vecs, runtime.asp_max_threads(), 0);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(!status);
}

PyObject *asp_look_run(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    small_matrix A;
    if (n_args != 4) return PyErr_Format(PyExc_TypeError, "look takes (arrays, n_rows, n_cols, checked)");
    const int seen = examine(args, INT64_MAX, &A);
    return PyErr_Occurred() ? NULL : PyLong_FromLong(seen);
}

PyObject *asp_small_product_run(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    if (n_args != 9)
        return PyErr_Format(PyExc_TypeError, "small_product takes (arrays, n_rows, n_cols, checked, B, out, transposed, "
                                             "flags, most)");
    const int64_t took = multiply(args);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(took);
}
