/* The type OperandFields, whose attributes C reads without a call, and descriptors for the arrays of sparse matrices. */
#include "extension.h"

PyTypeObject *fields_type;

#define OBJECT(name, member) {name, T_OBJECT_EX, offsetof(asp_fields, member), 0, NULL}
static PyMemberDef fields_members[] = {
    OBJECT("_arrays", arrays),
    OBJECT("_checked", checked),
    OBJECT("_exported", exported),
    OBJECT("_aliases_before", aliases_before),
    OBJECT("unvalidated", unvalidated),
    OBJECT("structure_version", structure_version),
    OBJECT("values_version", values_version),
    OBJECT("_invalidated_indptr", invalidated[0]),
    OBJECT("_invalidated_indices", invalidated[1]),
    OBJECT("_invalidated_data", invalidated[2]),
    OBJECT("_clean_indptr", clean[0]),
    OBJECT("_clean_indices", clean[1]),
    OBJECT("_clean_data", clean[2]),
    OBJECT("_native_watch", watch),
    {NULL, 0, 0, 0, NULL},
};

static int fields_traverse(PyObject *self, visitproc visit, void *arg)
{
    PyObject **members = &((asp_fields *)self)->arrays;
    for (int at = 0; at < ASP_FIELDS; at++) Py_VISIT(members[at]);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int fields_clear(PyObject *self)
{
    PyObject **members = &((asp_fields *)self)->arrays;
    for (int at = 0; at < ASP_FIELDS; at++) Py_CLEAR(members[at]);
    return 0;
}

/* Free the arrays in the order in which SciPy's objects free theirs: the values last, where most heaps can shrink once.
   A list frees its last item first, after which glibc returns and requests some pages again for each result. */
static void free_arrays(PyObject *arrays)
{
    static const Py_ssize_t order[] = {1, 0, 2};
    if (!arrays || Py_REFCNT(arrays) != 1 || !PyList_CheckExact(arrays) || PyList_GET_SIZE(arrays) != 3) return;
    for (int at = 0; at < 3; at++) {
        Py_INCREF(Py_None);
        PyList_SetItem(arrays, order[at], Py_None);
    }
}

static void fields_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    free_arrays(((asp_fields *)self)->arrays);
    fields_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *fields_retain(PyObject *self, PyObject *array)
{
    asp_fields *operand = (asp_fields *)self;
    if (operand->n_running > 0) {
        if (!operand->retained && !(operand->retained = PyList_New(0))) return NULL;
        if (PyList_Append(operand->retained, array)) return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *fields_begin_reading(PyObject *self, PyObject *none)
{
    (void)none;
    ((asp_fields *)self)->n_running += 1;
    Py_RETURN_NONE;
}

static PyObject *fields_end_reading(PyObject *self, PyObject *none)
{
    asp_fields *operand = (asp_fields *)self;
    (void)none;
    operand->n_running -= 1;
    if (operand->retained && !operand->n_running) Py_CLEAR(operand->retained);
    Py_RETURN_NONE;
}

static PyMethodDef fields_methods[] = {
    {"retain", fields_retain, METH_O, "Keep an array until no product computes that may read it."},
    {"begin_reading", fields_begin_reading, METH_NOARGS, "Keep arrays that are replaced until `end_reading`."},
    {"end_reading", fields_end_reading, METH_NOARGS, "Undo one `begin_reading`."},
    {NULL, NULL, 0, NULL},
};

/* Return the values of an operand if kernels can read them in place, else NULL. */
static PyArrayObject *fields_values(const asp_fields *operand)
{
    PyObject *arrays = operand->arrays, *values = NULL;
    if (arrays && PyList_Check(arrays) && PyList_GET_SIZE(arrays) == 3) values = PyList_GET_ITEM(arrays, 2);
    if (!values || !PyArray_Check(values)) return NULL;
    PyArrayObject *array = (PyArrayObject *)values;
    return PyArray_NDIM(array) == 1 && (PyArray_FLAGS(array) & ASP_READ) == ASP_READ ? array : NULL;
}

/* Return NumPy's number of the dtype of values, with another sign for the other byte order. */
static int fields_type_of(PyArrayObject *values)
{
    return PyArray_ISBYTESWAPPED(values) ? -1 - PyArray_TYPE(values) : PyArray_TYPE(values);
}

int asp_values_fit(const asp_fields *operand)
{
    PyObject *arrays = operand->arrays;
    if (arrays && PyList_Check(arrays) && PyList_GET_SIZE(arrays) == 3 && PyList_GET_ITEM(arrays, 2) == Py_None)
        return 1; /* rows over tensors, not over arrays */
    PyArrayObject *values = fields_values(operand);
    return values && PyArray_DIM(values, 0) >= operand->n_values && fields_type_of(values) == operand->values_type;
}

void asp_set_rows(asp_fields *operand, PyObject *rows)
{
    PyArrayObject *values = rows == Py_None ? NULL : fields_values(operand);
    operand->n_values = values ? PyArray_DIM(values, 0) : 0;
    operand->values_type = values ? fields_type_of(values) : 0;
    asp_set(&operand->rows, rows);
}

static PyObject *fields_get_rows(PyObject *self, void *closure)
{
    asp_fields *operand = (asp_fields *)self;
    (void)closure;
    if (!operand->rows) return PyErr_Format(PyExc_AttributeError, "rows");
    if (operand->rows != Py_None && !asp_values_fit(operand)) asp_set(&operand->rows, Py_None);
    Py_INCREF(operand->rows);
    return operand->rows;
}

static int fields_set_rows(PyObject *self, PyObject *rows, void *closure)
{
    (void)closure;
    if (rows) asp_set_rows((asp_fields *)self, rows);
    else Py_CLEAR(((asp_fields *)self)->rows);
    return 0;
}

static PyGetSetDef fields_computed[] = {
    {"rows", fields_get_rows, fields_set_rows, "NativeRows, or None where `validate` must look again.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot fields_slots[] = {
    {Py_tp_doc, "Attributes of an operand that C reads."},
    {Py_tp_methods, fields_methods},
    {Py_tp_members, fields_members},
    {Py_tp_getset, fields_computed},
    {Py_tp_traverse, fields_traverse},
    {Py_tp_clear, fields_clear},
    {Py_tp_dealloc, fields_dealloc},
    {0, NULL},
};

static PyType_Spec fields_spec = {
    .name = "autosparse._native._extension.OperandFields",
    .basicsize = sizeof(asp_fields),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = fields_slots,
};

int asp_add_fields(PyObject *module)
{
    fields_type = (PyTypeObject *)PyType_FromSpec(&fields_spec);
    return fields_type ? PyModule_AddObjectRef(module, "OperandFields", (PyObject *)fields_type) : -1;
}

/* State of a descriptor, which lives as long as the process. */
typedef struct field_kept {
    PyObject *fetch, *put;
    PyObject *slot;     /* descriptor of the attribute that holds the operand */
    descrgetfunc read;  /* its __get__ */
    PyTypeObject *type; /* class of the operand, derived from OperandFields */
    int position;       /* index of the array in the operand's list */
    PyGetSetDef definition;
} field_kept;

/* Return the operand of a sparse matrix as a new reference, or NULL if it has none or one of another class. */
static asp_fields *field_operand(const field_kept *kept, PyObject *object)
{
    PyObject *found = kept->read(kept->slot, object, (PyObject *)Py_TYPE(object));
    if (!found) PyErr_Clear();
    if (found && Py_TYPE(found) == kept->type) return (asp_fields *)found;
    Py_XDECREF(found);
    return NULL;
}

/* Return the list of arrays of an operand, or NULL if it is not complete. */
static PyObject *field_arrays(const asp_fields *operand)
{
    PyObject *arrays = operand->arrays;
    return arrays && PyList_Check(arrays) && PyList_GET_SIZE(arrays) == 3 ? arrays : NULL;
}

/* Return whether an access to array number `position` would be recorded as one that has been recorded already. */
static int is_recorded(const asp_fields *operand, int position)
{
    return operand->rows == Py_None && operand->invalidated[position] == Py_None &&
           (position == 2 || operand->exported == Py_True);
}

static PyObject *field_get(PyObject *object, void *closure)
{
    const field_kept *kept = closure;
    asp_fields *operand = field_operand(kept, object);
    PyObject *array = NULL;
    /* An access is recorded already, and no check has happened since: recording another one changes nothing. */
    if (operand && is_recorded(operand, kept->position)) {
        PyObject *arrays = field_arrays(operand);
        array = arrays ? PyList_GET_ITEM(arrays, kept->position) : NULL;
        Py_XINCREF(array);
    }
    Py_XDECREF(operand);
    return array ? array : PyObject_CallFunctionObjArgs(kept->fetch, object, NULL);
}

static int field_set(PyObject *object, PyObject *value, void *closure)
{
    const field_kept *kept = closure;
    if (!value) {
        PyErr_Format(PyExc_AttributeError, "property '%s' has no deleter", kept->definition.name);
        return -1;
    }
    asp_fields *operand = field_operand(kept, object);
    PyObject *arrays = operand ? field_arrays(operand) : NULL;
    /* `A.data *= 2` assigns the array that was read. */
    const int is_same = arrays && PyList_GET_ITEM(arrays, kept->position) == value && is_recorded(operand, kept->position);
    int status = is_same ? 0 : -1;
    if (is_same) {
        /* nothing changes */
    } else if (arrays && operand->unvalidated == Py_True) { /* never exported, so nothing depends on the arrays */
        Py_INCREF(value);
        if (kept->position < 2) asp_set(&operand->checked, Py_False);
        status = PyList_SetItem(arrays, kept->position, value);
    } else {
        Py_CLEAR(operand); /* `put` counts the references to the operand */
        PyObject *answer = PyObject_CallFunctionObjArgs(kept->put, object, value, NULL);
        status = answer ? 0 : -1;
        Py_XDECREF(answer);
    }
    Py_XDECREF(operand);
    return status;
}

/* Return a copy of a str that is never freed, or NULL with an exception. */
static const char *field_text(PyObject *text)
{
    Py_ssize_t n_bytes = 0;
    const char *read = PyUnicode_AsUTF8AndSize(text, &n_bytes);
    char *copy = read ? PyMem_Malloc((size_t)n_bytes + 1) : NULL;
    if (copy)
        memcpy(copy, read, (size_t)n_bytes + 1);
    else if (read)
        PyErr_NoMemory();
    return copy;
}

PyObject *asp_make_field(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *name, *doc, *fetch, *put, *slot;
    PyTypeObject *owner, *type;
    int position;
    if (!PyArg_ParseTuple(args, "O!O!OiUUOO:make_field", &PyType_Type, &owner, &PyType_Type, &type, &slot, &position,
                          &name, &doc, &fetch, &put))
        return NULL;
    descrgetfunc read = (descrgetfunc)PyType_GetSlot(Py_TYPE(slot), Py_tp_descr_get);
    if (!PyType_IsSubtype(type, fields_type) || position < 0 || position > 2 || !read)
        return PyErr_Format(PyExc_TypeError, "a class of operands, a descriptor, and a position from 0 to 2 are needed");
    field_kept *kept = PyMem_Calloc(1, sizeof *kept);
    if (!kept) return PyErr_NoMemory();
    *kept = (field_kept){fetch, put, slot, read, type, position, {NULL, field_get, field_set, NULL, kept}};
    kept->definition.name = field_text(name);
    kept->definition.doc = kept->definition.name ? field_text(doc) : NULL;
    PyObject *made = kept->definition.doc ? PyDescr_NewGetSet(owner, &kept->definition) : NULL;
    if (!made) {
        PyMem_Free((void *)kept->definition.name);
        PyMem_Free((void *)kept->definition.doc);
        PyMem_Free(kept);
        return NULL;
    }
    PyObject *const lasting[] = {fetch, put, slot, (PyObject *)type};
    for (size_t at = 0; at < sizeof lasting / sizeof *lasting; at++) Py_INCREF(lasting[at]);
    return made;
}
