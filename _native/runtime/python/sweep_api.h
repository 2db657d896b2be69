/* Address of a C function `PyObject *(PyObject *state, PyObject *kept)`: a builtin `run(*coefficients)` on the asp_sweep at
 * the address `state`, an int, that keeps `kept` alive. It executes the sweep and returns the tuple of its dots; of columns,
 * it takes no coefficients and returns None: both lie in the asp_sweep's room. */
uintptr_t asp_sweep_maker(void);
