/* `asp_sweep_maker` of sweep_api.h, compiled with the extension's own module like entry_python.h. */

enum { SWEEP_SHORT = 4096 }; /* elements, up to which other Python threads wait: giving the lock back takes longer */

/* Write the pair of a coefficient; 0 where it is no number of the dtype, with an exception set. */
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

static PyObject *sweep_run(PyObject *self, PyObject *const *args, Py_ssize_t n_args)
{
    const asp_sweep *sweep = PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
    if (!sweep) return NULL;
    if (n_args != (sweep->n_columns ? 0 : sweep->n_coefficients))
        return PyErr_Format(PyExc_TypeError, "this sweep takes %d coefficients, not %zd", (int)sweep->n_coefficients, n_args);
    for (Py_ssize_t at = 0; at < n_args; at++)
        if (!sweep_coefficient(sweep, args[at], (double *)sweep->coefficients + 2 * at)) return NULL;
    int status;
    if (sweep->n <= SWEEP_SHORT && !sweep->n_columns)
        status = asp_sweep_run(sweep);
    else {
        Py_BEGIN_ALLOW_THREADS;
        status = asp_sweep_run(sweep);
        Py_END_ALLOW_THREADS;
    }
    if (status) return PyErr_NoMemory();
    if (!sweep->n_columns) return sweep_dots(sweep);
    Py_RETURN_NONE;
}

static PyMethodDef sweep_method = {"run", (PyCFunction)(void (*)(void))sweep_run, 0x0080 /* METH_FASTCALL */, NULL};

static PyObject *sweep_make(PyObject *state, PyObject *kept)
{
    PyObject *self = PyTuple_Pack(2, state, kept);
    PyObject *made = self ? PyCFunction_NewEx(&sweep_method, self, NULL) : NULL;
    Py_XDECREF(self);
    return made;
}

uintptr_t asp_sweep_maker(void)
{
    return (uintptr_t)sweep_make;
}
