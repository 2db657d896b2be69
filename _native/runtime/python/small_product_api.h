/* Layout of NumPy's array objects and identities of their dtype objects, as Python code has determined them. */
typedef struct asp_array_types {
    int64_t header; /* bytes of an object before the fields of an array */
    const void *array_type;
    const void *values[4], *indices[2]; /* dtype objects in the order of the codes */
} asp_array_types;
/* Negative results of `look` and `few`. */
enum { ASP_NOT_PLAIN = -1, ASP_FAULTY = -2, ASP_NOT_SMALL = -3 };
/* Return the address of a C function `PyObject *(PyObject *state, PyObject *kept)` that creates a builtin on the
 * asp_array_types at the address `state` (an int), which keeps `kept` alive. `arrays` is a list [indptr, indices,
 * data].
 *
 * look(arrays, n_rows, n_cols, checked) returns the values' dtype code + 4 * the indices' type code. It returns
 * ASP_NOT_PLAIN if the arrays are not supported by these kernels and ASP_FAULTY if they are no matrix of this shape;
 * the indices are read only if `checked` is not True.
 */
uintptr_t asp_look_maker(void);
/* The builtin few(arrays, n_rows, n_cols, checked, B, out, transposed, flags, most) computes out = A B (or A^T B) on
 * this thread and returns the time in ns. B must be aligned and its strides whole elements. It returns ASP_NOT_SMALL for
 * more than `most` multiplications or unsupported operands, otherwise the errors of `look`. */
uintptr_t asp_small_product_maker(void);
/* The builtin references(list) returns the number of references to the objects in the list and to the bases of those
 * that are arrays. */
uintptr_t asp_references_maker(void);
