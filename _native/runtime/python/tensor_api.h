/* Access to PyTorch's tensors from C: offsets that `autosparse.torch.dispatcher.small_operands` has determined, and
 * functions of PyTorch's stable C interface (torch/csrc/inductor/aoti_torch/c/shim.h). A `void *` tensor is the
 * address of an at::Tensor; results other than 0 are errors. */
/* Index arrays whose indices were found to lie inside the matrix. Their storages are identified by address; `watched`
 * keeps these addresses from being reused by other storages, without keeping the arrays' memory. */
typedef struct asp_sound {
    void *watched; /* a Python object, owned; NULL: the addresses may belong to other arrays by now */
    const void *storages[2], *data[2];
    uint64_t prints[2]; /* hashes of the arrays' content, with `watched` */
    uint32_t version;   /* count of in-place writes through the sparse tensor, including writes to values */
    int64_t n_major, n_minor, nnz;
    int64_t n_seen, n_products; /* number of products without and with `watched` */
} asp_sound;
typedef struct asp_tensors {
    const void *types[2];                    /* accepted classes: torch.Tensor, torch.nn.Parameter */
    int64_t tensor_at;                       /* bytes from an object to its at::Tensor, a pointer to the TensorImpl */
    int64_t keys_at;                         /* bytes from a TensorImpl to its dispatch keys */
    uint64_t refused;                        /* keys of tensors whose memory does not hold their values */
    int64_t compressed_at;                   /* ... to the at::Tensors (compressed indices, plain indices, values) */
    int64_t storage_at;                      /* ... to its storage, a pointer */
    int64_t version_at, version_in;          /* ... to its version counter, a pointer; bytes in the counter */
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
    int32_t usual;         /* dtype of the last tensor that torch.empty created without a dtype */
    int64_t most;      /* a product is small with fewer multiplications and entries of the result than this */
    int64_t n_dims;    /* dimensions of B: 1 or 2 */
    /* Number of multiplications from which a structure that was multiplied before is not served here. */
    int64_t direct;
    int64_t n_direct;  /* ... after this many products */
    /* Number of entries below which a structure is checked at each product, which is faster than remembering it. */
    int64_t checked;
    int64_t remembered; /* number of products after which a structure is remembered */
    const void *how;      /* Python: () -> threads + 1024 * flags, for products that are not small */
    const void *room;     /* (shape, dtype) -> memory for a result of at least `roomy` bytes */
    const void *watch;    /* (A) -> the object stored in `watched` */
    const void *dtypes[2];  /* torch.float32, torch.float64 */
    int64_t roomy;
    asp_sound sound[64];
} asp_tensors;
/* Return the address of a C function `PyObject *(PyObject *state, PyObject *kept)` that creates a builtin `few(A, B,
 * base, beta, alpha, out)` on the asp_tensors at the address `state` (an int), which keeps `kept` alive. The builtin
 * returns alpha A B + beta base, in `out` or, if that is None, in a new tensor; a None base is not added. A is a CSR,
 * CSC or COO matrix; B is dense with n_dims dimensions; both are float32 or float64. Indices of A are checked before
 * they are used, once for a large structure.
 *
 * If the product belongs to the executor, because its structure was multiplied before, the builtin returns the object
 * that `watch` made of A. It returns None, without any effect, for unsupported operands or if an index lies outside A.
 * The GIL is held, and released while a product that is not small runs.
 */
uintptr_t asp_tensor_maker(void);
