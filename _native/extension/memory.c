/* Arrays in memory of the runtime's allocator (dense/output.c), by NumPy's interface to allocators (NEP 49). */
#include "extension.h"

#include <string.h>

static PyDataMem_Handler handlers[2] = {{.name = "autosparse_output", .version = 1},
                                        {.name = "autosparse_scratch", .version = 1}};
static PyObject *capsules[2]; /* live as long as the process, because arrays refer to the handlers */

int asp_make_handlers(void)
{
    for (int is_scratch = 0; is_scratch < 2; is_scratch++) {
        const asp_allocator *from = runtime.asp_output_allocator(is_scratch);
        handlers[is_scratch].allocator =
            (PyDataMemAllocator){from->context, from->malloc, from->calloc, from->realloc, from->free};
        if (!capsules[is_scratch]) capsules[is_scratch] = PyCapsule_New(handlers + is_scratch, "mem_handler", NULL);
        if (!capsules[is_scratch]) return -1;
    }
    return 0;
}

PyObject *asp_empty(PyObject *module, PyObject *args)
{
    (void)module;
    PyArray_Dims shape = {NULL, 0};
    PyArray_Descr *dtype = NULL;
    int is_scratch;
    if (!PyArg_ParseTuple(args, "O&O&p:empty", PyArray_IntpConverter, &shape, PyArray_DescrConverter, &dtype, &is_scratch)) {
        PyDimMem_FREE(shape.ptr);
        Py_XDECREF(dtype);
        return NULL;
    }
    PyObject *made = NULL, *before = capsules[0] ? PyDataMem_SetHandler(capsules[is_scratch]) : NULL;
    if (before) {
        made = PyArray_Empty(shape.len, shape.ptr, dtype, 0); /* takes the reference to dtype */
        PyObject *ours = PyDataMem_SetHandler(before);
        if (!ours) Py_CLEAR(made);
        Py_XDECREF(ours);
        Py_DECREF(before);
    } else {
        Py_DECREF(dtype);
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the runtime is not connected");
    }
    PyDimMem_FREE(shape.ptr);
    return made;
}
