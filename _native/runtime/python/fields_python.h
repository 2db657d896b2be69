/* Implementation of fields_api.h, compiled with the extension's own module like entry_python.h. */
#include <stdlib.h>

/* A descriptor's state; never freed. */
typedef struct field_kept {
    const asp_field *about;
    PyObject *spec, *fetch, *put;
    PyGetSetDef definition;
} field_kept;

/* Return the object in the slot `at` bytes into `object`, borrowed. */
static PyObject *field_slot(PyObject *object, int64_t at)
{
    return *(PyObject **)((char *)object + at);
}

/* Return the operand of a sparse array, or NULL before it has one. */
static PyObject *field_cell(const asp_field *about, PyObject *object)
{
    PyObject *cell = field_slot(object, about->cell_at);
    return cell && (const void *)Py_TYPE(cell) == about->cell_type ? cell : NULL;
}

static PyObject *field_get(PyObject *object, void *closure)
{
    const field_kept *kept = closure;
    const asp_field *about = kept->about;
    PyObject *cell = field_cell(about, object);
    /* An access is recorded already, and no check has happened since: recording another one changes nothing. */
    if (cell && field_slot(cell, about->rows_at) == Py_None && field_slot(cell, about->invalidated_at) == Py_None &&
        (!about->exported_at || field_slot(cell, about->exported_at) == Py_True)) {
        PyObject *arrays = field_slot(cell, about->arrays_at);
        PyObject *array = arrays ? PyList_GetItem(arrays, about->position) : NULL;
        if (array) {
            Py_INCREF(array);
            return array;
        }
        PyErr_Clear();
    }
    return PyObject_CallFunctionObjArgs(kept->fetch, object, NULL);
}

static int field_set(PyObject *object, PyObject *value, void *closure)
{
    const field_kept *kept = closure;
    const asp_field *about = kept->about;
    if (!value) {
        PyErr_Format(PyExc_AttributeError, "property '%s' has no deleter", kept->definition.name);
        return -1;
    }
    PyObject *cell = field_cell(about, object);
    /* The arrays were never exported, so nothing depends on them. */
    if (cell && field_slot(cell, about->unvalidated_at) == Py_True) {
        PyObject *arrays = field_slot(cell, about->arrays_at);
        Py_INCREF(value);
        return arrays ? PyList_SetItem(arrays, about->position, value) : -1;
    }
    PyObject *answer = PyObject_CallFunctionObjArgs(kept->put, object, value, NULL);
    Py_XDECREF(answer);
    return answer ? 0 : -1;
}

/* Return a copy of the text that is never freed; NULL without memory, or if the object is no str. */
static const char *field_text(PyObject *text)
{
    PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
    return bytes ? PyBytes_AsString(bytes) : NULL;
}

static PyObject *field_make(PyObject *type, PyObject *spec)
{
    PyObject *address = PyTuple_GetItem(spec, 0);
    const char *name = field_text(PyTuple_GetItem(spec, 1)), *doc = field_text(PyTuple_GetItem(spec, 2));
    field_kept *kept = calloc(1, sizeof *kept);
    if (!kept || !address || !name || !doc) {
        free(kept);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    Py_INCREF(spec);
    kept->spec = spec;
    kept->about = PyLong_AsVoidPtr(address);
    kept->fetch = PyTuple_GetItem(spec, 3);
    kept->put = PyTuple_GetItem(spec, 4);
    kept->definition = (PyGetSetDef){.name = name, .get = field_get, .set = field_set, .doc = doc, .closure = kept};
    return PyDescr_NewGetSet((PyTypeObject *)type, &kept->definition);
}

uintptr_t asp_field_maker(void)
{
    return (uintptr_t)field_make;
}
