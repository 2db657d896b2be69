/* Address of a C function `PyObject *(PyObject *state, PyObject *kept)`: a builtin on the asp_array_types at the address
 * `state`, an int, that keeps `kept` alive.
 *
 * compile(steps, n_threads) -> two builtins (run, bind), or None where the steps do not fit each other or are no vectors of
 * NumPy's: ask Python. A step is a tuple: (out, (terms)), (out, d, v), or (u, v), of which the dot is taken.
 * run(*coefficients) -> the tuple of the dots. bind(position, vector): see asp_sweep. */
uintptr_t asp_sweep_compiler_maker(void);
