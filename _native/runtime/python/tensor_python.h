/* Implementation of tensor_api.h, compiled with the module of cffi, which includes Python.h. */
#include <stdlib.h>
#include <string.h>

/* A dense tensor. */
typedef struct tensor_dense {
    char *data;
    int64_t n_dims, sizes[2], strides[2]; /* missing dimensions have size 1 and stride 0 */
    int32_t dtype;
} tensor_dense;

/* A sparse matrix: CSR or CSC with `starts`, or COO. */
typedef struct tensor_entries {
    const char *starts, *indices, *values; /* starts NULL: indices holds rows and columns */
    int64_t n, k, nnz, index_step, pair_step;
    int by_columns;
    int32_t dtype, index_dtype;
    char *impl, *impls[2]; /* TensorImpls of the matrix, its starts and its indices */
} tensor_entries;

/* Return the at::Tensor of an object, or NULL unless it is exactly a torch.Tensor or torch.nn.Parameter. */
static char *tensor_of(const asp_tensors *about, PyObject *object)
{
    const void *type = (const void *)Py_TYPE(object);
    return type == about->types[0] || type == about->types[1] ? (char *)object + about->tensor_at : NULL;
}

/* Return whether the tensor's memory holds its values (no conjugation, negation, subclass or tracing). */
static int tensor_is_plain(const asp_tensors *about, char *tensor)
{
    uint64_t keys;
    memcpy(&keys, *(char **)tensor + about->keys_at, sizeof keys);
    return !(keys & about->refused);
}

/* Read a dense tensor on the CPU with at most most_dims (1 or 2) dimensions; return 0 if it is anything else. */
static int tensor_look(const asp_tensors *about, char *tensor, int64_t most_dims, tensor_dense *seen)
{
    int32_t layout, device;
    int64_t *sizes, *strides;
    void *data;
    if (!tensor || about->get_layout(tensor, &layout) || layout != about->strided ||
        about->get_device_type(tensor, &device) || device != about->cpu || !tensor_is_plain(about, tensor) ||
        about->get_dtype(tensor, &seen->dtype) || about->get_dim(tensor, &seen->n_dims) || seen->n_dims > most_dims ||
        about->get_sizes(tensor, &sizes) || about->get_strides(tensor, &strides) || about->get_data_ptr(tensor, &data))
        return 0;
    seen->data = data;
    for (int64_t at = 0; at < 2; ++at) {
        seen->sizes[at] = at < seen->n_dims ? sizes[at] : 1;
        seen->strides[at] = at < seen->n_dims ? strides[at] : 0;
    }
    return 1;
}

/* Return whether a one-dimensional tensor is contiguous. */
static int tensor_has_no_gaps(const tensor_dense *seen)
{
    return seen->n_dims == 1 && (seen->strides[0] == 1 || seen->sizes[0] <= 1);
}

/* Read the values of a sparse tensor; return 0 if they are not supported. */
static int tensor_values(const asp_tensors *about, char *tensor, tensor_entries *A)
{
    tensor_dense values;
    if (!tensor_look(about, tensor, 1, &values) || !tensor_has_no_gaps(&values) || values.sizes[0] != A->nnz ||
        (values.dtype != about->float32 && values.dtype != about->float64))
        return 0;
    A->values = values.data;
    A->dtype = values.dtype;
    return 1;
}

/* Read a CSR or CSC tensor; `members` points to its at::Tensors. */
static int tensor_compressed(const asp_tensors *about, char *members, int64_t n_major, tensor_entries *A)
{
    tensor_dense starts, indices;
    if (!tensor_look(about, members, 1, &starts) || !tensor_look(about, members + sizeof(void *), 1, &indices) ||
        !tensor_has_no_gaps(&starts) || !tensor_has_no_gaps(&indices) || starts.dtype != indices.dtype ||
        (indices.dtype != about->int32 && indices.dtype != about->int64) || starts.sizes[0] != n_major + 1)
        return 0;
    A->starts = starts.data;
    for (int at = 0; at < 2; ++at) memcpy(&A->impls[at], members + at * sizeof(void *), sizeof(char *));
    A->indices = indices.data;
    A->index_dtype = indices.dtype;
    A->nnz = indices.sizes[0];
    return tensor_values(about, members + 2 * sizeof(void *), A);
}

/* Read a COO tensor. */
static int tensor_coordinates(const asp_tensors *about, char *members, tensor_entries *A)
{
    tensor_dense indices;
    if (!tensor_look(about, members, 2, &indices) || indices.n_dims != 2 || indices.sizes[0] != 2 ||
        indices.dtype != about->int64)
        return 0;
    A->starts = NULL;
    A->indices = indices.data;
    A->pair_step = indices.strides[0];
    A->index_step = indices.strides[1];
    A->nnz = indices.sizes[1];
    return tensor_values(about, members + sizeof(void *), A);
}

/* Read a sparse matrix of any supported layout. */
static int tensor_matrix(const asp_tensors *about, char *tensor, tensor_entries *A)
{
    int32_t layout;
    int64_t n_dims, *sizes;
    if (!tensor || about->get_layout(tensor, &layout) || about->get_dim(tensor, &n_dims) || n_dims != 2 ||
        about->get_sizes(tensor, &sizes))
        return 0;
    char *members = *(char **)tensor;
    A->impl = members;
    A->n = sizes[0];
    A->k = sizes[1];
    A->by_columns = layout == about->csc;
    if (layout == about->csr || layout == about->csc)
        return tensor_compressed(about, members + about->compressed_at, A->by_columns ? A->k : A->n, A);
    return layout == about->coo && tensor_coordinates(about, members + about->coordinates_at, A);
}

/* Add the products of a COO matrix; return 0 from the caller at an index outside the matrix. */
#define TENSOR_SCATTER(T)                                                                    \
    for (int64_t p = 0; p < A->nnz; ++p) {                                                   \
        const int64_t i = indices[p * A->index_step], k = indices[p * A->index_step + A->pair_step]; \
        if (i < 0 || i >= A->n || k < 0 || k >= A->k) return 0;                              \
        const T value = ((const T *)A->values)[p], *from = (const T *)B + k * ldb;           \
        for (int64_t j = 0; j < m; ++j) ((T *)C)[i * m + j] += value * from[j];              \
    }

#include "tensor_sound.h"

/* Compute C = A B with rows of B ldb apart and C without gaps; return 0 at an index outside the matrix. */
static int tensor_product(const asp_tensors *about, const tensor_entries *A, const char *B, int64_t ldb, int64_t m, char *C,
                          int64_t how)
{
    const int is_double = A->dtype == about->float64;
    if (A->starts)
        return !asp_csr_mm_at(A->by_columns, is_double, A->index_dtype == about->int64, A->by_columns ? A->k : A->n,
                              A->by_columns ? A->n : A->k, (uintptr_t)A->starts, (uintptr_t)A->indices,
                              (uintptr_t)A->values, (uintptr_t)B, ldb, (uintptr_t)C, m, (int)(how % 1024),
                              (int)(how / 1024));
    const int64_t *indices = (const int64_t *)A->indices;
    memset(C, 0, (size_t)(A->n * m) * (is_double ? sizeof(double) : sizeof(float)));
    if (is_double) {
        TENSOR_SCATTER(double)
    } else {
        TENSOR_SCATTER(float)
    }
    return 1;
}

/* Compute the strides of base, broadcast to an n x m result of n_dims dimensions; return 0 if it does not fit. */
static int tensor_broadcast(const tensor_dense *base, int64_t n_dims, int64_t n, int64_t m, int64_t steps[2])
{
    const int64_t shape[2] = {n, m}, first = n_dims - base->n_dims;
    if (first < 0) return 0;
    steps[0] = steps[1] = 0;
    for (int64_t at = 0; at < base->n_dims; ++at) {
        if (base->sizes[at] == shape[first + at])
            steps[first + at] = base->strides[at];
        else if (base->sizes[at] != 1)
            return 0;
    }
    return 1;
}

/* Copy an n x m matrix between arbitrary strides. */
static void tensor_move(char *to, int64_t row_step, int64_t column_step, const char *from, int64_t from_row,
                        int64_t from_column, int64_t n, int64_t m, size_t width)
{
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j)
            memcpy(to + (size_t)(i * row_step + j * column_step) * width,
                   from + (size_t)(i * from_row + j * from_column) * width, width);
}

/* A product after its arguments are understood. */
typedef struct tensor_task {
    tensor_entries A;
    tensor_dense B, base, out;
    int64_t m, steps[2];
    int has_base, has_out, is_small;
    int64_t how; /* threads + 1024 * flags */
    void *known; /* `watched` of a structure that belongs to the executor, borrowed */
    double alpha, beta;
} tensor_task;

/* Convert a Python float or int; return 0 for other objects. */
static int tensor_number(PyObject *object, double *number)
{
    if (!PyFloat_Check(object) && !PyLong_Check(object)) return 0;
    *number = PyFloat_AsDouble(object);
    if (*number == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return 1;
}

/* Read all arguments; return 0 unless they fit each other and are supported. */
static int tensor_understand(const asp_tensors *about, PyObject *const *args, tensor_task *task)
{
    const tensor_entries *A = &task->A;
    const tensor_dense *B = &task->B;
    if (!tensor_matrix(about, tensor_of(about, args[0]), &task->A) ||
        !tensor_look(about, tensor_of(about, args[1]), 2, &task->B) || B->n_dims != about->n_dims || B->dtype != A->dtype ||
        B->sizes[0] != A->k)
        return 0;
    const int64_t m = task->m = B->sizes[1];
    if (A->n < 1 || A->k < 1 || m < 1) return 0;
    task->is_small = A->nnz < about->most && m < about->most && A->n < about->most && A->nnz * m < about->most &&
                   A->n * m < about->most;
    if (!task->is_small && !(A->starts && (m == 1 ? B->strides[0] > 0 : B->strides[1] == 1 && B->strides[0] >= m))) return 0;
    task->has_base = args[2] != Py_None;
    task->has_out = args[5] != Py_None;
    if (!tensor_number(args[3], &task->beta) || !tensor_number(args[4], &task->alpha)) return 0;
    if (task->has_base &&
        (!tensor_look(about, tensor_of(about, args[2]), 2, &task->base) || task->base.dtype != A->dtype ||
         !tensor_broadcast(&task->base, B->n_dims, A->n, m, task->steps)))
        return 0;
    const tensor_dense *out = &task->out;
    return !task->has_out ||
           (tensor_look(about, tensor_of(about, args[5]), 2, &task->out) && out->dtype == A->dtype &&
            out->n_dims == B->n_dims && out->sizes[0] == A->n && out->sizes[1] == m &&
            (out->n_dims == 1 ? out->strides[0] > 0 : out->strides[1] == 1 && out->strides[0] >= m));
}

/* Return whether A's indices are valid and the product is small or has nothing prepared for it. */
static int tensor_is_for_here(asp_tensors *about, PyObject *object, tensor_task *task)
{
    const tensor_entries *A = &task->A;
    const int64_t m = task->m, most = INT64_MAX >> 8;
    const int is_plain = !task->has_base && task->alpha == 1;
    asp_sound *known;
    task->how = 1;
    task->known = NULL;
    if (!task->is_small && (A->nnz > most / m || A->n > most / m)) return 0;
    /* This product is worth several threads. */
    if (!task->is_small && !is_plain && A->n * m >= about->direct / 4) return 0;
    if (!tensor_is_sound(about, object, A, &known)) return 0;
    if (task->is_small) return 1;
    task->how = tensor_how(about);
    if (task->how < 1024 && A->nnz * m >= about->direct && known && known->n_products > about->n_direct) {
        if (is_plain && !task->has_out) task->known = known->watched;
        return 0;
    }
    return task->how > 0;
}

/* Compute the result in C, n x m without gaps; return 0 if that is impossible here. */
static int tensor_compute(const asp_tensors *about, const tensor_task *task, char *C)
{
    const tensor_dense *B = &task->B;
    const int is_double = B->dtype == about->float64;
    const size_t width = is_double ? sizeof(double) : sizeof(float);
    const int64_t k = B->sizes[0], m = task->m;
    const char *rows = B->data;
    int64_t ldb = B->strides[0];
    char *copy = NULL;
    if (m == 1 ? ldb < 1 : B->strides[1] != 1 || ldb < m) {
        if (k >= about->most || k * m >= about->most || !(copy = malloc((size_t)(k * m) * width))) return 0;
        tensor_move(copy, m, 1, B->data, B->strides[0], B->strides[1], k, m, width);
        rows = copy;
        ldb = m;
    }
    PyThreadState *released = task->is_small ? NULL : PyEval_SaveThread();
    int done = tensor_product(about, &task->A, rows, ldb, m, C, task->how);
    if (released) PyEval_RestoreThread(released);
    free(copy);
    const int adds = task->has_base && task->beta != 0;
    if (done && (adds || task->alpha != 1))
        done = !asp_scaled_sum_at(is_double, task->A.n, m, (uintptr_t)C, task->alpha,
                                  adds ? (uintptr_t)task->base.data : 0, task->steps[0], task->steps[1], task->beta);
    return done;
}

/* Return whether two memory ranges overlap. */
static int tensor_overlap(const char *one, size_t one_bytes, const char *other, size_t other_bytes)
{
    return (uintptr_t)one < (uintptr_t)other + other_bytes && (uintptr_t)other < (uintptr_t)one + one_bytes;
}

/* Return the bytes from the first to the last element of a tensor. */
static size_t tensor_bytes(const tensor_dense *seen, size_t width)
{
    int64_t last = 0;
    for (int64_t at = 0; at < seen->n_dims; ++at) last += seen->strides[at] * (seen->sizes[at] - 1);
    return (size_t)(last + 1) * width;
}

/* Return whether `out` has no gaps and shares no memory with the operands, for a product that cannot fail halfway. */
static int tensor_is_apart(const tensor_task *task, size_t width)
{
    const tensor_dense *out = &task->out;
    const int64_t n = task->A.n, m = task->m;
    if (!task->A.starts || (out->n_dims == 1 ? out->strides[0] != 1 : out->strides[0] != m)) return 0;
    const size_t bytes = (size_t)(n * m) * width;
    return !tensor_overlap(out->data, bytes, task->B.data, tensor_bytes(&task->B, width)) &&
           !tensor_overlap(out->data, bytes, task->A.values, (size_t)task->A.nnz * width) &&
           !(task->has_base && tensor_overlap(out->data, bytes, task->base.data, tensor_bytes(&task->base, width)));
}

/* Compute the result in `out`; return it, or None. */
static PyObject *tensor_into(const asp_tensors *about, const tensor_task *task, PyObject *out)
{
    const size_t width = task->out.dtype == about->float64 ? sizeof(double) : sizeof(float);
    if (tensor_is_apart(task, width)) {
        PyObject *written = tensor_compute(about, task, task->out.data) ? out : Py_None;
        Py_INCREF(written);
        return written;
    }
    if (!task->is_small) Py_RETURN_NONE;
    char *result = malloc((size_t)(task->A.n * task->m) * width);
    const int done = result && tensor_compute(about, task, result); /* out may overlap an operand */
    if (done) tensor_move(task->out.data, task->out.strides[0], 1, result, task->m, 1, task->A.n, task->m, width);
    free(result);
    PyObject *answer = done ? out : Py_None;
    Py_INCREF(answer);
    return answer;
}

/* Return a new tensor, described by `made`, or None. Passing a dtype costs half a microsecond. */
static PyObject *tensor_empty(asp_tensors *about, const tensor_task *task, tensor_dense *made)
{
    PyObject *answer = NULL, *empty = (PyObject *)(uintptr_t)about->empty;
    PyObject *n = PyLong_FromLongLong(task->A.n), *m = PyLong_FromLongLong(task->m);
    const int is_double = task->B.dtype == about->float64;
    const int is_roomy = task->A.n * task->m * (is_double ? 8 : 4) >= about->roomy;
    for (int names = is_roomy ? 2 : task->B.dtype != about->usual; names < 3 && n && m; ++names) {
        PyObject *shape = task->B.n_dims == 2 ? PyTuple_Pack(2, n, m) : PyTuple_Pack(1, n);
        if (!shape) break;
        if (names < 2)
            answer = PyObject_Call(empty, shape, names ? (PyObject *)(uintptr_t)about->named[is_double] : NULL);
        else
            answer = PyObject_CallFunctionObjArgs((PyObject *)(uintptr_t)about->room, shape,
                                                  (PyObject *)(uintptr_t)about->dtypes[is_double], NULL);
        Py_DECREF(shape);
        if (!answer) break;
        const int is_seen = tensor_look(about, tensor_of(about, answer), 2, made);
        if (!names && is_seen) about->usual = made->dtype;
        if (is_seen && made->dtype == task->B.dtype) break;
        Py_CLEAR(answer);
        if (names) break;
    }
    Py_XDECREF(n);
    Py_XDECREF(m);
    if (!answer && !PyErr_Occurred()) Py_RETURN_NONE; /* another default device is set */
    return answer;
}

/* Compute the result in a new tensor. */
static PyObject *tensor_new(asp_tensors *about, const tensor_task *task)
{
    tensor_dense made;
    PyObject *answer = tensor_empty(about, task, &made);
    if (!answer || answer == Py_None || tensor_compute(about, task, made.data)) return answer;
    Py_DECREF(answer);
    Py_RETURN_NONE;
}

/* The builtin `few`. */
static PyObject *tensor_small_product(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    asp_tensors *about = PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
    tensor_task task;
    task.known = NULL;
    if (!about || n_args != 6 || !tensor_understand(about, args, &task) || !tensor_is_for_here(about, args[0], &task)) {
        PyObject *answer = task.known ? task.known : Py_None;
        Py_INCREF(answer);
        return answer;
    }
    return task.has_out ? tensor_into(about, &task, args[5]) : tensor_new(about, &task);
}

static PyMethodDef tensor_method = {"small_product", (PyCFunction)(void (*)(void))tensor_small_product, 0x0080 /* METH_FASTCALL */, NULL};

static PyObject *tensor_make(PyObject *state, PyObject *kept)
{
    PyObject *self = PyTuple_Pack(2, state, kept);
    PyObject *made = self ? PyCFunction_NewEx(&tensor_method, self, NULL) : NULL;
    Py_XDECREF(self);
    return made;
}

uintptr_t asp_tensor_maker(void)
{
    return (uintptr_t)tensor_make;
}
