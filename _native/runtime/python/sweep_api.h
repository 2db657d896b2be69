/* Return the address of a C function `PyObject *(PyObject *state, PyObject *kept)` that creates a builtin `compile` on
 * the asp_array_types at the address `state` (an int), which keeps `kept` alive.
 *
 * compile(steps, n_threads) returns two builtins (run, bind), or None if the steps do not fit each other or are not
 * NumPy vectors; Python code handles these. A step is a tuple: (out, (terms)), (out, d, v), or (u, v), whose dot
 * product is computed. run(*coefficients) returns the tuple of the dot products. bind(position, vector) replaces a
 * vector; see asp_sweep.
 */
uintptr_t asp_sweep_compiler_maker(void);
