/* How a C function reads PyTorch's tensors: places found by `autosparse.torch.dispatcher.small_operands`, and functions of
 * PyTorch's stable C interface (torch/csrc/inductor/aoti_torch/c/shim.h); a `void *` tensor is the address of an
 * at::Tensor, results other than 0 are errors. */
/* Index arrays whose indices were found to lie inside the matrix. Their storages are identified by address: `watched`
 * keeps these addresses from being given to other storages, without keeping the arrays' memory. */
typedef struct asp_sound {
    void *watched; /* a Python object, owned; NULL: these may be other arrays by now */
    const void *storages[2], *data[2];
    uint64_t prints[2]; /* of the arrays' content, with `watched` */
    uint32_t version;   /* count of writes through the sparse tensor, to values too */
    int64_t n_major, n_minor, nnz;
    int64_t n_seen, n_products; /* without and with `watched` */
} asp_sound;
typedef struct asp_tensors {
    const void *types[2];                    /* of the objects that are looked at: torch.Tensor, torch.nn.Parameter */
    int64_t tensor_at;                       /* bytes from an object to its at::Tensor, a pointer to the TensorImpl */
    int64_t keys_at;                         /* ... from a TensorImpl to its dispatch keys */
    uint64_t refused;                        /* keys of tensors that are not what their memory holds */
    int64_t compressed_at;                   /* ... to the at::Tensors (compressed indices, plain indices, values) */
    int64_t storage_at;                      /* ... to its storage, a pointer */
    int64_t version_at, version_in;          /* ... to its counter of writes, a pointer; bytes in the counter */
    int64_t coordinates_at;                  /* ... to the at::Tensors (indices, values) of a COO tensor */
    int32_t strided, csr, csc, coo;          /* layouts */
    int32_t float32, float64, int32, int64;  /* dtypes */
    int32_t cpu;                             /* device type */
    int32_t (*get_layout)(void *tensor, int32_t *layout);
    int32_t (*get_dtype)(void *tensor, int32_t *dtype);
    int32_t (*get_device_type)(void *tensor, int32_t *device_type);
    int32_t (*get_dim)(void *tensor, int64_t *n_dims);
    int32_t (*get_sizes)(void *tensor, int64_t **sizes);
    int32_t (*get_strides)(void *tensor, int64_t **strides);
    int32_t (*get_data_ptr)(void *tensor, void **data);
    const void *empty;     /* torch.empty */
    const void *named[2];  /* {"dtype": torch.float32} and {"dtype": torch.float64} */
    int32_t usual;         /* dtype that torch.empty made last of its own */
    int64_t most;      /* multiplications, and entries of a result, that are fewer are few */
    int64_t n_dims;    /* of B: 1 or 2 */
    int64_t direct;    /* multiplications from which on a structure that was multiplied before is not served here */
    int64_t n_direct;  /* ... that was multiplied so many times */
    int64_t checked;   /* entries below which a structure is checked at each product: remembering it takes longer */
    int64_t remembered; /* products from which on it is remembered */
    const void *how;      /* Python: () -> threads + 1024 * flags, for products that are not few */
    const void *room;     /* (shape, dtype) -> memory for a result of `roomy` bytes and more */
    const void *watch;    /* (A) -> what becomes `watched` */
    const void *dtypes[2];  /* torch.float32, torch.float64 */
    int64_t roomy;
    asp_sound sound[64];
} asp_tensors;
/* Address of a C function `PyObject *(PyObject *state, PyObject *kept)`: a builtin `few(A, B, base, beta, alpha, out)`
 * on the asp_tensors at the address `state`, an int, that keeps `kept` alive. It answers alpha A B + beta base, in `out`
 * or, where that is None, in a new tensor; base None is not added. A is a CSR, CSC or COO matrix, B dense and of
 * n_dims, both float32 or float64. Indices of A are checked before they are followed, once for a large structure.
 * What `watch` made of A where its product is the executor's: a structure that was multiplied before.
 * None where the product is not for here, anything is not plain or does not fit, or an index lies outside A: nothing
 * was done. The GIL is held, and released while a product runs that is not few. */
uintptr_t asp_tensor_maker(void);
