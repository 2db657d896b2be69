/* What an attribute of a sparse array needs that is an array of its operand: where Python objects keep their slots. */
typedef struct asp_field {
    int64_t cell_at;                      /* bytes from the sparse array to its operand */
    const void *cell_type;                /* and the operand's type */
    int64_t arrays_at, rows_at, unvalidated_at; /* bytes from the operand to its slots */
    int64_t invalidated_at;                     /* the slot that is None while a touch is noted */
    int64_t exported_at;                /* the slot that must be True too; 0: there is none */
    int64_t position;                     /* of the array in the operand's list */
} asp_field;
/* Address of a C function `PyObject *(PyObject *type, PyObject *spec)`: a descriptor for `type`, spec being (address of
 * an asp_field, name, doc, fetch, put), which lives as long as the process. It answers from the operand's list where that
 * changes nothing that the operand keeps account of; else `fetch(object)` does, or `put(object, value)`. */
uintptr_t asp_field_maker(void);
