/* Where a product finds what it must know of NumPy's array objects. */
typedef struct asp_array_types {
    int64_t header; /* bytes of an object before the fields of an array */
    const void *array_type;
    const void *values[4], *indices[2]; /* dtype objects in the order of the codes */
} asp_array_types;
enum { ASP_NOT_PLAIN = -1, ASP_FAULTY = -2, ASP_NOT_SMALL = -3 };
/* Addresses of C functions `PyObject *(PyObject *state, PyObject *kept)`: builtins on the asp_array_types at the address
 * `state`, an int, that keep `kept` alive. `arrays` is a list [indptr, indices, data].
 *
 * look(arrays, n_rows, n_cols, checked) -> code of the values' dtype + 4 * code of the indices'; ASP_NOT_PLAIN: not for
 * our kernels; ASP_FAULTY: not a matrix of this shape (indices are read only where they are not `checked`). */
uintptr_t asp_look_maker(void);
/* few(arrays, n_rows, n_cols, checked, B, out, transposed, flags, most) -> ns that out = A B (or A^T B) took, on this
 * thread; B is aligned, its steps are whole elements. ASP_NOT_SMALL: more than `most` multiplications, or operands that do not lie as they must; else what `look` answers. */
uintptr_t asp_small_product_maker(void);
/* references(list) -> to the objects in the list, and to the objects that those of them that are arrays are views of. */
uintptr_t asp_references_maker(void);
