/* The module `_extension`: its functions, the connection with the C runtime, and arrays in memory of its allocator. */
#define ASP_IMPORTS_NUMPY
#include "extension.h"

#include <string.h>
#ifndef _WIN32
#include <dlfcn.h>
#endif

asp_functions runtime;

#define ASP_NAME(name) #name,
static const char *const function_names[] = {ASP_FUNCTIONS(ASP_NAME)};
enum { N_FUNCTIONS = sizeof function_names / sizeof *function_names };
_Static_assert(sizeof(asp_functions) == N_FUNCTIONS * sizeof(void (*)(void)), "one address per function");

/* -- arrays in memory of the runtime's allocator (dense/output.c), by NumPy's interface to allocators (NEP 49) */

enum { OUTPUT, SCRATCH, UNCONNECTED, N_HANDLERS }; /* the last: the module's own allocator, until `connect` */
static PyDataMem_Handler handlers[N_HANDLERS] = {{.name = "autosparse_output", .version = 1},
                                                 {.name = "autosparse_scratch", .version = 1},
                                                 {.name = "autosparse_unconnected", .version = 1}};
static PyObject *capsules[N_HANDLERS]; /* live as long as the process, because arrays refer to the handlers */

static int make_handler(int which, const asp_allocator *from)
{
    handlers[which].allocator = (PyDataMemAllocator){from->context, from->malloc, from->calloc, from->realloc, from->free};
    if (!capsules[which]) capsules[which] = PyCapsule_New(handlers + which, "mem_handler", NULL);
    return capsules[which] ? 0 : -1;
}

static PyObject *empty(PyObject *module, PyObject *args)
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
    const int which = !capsules[OUTPUT] ? UNCONNECTED : is_scratch ? SCRATCH : OUTPUT;
    PyObject *made = NULL, *before = PyDataMem_SetHandler(capsules[which]);
    if (before) {
        made = PyArray_Empty(shape.len, shape.ptr, dtype, 0); /* takes the reference to dtype */
        PyObject *ours = PyDataMem_SetHandler(before);
        if (!ours) Py_CLEAR(made);
        Py_XDECREF(ours);
        Py_DECREF(before);
    } else {
        Py_DECREF(dtype);
    }
    PyDimMem_FREE(shape.ptr);
    return made;
}

/* Use the allocators of the connected runtime; return 0, or -1 with an exception set. */
static int make_handlers(void)
{
    const int is_output = !make_handler(OUTPUT, runtime.asp_output_allocator(0));
    return is_output ? make_handler(SCRATCH, runtime.asp_output_allocator(1)) : -1;
}

/* -- functions */

/* Store the addresses of the runtime's functions, in the order of FUNCTIONS. */
static PyObject *connect(PyObject *module, PyObject *addresses)
{
    (void)module;
    if (!PyTuple_Check(addresses) || PyTuple_GET_SIZE(addresses) != N_FUNCTIONS)
        return PyErr_Format(PyExc_TypeError, "connect takes a tuple of %d addresses", (int)N_FUNCTIONS);
    void *found[N_FUNCTIONS];
    for (Py_ssize_t at = 0; at < N_FUNCTIONS; at++) {
        found[at] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(addresses, at));
        if (PyErr_Occurred()) return NULL;
        if (!found[at]) return PyErr_Format(PyExc_ValueError, "the address of %s is 0", function_names[at]);
    }
    memcpy(&runtime, found, sizeof runtime);
    return make_handlers() ? NULL : Py_NewRef(Py_None);
}

#ifdef _WIN32
enum { RTLD_NOW, RTLD_LOCAL };
static void *dlopen(const char *path, int mode) { return (void)path, (void)mode, NULL; }
static void *dlsym(void *library, const char *name) { return (void)library, (void)name, NULL; }
#endif

/* Load the C runtime from the file `path` (a cffi module, whose import is slower), let it keep `kept` bytes of freed
 * results, and return the number of threads. */
static PyObject *connect_to(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path;
    long long kept;
    if (!PyArg_ParseTuple(args, "O&L:connect_to", PyUnicode_FSConverter, &path, &kept)) return NULL;
    void *library = dlopen(PyBytes_AS_STRING(path), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(path);
    const asp_functions *found = library ? dlsym(library, "asp_exported") : NULL;
    if (!found || strcmp(found->asp_headers(), ASP_HEADERS))
        return PyErr_Format(PyExc_ImportError, "there is no C runtime that was built from the same sources");
    runtime = *found;
    if (make_handlers()) return NULL;
    runtime.asp_output_limit(kept);
    return PyLong_FromLong(runtime.asp_max_threads());
}

static PyArrayObject *checked_array(PyObject *object)
{
    if (PyArray_Check(object)) return (PyArrayObject *)object;
    PyErr_Format(PyExc_TypeError, "an array is needed, not %.100s", Py_TYPE(object)->tp_name);
    return NULL;
}

static PyObject *address_of(PyObject *module, PyObject *object)
{
    (void)module;
    PyArrayObject *array = checked_array(object);
    return array ? PyLong_FromVoidPtr(PyArray_DATA(array)) : NULL;
}

static PyObject *data_slot(PyObject *module, PyObject *object)
{
    (void)module;
    PyArrayObject *array = checked_array(object);
    return array ? PyLong_FromVoidPtr(&((PyArrayObject_fields *)array)->data) : NULL;
}

static PyObject *references(PyObject *module, PyObject *objects)
{
    (void)module;
    if (!PyTuple_Check(objects)) return PyErr_Format(PyExc_TypeError, "a tuple is needed");
    Py_ssize_t total = 0;
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(objects); at++) total += Py_REFCNT(PyTuple_GET_ITEM(objects, at));
    return PyLong_FromSsize_t(total);
}

static PyObject *references_with_bases(PyObject *module, PyObject *objects)
{
    (void)module;
    if (!PyList_Check(objects)) return PyErr_Format(PyExc_TypeError, "a list is needed");
    Py_ssize_t total = 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(objects); at++) {
        PyObject *one = PyList_GET_ITEM(objects, at);
        total += Py_REFCNT(one);
        PyObject *base = PyArray_CheckExact(one) ? PyArray_BASE((PyArrayObject *)one) : NULL;
        if (base) total += Py_REFCNT(base);
    }
    return PyLong_FromSsize_t(total);
}

#define FASTCALL(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL

static PyMethodDef methods[] = {
    {"connect", connect, METH_O, "Store the addresses of the runtime's functions, in the order of FUNCTIONS."},
    {"connect_to", connect_to, METH_VARARGS, "Load the runtime from a file and return its number of threads."},
    {"address_of", address_of, METH_O, "Return the address of the first element of an array."},
    {"data_slot", data_slot, METH_O, "Return the address at which an array object stores the address of its elements."},
    {"references", references, METH_O, "Return the number of references to the members of a tuple, its own included."},
    {"references_with_bases", references_with_bases, METH_O,
     "Return the number of references to the members of a list, and to the bases of those that are arrays."},
    {"look", FASTCALL(asp_look_run), "Validate a CSR matrix."},
    {"small_product", FASTCALL(asp_small_product_run), "Compute a small product."},
    {"product", FASTCALL(asp_product_run), "Compute a product on all threads."},
    {"compile_sweep", FASTCALL(asp_compile_sweep), "Compile a sweep of vector operations."},
    {"advance_cg", FASTCALL(asp_advance_cg), "Run iterations of conjugate gradients."},
    {"advance_columns_minres", FASTCALL(asp_advance_columns_minres), "Run iterations of MINRES for several columns."},
    {"advance_columns_bicgstab", FASTCALL(asp_advance_columns_bicgstab), "Run iterations of BiCGSTAB for several columns."},
    {"advance_columns_cg", FASTCALL(asp_advance_columns_cg), "Run iterations of conjugate gradients for several columns."},
    {"advance_bicgstab", FASTCALL(asp_advance_bicgstab), "Run iterations of BiCGSTAB."},
    {"advance_minres", FASTCALL(asp_advance_minres), "Run iterations of MINRES."},
    {"advance_lsqr", FASTCALL(asp_advance_lsqr), "Run iterations of LSQR."},
    {"advance_lsmr", FASTCALL(asp_advance_lsmr), "Run iterations of LSMR."},
    {"make_field", asp_make_field, METH_VARARGS, "Return a descriptor for an array of a sparse matrix."},
    {"empty", empty, METH_VARARGS, "Return an uninitialised array in memory of the runtime's allocator."},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    if (_import_array() < 0) return -1; /* as import_array, which would also print the error */
    if (make_handler(UNCONNECTED, asp_output_allocator(0))) return -1;
    asp_output_limit(1); /* blocks share huge pages, but none is kept */
    PyObject *names = PyTuple_New(N_FUNCTIONS);
    for (Py_ssize_t at = 0; names && at < N_FUNCTIONS; at++) {
        PyObject *name = PyUnicode_FromString(function_names[at]);
        if (!name) {
            Py_CLEAR(names);
            break;
        }
        PyTuple_SET_ITEM(names, at, name);
    }
    const int is_added = names && !PyModule_AddObjectRef(module, "FUNCTIONS", names) &&
                         !PyModule_AddStringConstant(module, "HEADERS", ASP_HEADERS);
    Py_XDECREF(names);
    return is_added && !asp_add_fields(module) && !asp_add_watch(module) && !asp_add_fast_call(module) ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED}, /* types are kept in variables */
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_extension",
    .m_doc = "Access to Python's and NumPy's objects from C.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__extension(void);
PyMODINIT_FUNC PyInit__extension(void) { return PyModuleDef_Init(&definition); }
