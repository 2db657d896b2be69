/* Implementation of small_product_api.h (small products), compiled with the extension's own module like entry_python.h, whose
 * `entry_array` it uses. */

enum { SMALL_READ = 0x101, SMALL_WRITTEN = 0x501, SMALL_ALIGNED = 0x100 }; /* C_CONTIGUOUS, ALIGNED; WRITEABLE */

/* A sparse operand as `look` found it. */
typedef struct small_matrix {
    const entry_array *indptr, *indices, *data;
    int64_t n_rows, n_cols, nnz;
    int code, dtype, itype;
} small_matrix;

/* Return the array behind an object, or NULL unless it is exactly an ndarray with these flags and 1 to n_dims
 * dimensions. */
static const entry_array *small_array(const asp_array_types *types, PyObject *object, int n_dims, int wanted)
{
    if (!object || (const void *)Py_TYPE(object) != types->array_type) return NULL;
    const entry_array *array = (const entry_array *)((char *)object + types->header);
    return array->n_dims >= 1 && array->n_dims <= n_dims && (array->flags & wanted) == wanted ? array : NULL;
}

/* Return the code of a dtype object among n known ones, or -1. Unpickled arrays have dtype objects of their own: these
 * have the same class as NumPy's, which has one class per type, and the same byte order, the third character behind
 * `typeobj`. */
static int small_code(const asp_array_types *types, const void *const *descrs, int n, const PyObject *descr)
{
    for (int at = 0; at < n; ++at)
        if (descrs[at] == (const void *)descr) return at;
    const int64_t order_at = types->header + (int64_t)sizeof(void *) + 2;
    for (int at = 0; at < n; ++at)
        if (Py_TYPE((PyObject *)(uintptr_t)descrs[at]) == Py_TYPE((PyObject *)(uintptr_t)descr) &&
            ((const char *)descrs[at])[order_at] == ((const char *)descr)[order_at])
            return at;
    return -1;
}

/* Return indptr[at]. */
static int64_t small_index(const small_matrix *A, int64_t at)
{
    return A->itype ? ((const int64_t *)A->indptr->data)[at] : ((const int32_t *)A->indptr->data)[at];
}

/* Validate the sparse operand as `look` does. Returns ASP_NOT_SMALL before reading any index if there are more than
 * `most` rows or entries. */
static int small_look(const asp_array_types *types, PyObject *const *args, int64_t most, small_matrix *A)
{
    const entry_array *parts[3];
    for (Py_ssize_t at = 0; at < 3; ++at)
        if (!(parts[at] = small_array(types, PyList_GetItem(args[0], at), 1, SMALL_READ))) return ASP_NOT_PLAIN;
    A->indptr = parts[0], A->indices = parts[1], A->data = parts[2];
    A->dtype = small_code(types, types->values, 4, A->data->descr);
    A->itype = small_code(types, types->indices, 2, A->indices->descr);
    if (A->dtype < 0 || A->itype < 0 || small_code(types, types->indices, 2, A->indptr->descr) != A->itype)
        return ASP_NOT_PLAIN;
    A->n_rows = PyLong_AsLongLong(args[1]);
    A->n_cols = PyLong_AsLongLong(args[2]);
    if (A->n_rows < 0 || A->n_cols < 0 || A->indptr->dimensions[0] != A->n_rows + 1) return ASP_FAULTY;
    A->nnz = small_index(A, A->n_rows);
    if (A->nnz < 0 || A->nnz > A->indices->dimensions[0] || A->nnz > A->data->dimensions[0]) return ASP_FAULTY;
    if (A->nnz > most || A->n_rows > most) return ASP_NOT_SMALL;
    if (args[3] != Py_True && asp_csr_check(A->itype, A->n_rows, A->n_cols, A->indptr->data, A->indices->data,
                                            A->indices->dimensions[0], most < INT64_MAX ? 1 : asp_max_threads()))
        return ASP_FAULTY;
    return A->dtype + 4 * A->itype;
}

/* Return a dense operand as the kernels read it: rows of contiguous elements, *ld apart. It is copied if necessary
 * (*copy, which the caller frees); NULL without memory. */
static const char *small_rows(const entry_array *B, int64_t item, int64_t n_vecs, int64_t *ld, void **copy)
{
    const int64_t n = B->dimensions[0], row_step = B->strides[0] / item;
    const int64_t column_step = B->n_dims == 2 ? B->strides[1] / item : 1;
    *copy = NULL;
    *ld = row_step;
    if (n_vecs == 1 || (column_step == 1 && row_step >= n_vecs)) return B->data;
    *ld = n_vecs;
    *copy = malloc((size_t)(n * n_vecs * item) + 1);
    if (*copy) asp_dense_rows((int)item, n, n_vecs, B->data, row_step, column_step, *copy, n_vecs, 1);
    return *copy;
}

/* Implementation of the builtin `few`. */
static int64_t small_product(const asp_array_types *types, PyObject *const *args)
{
    small_matrix A;
    const int64_t most = PyLong_AsLongLong(args[8]);
    const int seen = small_look(types, args, most, &A);
    if (seen < 0) return seen;
    const int transposed = args[6] == Py_True;
    const entry_array *B = small_array(types, args[4], 2, SMALL_ALIGNED), *out = small_array(types, args[5], 2, SMALL_WRITTEN);
    if (!B || !out || small_code(types, types->values, 4, B->descr) != A.dtype || out->descr != B->descr ||
        out->n_dims != B->n_dims)
        return ASP_NOT_SMALL;
    const int64_t n_vecs = B->n_dims == 2 ? B->dimensions[1] : 1;
    /* Columns of A count where the result has as many rows, or where B is copied. */
    const int is_read_in_place = !transposed && (B->flags & SMALL_READ) == SMALL_READ;
    if (n_vecs < 1 || A.nnz + A.n_rows + (is_read_in_place ? 0 : A.n_cols) > most / n_vecs ||
        B->dimensions[0] != (transposed ? A.n_rows : A.n_cols) ||
        out->dimensions[0] != (transposed ? A.n_cols : A.n_rows) || (out->n_dims == 2 && out->dimensions[1] != n_vecs))
        return ASP_NOT_SMALL;
    const int64_t start_ns = entry_now_ns(), item = A.dtype == 0 ? 4 : A.dtype == 3 ? 16 : 8;
    const int flags = (int)PyLong_AsLong(args[7]);
    int64_t ldb = n_vecs;
    void *copy = NULL;
    const char *from = B->data;
    if ((B->flags & SMALL_READ) != SMALL_READ) {
        if (B->strides[0] % item || (B->n_dims == 2 && B->strides[1] % item)) return ASP_NOT_SMALL;
        if (!(from = small_rows(B, item, n_vecs, &ldb, &copy))) return ASP_NOT_SMALL;
    }
    const int status = (transposed ? asp_csr_t_mm : asp_csr_mm)(
        A.dtype, A.itype, A.n_rows, A.n_cols, A.indptr->data, A.indices->data, A.data->data, from, ldb, out->data,
        n_vecs, n_vecs, 1, flags);
    free(copy);
    return status ? ASP_NOT_SMALL : entry_now_ns() - start_ns;
}

static const asp_array_types *small_state(PyObject *self)
{
    return PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
}

static PyObject *small_look_run(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    small_matrix A;
    if (n_args != 4) return PyLong_FromLong(ASP_NOT_PLAIN);
    const int seen = small_look(small_state(self), args, INT64_MAX, &A);
    return PyErr_Occurred() ? NULL : PyLong_FromLong(seen);
}

static PyObject *small_run(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 9) return PyLong_FromLong(ASP_NOT_SMALL);
    const int64_t took = small_product(small_state(self), args);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(took);
}

static PyObject *small_references_run(PyObject *self, PyObject *list)
{
    const asp_array_types *types = small_state(self);
    const Py_ssize_t n = PyList_Size(list);
    Py_ssize_t total = 0;
    for (Py_ssize_t at = 0; at < n; ++at) {
        PyObject *one = PyList_GetItem(list, at);
        const entry_array *array = small_array(types, one, 64, 0);
        total += Py_REFCNT(one);
        if (array && array->base) total += Py_REFCNT(array->base);
    }
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(total);
}

static PyMethodDef small_methods[] = {
    {"look", (PyCFunction)(void (*)(void))small_look_run, 0x0080 /* METH_FASTCALL */, NULL},
    {"small_product", (PyCFunction)(void (*)(void))small_run, 0x0080, NULL},
    {"references", small_references_run, METH_O, NULL},
};

static PyObject *small_made(PyMethodDef *method, PyObject *state, PyObject *kept)
{
    PyObject *self = PyTuple_Pack(2, state, kept);
    PyObject *made = self ? PyCFunction_NewEx(method, self, NULL) : NULL;
    Py_XDECREF(self);
    return made;
}

static PyObject *small_look_make(PyObject *state, PyObject *kept)
{
    return small_made(small_methods, state, kept);
}

static PyObject *small_make(PyObject *state, PyObject *kept)
{
    return small_made(small_methods + 1, state, kept);
}

static PyObject *small_references_make(PyObject *state, PyObject *kept)
{
    return small_made(small_methods + 2, state, kept);
}

uintptr_t asp_look_maker(void)
{
    return (uintptr_t)small_look_make;
}

uintptr_t asp_small_product_maker(void)
{
    return (uintptr_t)small_make;
}

uintptr_t asp_references_maker(void)
{
    return (uintptr_t)small_references_make;
}
