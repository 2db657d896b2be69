/* Offsets by which an attribute of a sparse array, such as `data`, is read from the slots of its operand without
 * calling Python code. */
typedef struct asp_field {
    int64_t cell_at;                      /* bytes from the sparse array to its operand */
    const void *cell_type;                /* type of the operand */
    int64_t arrays_at, rows_at, unvalidated_at; /* bytes from the operand to its slots */
    int64_t invalidated_at;                     /* slot that is None while an access is recorded */
    int64_t exported_at;                /* slot that must be True too; 0: there is none */
    int64_t position;                     /* index of the array in the operand's list */
} asp_field;
/* Return the address of a C function `PyObject *(PyObject *type, PyObject *spec)` that creates a descriptor for
 * `type`, which lives as long as the process. spec is (address of an asp_field, name, doc, fetch, put). The descriptor
 * reads the operand's list directly if that changes nothing in the operand's bookkeeping; otherwise it calls
 * `fetch(object)` or `put(object, value)`. */
uintptr_t asp_field_maker(void);
