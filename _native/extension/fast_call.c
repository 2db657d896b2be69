/* The type FastCall: a product whose operands were validated before, called from Python without interpretation of its
 * arguments. */
#include "extension.h"

typedef struct fast_call {
    PyObject_HEAD
    PyTypeObject *operand_type;
    PyObject *rows, *options, *transposed, *descr; /* objects that must be identical */
    PyObject *kept;                                /* object that keeps alive what the kernel reads */
    /* A kernel that reads a packed copy: NULL, or the operand's watch, the copy, and the structure's version. */
    asp_watch *watch;
    PyObject *packed_copy, *structure_version;
    int n_dims, dtype, itype, flags, n_threads; /* n_threads 0: asp_max_threads() */
    int is_turned; /* the arrays, and n_major and n_minor, are those of rows of the transposed matrix (`dispatch.turned`) */
    long long n_major, n_minor, n_vecs;
    unsigned long long indptr, indices, data;   /* addresses of the addresses of the arrays' elements */
    long long n_calls, product_ns;              /* counters since `take` */
    long long limit_ns;                         /* value of product_ns from which the fast call is refused */
    long long n_running;                        /* products running now */
    long long looks_left;                       /* checks after which Python computes one product and accounts for them */
    unsigned long long kernel, kernel_operand;  /* a generated kernel and its asp_operand; 0: the default kernel */
    long long chunk, most_threads, value_bytes, n_reads; /* as in asp_run_kernel */
    /* Required addresses of the elements, for a kernel that reads the user's arrays; 0: it reads a packed copy. */
    unsigned long long fixed_indptr, fixed_indices, fixed_data;
} fast_call;

static PyTypeObject *fast_call_type;
static PyObject *values_version; /* the interned name of an attribute of packed copies */

static const char *elements(unsigned long long slot) { return *(const char *const *)(uintptr_t)slot; }

/* Return whether two memory ranges are disjoint. */
static int are_apart(const char *one, int64_t one_bytes, const char *other, int64_t other_bytes)
{
    return one + one_bytes <= other || other + other_bytes <= one;
}

/* Return the array behind an object, or NULL unless it is an ndarray of the expected dtype, flags and shape. */
static PyArrayObject *dense(const fast_call *call, PyObject *object, int flags)
{
    if (!PyArray_CheckExact(object)) return NULL;
    PyArrayObject *array = (PyArrayObject *)object;
    /* arrays that were unpickled have a dtype object of their own */
    const int is_typed = (PyObject *)PyArray_DESCR(array) == call->descr ||
                         (call->dtype >= 0 && asp_value_code(array) == call->dtype);
    const int is_it = PyArray_NDIM(array) == call->n_dims && is_typed &&
                      (PyArray_FLAGS(array) & flags) == flags &&
                      (call->n_dims == 1 || PyArray_DIM(array, 1) == call->n_vecs);
    return is_it ? array : NULL;
}

static int64_t threads(const fast_call *call) { return call->n_threads ? call->n_threads : runtime.asp_max_threads(); }

/* Return whether the packed copy holds the values of the operand's last check. */
static int has_values(const fast_call *call, const asp_fields *operand)
{
    PyObject *version = PyObject_GetAttr(call->packed_copy, values_version);
    if (!version) PyErr_Clear();
    const int is_same = version && version == operand->values_version;
    Py_XDECREF(version);
    return is_same;
}

/* Return whether the call reads arrays other than those that `has_rows` has checked. */
static int is_guarded(const fast_call *call) { return call->kernel || call->is_turned; }

/* Return whether a guarded call may compute: either it reads the user's arrays, which have not moved, or its copy holds
 * their current content. */
static int is_current(fast_call *call, asp_fields *operand)
{
    if (call->fixed_indptr)
        return (uintptr_t)elements(call->indptr) == call->fixed_indptr &&
               (uintptr_t)elements(call->indices) == call->fixed_indices &&
               (uintptr_t)elements(call->data) == call->fixed_data;
    asp_watch *watch = call->watch;
    if (!watch || watch->rows != call->rows || call->looks_left <= 0) return 0;
    const int64_t n_looks = watch->n_looks;
    Py_INCREF(watch); /* another thread may release this call while bytes are hashed */
    const int is_good = asp_watch_refreshes(watch, operand, (int)threads(call));
    call->looks_left -= watch->n_looks - n_looks;
    Py_DECREF(watch);
    return is_good && call->packed_copy && operand->structure_version == call->structure_version &&
           has_values(call, operand);
}

/* Return whether the operand's rows are those this fast call was made for: they are set, or they were validated for
 * this product while exported arrays are still referenced elsewhere. */
static int has_rows(const fast_call *call, const asp_fields *operand)
{
    asp_watch *watch = call->watch;
    if (operand->rows == call->rows) return asp_values_fit(operand);
    if (!watch || watch->rows != call->rows || !watch->just_seen || !asp_watch_is_same(watch, operand)) return 0;
    if (!is_guarded(call) || call->fixed_indptr) watch->just_seen = 0; /* valid for one product */
    return 1;
}

/* Return whether a sweep gives the same result if it is executed again after the product was written to `out` again: no
 * vector other than `out` is read before a step writes it. */
static int is_repeatable(const asp_sweep *sweep, uintptr_t out)
{
    uint32_t is_read = 0, is_written = 0;
    for (const int32_t *code = sweep->codes; *code != ASP_STOP;) {
        if (*code == ASP_DOT) {
            code += 3;
            continue;
        }
        const int is_scale = *code == ASP_SCALE, n = is_scale ? 2 : code[2], to = code[1];
        const int32_t *from = code + (is_scale ? 2 : 3);
        for (int at = 0; at < n; at++) is_read |= (UINT32_C(1) << from[at]) & ~is_written;
        if (sweep->vectors[to] != out) is_written |= UINT32_C(1) << to;
        code = from + n + is_scale;
    }
    return !(is_read & is_written);
}

/* Compute the product with the generated kernel or the default one; return 0 on success. */
static int product(const fast_call *call, int transposed, const char *B, char *out, const char *const *arrays,
                   const asp_sweep *sweep)
{
    const int64_t n_threads = threads(call), n_vecs = call->n_vecs;
    if (sweep && sweep->left && !call->kernel && !transposed)
        return runtime.asp_sweep_run_after(sweep, call->dtype, call->itype, call->n_major, call->n_minor, arrays[0],
                                           arrays[1], arrays[2], B, out, n_vecs, (int)n_threads);
    const int64_t most_threads = n_threads < call->most_threads ? n_threads : call->most_threads;
    const asp_operand *A = (const asp_operand *)(uintptr_t)call->kernel_operand;
    if (sweep && sweep->left && call->kernel && n_vecs == 1 && is_repeatable(sweep, (uintptr_t)out))
        return runtime.asp_sweep_run_after_kernel(sweep, (uintptr_t)call->kernel, A, (uintptr_t)B, (uintptr_t)out,
                                                  most_threads, call->chunk, call->value_bytes, call->n_reads);
    if (sweep) {
        const int status = product(call, transposed, B, out, arrays, NULL);
        return status ? status : runtime.asp_sweep_run(sweep);
    }
    if (call->kernel)
        return runtime.asp_run_kernel((uintptr_t)call->kernel, A, (uintptr_t)B, n_vecs, (uintptr_t)out, n_vecs, n_vecs,
                                      most_threads, call->chunk, call->value_bytes, call->n_reads);
    return (transposed ? runtime.asp_csr_t_mm : runtime.asp_csr_mm)(
        call->dtype, call->itype, call->n_major, call->n_minor, arrays[0], arrays[1], arrays[2], B, n_vecs, out, n_vecs,
        n_vecs, (int)n_threads, call->flags);
}

/* Return whether `out` shares no memory with B and the operand's arrays. */
static int is_apart(const fast_call *call, PyArrayObject *B, PyArrayObject *out, const char *const *arrays)
{
    const int64_t item = asp_item(call->dtype), index = call->itype ? 8 : 4;
    const int64_t nnz = asp_index(arrays[0], call->itype, call->n_major);
    const int64_t n_bytes = PyArray_DIM(out, 0) * call->n_vecs * item;
    const char *to = PyArray_BYTES(out);
    return are_apart(to, n_bytes, PyArray_BYTES(B), PyArray_DIM(B, 0) * call->n_vecs * item) &&
           are_apart(to, n_bytes, arrays[0], (call->n_major + 1) * index) &&
           are_apart(to, n_bytes, arrays[1], nnz * index) && are_apart(to, n_bytes, arrays[2], nnz * item);
}

/* Compute the product, and execute the sweep after it unless NULL, if nothing has changed; return whether that was
 * done. The GIL is released meanwhile. */
static int serves(fast_call *call, PyObject *const *args, const asp_sweep *sweep)
{
    if (Py_TYPE(args[0]) != call->operand_type) return 0;
    asp_fields *operand = (asp_fields *)args[0];
    if (!has_rows(call, operand) || args[3] != call->options || args[4] != call->transposed ||
        call->product_ns >= call->limit_ns)
        return 0;
    PyArrayObject *B = dense(call, args[1], ASP_READ), *out = dense(call, args[2], ASP_WRITTEN);
    const int transposed = args[4] == Py_True && !call->is_turned;
    const int64_t n_in = transposed ? call->n_major : call->n_minor, n_out = call->n_major + call->n_minor - n_in;
    if (!B || !out || PyArray_DIM(B, 0) != n_in || PyArray_DIM(out, 0) != n_out) return 0;
    if (sweep && sweep->n != n_out) return 0;
    const char *const arrays[3] = {elements(call->indptr), elements(call->indices), elements(call->data)};
    if (!is_apart(call, B, out, arrays)) return 0;
    const int64_t start_ns = asp_now_ns();
    const char *from = PyArray_BYTES(B);
    char *to = PyArray_BYTES(out);
    int status = -1;
    call->n_running += 1; /* also during the check: what the kernel reads stays */
    operand->n_running += 1;
    if (!is_guarded(call) || is_current(call, operand)) {
        Py_BEGIN_ALLOW_THREADS;
        status = product(call, transposed, from, to, arrays, sweep);
        Py_END_ALLOW_THREADS;
    }
    call->n_running -= 1;
    operand->n_running -= 1;
    if (operand->retained && !operand->n_running) Py_CLEAR(operand->retained);
    if (status) return 0;
    call->n_calls += 1;
    call->product_ns += asp_now_ns() - start_ns;
    return 1;
}

int asp_fast_call_sweeps(PyObject *enter, PyObject *const *args, const asp_sweep *sweep)
{
    PyObject *call = PyCFunction_Check(enter) ? PyCFunction_GetSelf(enter) : NULL;
    return call && Py_IS_TYPE(call, fast_call_type) && serves((fast_call *)call, args, sweep);
}

/* -- methods */

static PyObject *fast_call_run(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    PyObject *answer = n_args == 5 && serves((fast_call *)self, args, NULL) ? Py_True : Py_False;
    Py_INCREF(answer);
    return answer;
}

static PyObject *fast_call_take(PyObject *self, PyObject *unused)
{
    (void)unused;
    fast_call *call = (fast_call *)self;
    PyObject *counted = Py_BuildValue("(LL)", call->n_calls, call->product_ns);
    if (counted) call->n_calls = call->product_ns = 0;
    return counted;
}

/* Read the packed copy of the operand of this watch. */
static PyObject *fast_call_guard(PyObject *self, PyObject *args)
{
    fast_call *call = (fast_call *)self;
    PyObject *watch, *packed_copy, *structure_version;
    if (!PyArg_ParseTuple(args, "O!OO:guard", watch_type, &watch, &packed_copy, &structure_version)) return NULL;
    asp_set((PyObject **)&call->watch, watch);
    asp_set(&call->packed_copy, packed_copy);
    asp_set(&call->structure_version, structure_version);
    Py_RETURN_NONE;
}

static PyObject *fast_call_release(PyObject *self, PyObject *unused)
{
    (void)unused;
    fast_call *call = (fast_call *)self;
    call->limit_ns = 0;
    Py_CLEAR(call->watch);
    Py_CLEAR(call->packed_copy);
    Py_CLEAR(call->structure_version);
    Py_RETURN_NONE;
}

static PyObject *fast_call_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *operand, *rows, *options, *transposed, *descr, *kept;
    if (keywords && PyDict_GET_SIZE(keywords)) return PyErr_Format(PyExc_TypeError, "FastCall takes no keywords");
    if (!PyArg_ParseTuple(args, "O!OOO!O!O:FastCall", fields_type, &operand, &rows, &options, &PyBool_Type, &transposed,
                          &PyArrayDescr_Type, &descr, &kept))
        return NULL;
    fast_call *call = (fast_call *)type->tp_alloc(type, 0);
    if (!call) return NULL;
    PyObject *const held[] = {(PyObject *)Py_TYPE(operand), rows, options, transposed, descr, kept};
    for (size_t at = 0; at < sizeof held / sizeof *held; at++) Py_INCREF(held[at]);
    call->operand_type = Py_TYPE(operand);
    call->rows = rows;
    call->options = options;
    call->transposed = transposed;
    call->descr = descr;
    call->kept = kept;
    return (PyObject *)call;
}

static int fast_call_traverse(PyObject *self, visitproc visit, void *arg)
{
    const fast_call *call = (fast_call *)self;
    PyObject *const members[] = {(PyObject *)call->operand_type, call->rows, call->options, call->transposed,
                                 call->descr, call->kept, (PyObject *)call->watch, call->packed_copy,
                                 call->structure_version, (PyObject *)Py_TYPE(self)};
    for (size_t at = 0; at < sizeof members / sizeof *members; at++) Py_VISIT(members[at]);
    return 0;
}

static int fast_call_clear(PyObject *self)
{
    fast_call *call = (fast_call *)self;
    call->limit_ns = 0;
    Py_CLEAR(call->operand_type);
    Py_CLEAR(call->rows);
    Py_CLEAR(call->options);
    Py_CLEAR(call->transposed);
    Py_CLEAR(call->descr);
    Py_CLEAR(call->kept);
    Py_CLEAR(call->watch);
    Py_CLEAR(call->packed_copy);
    Py_CLEAR(call->structure_version);
    return 0;
}

static void fast_call_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    fast_call_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

#define NUMBER(name, type) {#name, type, offsetof(fast_call, name), 0, NULL}
static PyMemberDef fast_call_members[] = {
    NUMBER(n_dims, T_INT), NUMBER(dtype, T_INT), NUMBER(itype, T_INT), NUMBER(flags, T_INT), NUMBER(n_threads, T_INT),
    NUMBER(is_turned, T_INT),
    NUMBER(n_major, T_LONGLONG), NUMBER(n_minor, T_LONGLONG), NUMBER(n_vecs, T_LONGLONG),
    NUMBER(indptr, T_ULONGLONG), NUMBER(indices, T_ULONGLONG), NUMBER(data, T_ULONGLONG),
    NUMBER(n_calls, T_LONGLONG), NUMBER(product_ns, T_LONGLONG), NUMBER(limit_ns, T_LONGLONG),
    NUMBER(n_running, T_LONGLONG), NUMBER(looks_left, T_LONGLONG),
    NUMBER(kernel, T_ULONGLONG), NUMBER(kernel_operand, T_ULONGLONG), NUMBER(chunk, T_LONGLONG),
    NUMBER(most_threads, T_LONGLONG), NUMBER(value_bytes, T_LONGLONG), NUMBER(n_reads, T_LONGLONG),
    NUMBER(fixed_indptr, T_ULONGLONG), NUMBER(fixed_indices, T_ULONGLONG), NUMBER(fixed_data, T_ULONGLONG),
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef fast_call_methods[] = {
    {"run", (PyCFunction)(void (*)(void))fast_call_run, METH_FASTCALL, "Compute a product unless anything has changed."},
    {"take", fast_call_take, METH_NOARGS, "Return the number of calls and their ns since the last `take`."},
    {"guard", fast_call_guard, METH_VARARGS, "Read a packed copy, after checks of the operand's arrays."},
    {"release", fast_call_release, METH_NOARGS, "Serve nothing any more, and drop the packed copy."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot fast_call_slots[] = {
    {Py_tp_doc, "Product of one operand and one shape that goes from Python directly to a kernel."},
    {Py_tp_new, fast_call_new},
    {Py_tp_members, fast_call_members},
    {Py_tp_methods, fast_call_methods},
    {Py_tp_traverse, fast_call_traverse},
    {Py_tp_clear, fast_call_clear},
    {Py_tp_dealloc, fast_call_dealloc},
    {0, NULL},
};

static PyType_Spec fast_call_spec = {
    .name = "autosparse._native._extension.FastCall",
    .basicsize = sizeof(fast_call),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = fast_call_slots,
};

int asp_add_fast_call(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&fast_call_spec);
    fast_call_type = (PyTypeObject *)type; /* the module keeps it */
    values_version = PyUnicode_InternFromString("values_version");
    const int status = type && values_version ? PyModule_AddObjectRef(module, "FastCall", type) : -1;
    Py_XDECREF(type);
    return status;
}
