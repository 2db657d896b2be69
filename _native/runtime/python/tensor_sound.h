/* Validation of the indices of a sparse tensor, with memory of validated structures; part of tensor_python.h. */

/* Return the identity of A's arrays, which is valid as long as their storages are watched. */
static asp_sound tensor_identity(const asp_tensors *about, const tensor_entries *A)
{
    asp_sound one = {.n_major = A->by_columns ? A->k : A->n, .n_minor = A->by_columns ? A->n : A->k, .nnz = A->nnz,
                     .data = {A->starts, A->indices}};
    const char *counter;
    for (int at = 0; at < 2; ++at) memcpy(&one.storages[at], A->impls[at] + about->storage_at, sizeof(void *));
    memcpy(&counter, A->impl + about->version_at, sizeof counter);
    if (counter) memcpy(&one.version, counter + about->version_in, sizeof one.version); /* none in inference mode */
    return one;
}

/* Return threads and flags of a product from the function `how`; negative if it failed. */
static int64_t tensor_how(const asp_tensors *about)
{
    PyObject *how = PyObject_CallFunctionObjArgs((PyObject *)(uintptr_t)about->how, NULL);
    const int64_t told = how ? PyLong_AsLongLong(how) : -1;
    Py_XDECREF(how);
    if (told < 0) PyErr_Clear();
    return told;
}

/* Compute hashes of the arrays of A. */
static void tensor_print(const asp_tensors *about, const tensor_entries *A, asp_sound *one)
{
    const int64_t width = A->index_dtype == about->int64 ? 8 : 4;
    const int64_t how = tensor_how(about);
    const int n_threads = how > 0 ? (int)(how % 1024) : 1;
    one->prints[0] = asp_look_low(A->starts, (one->n_major + 1) * width, n_threads);
    one->prints[1] = asp_look_low(A->indices, A->nnz * width, n_threads);
}

/* Return whether the arrays `now` of A are those in the slot. Watched arrays of a tensor with in-place writes since
 * then are hashed, because only the values may have been written. */
static int tensor_is_same(const asp_tensors *about, const tensor_entries *A, asp_sound *slot, asp_sound *now)
{
    if (slot->n_major != now->n_major || slot->n_minor != now->n_minor || slot->nnz != now->nnz ||
        memcmp(slot->storages, now->storages, sizeof slot->storages) || memcmp(slot->data, now->data, sizeof slot->data))
        return 0;
    if (slot->watched && slot->version != now->version) {
        tensor_print(about, A, now);
        if (memcmp(slot->prints, now->prints, sizeof now->prints)) return 0;
        slot->version = now->version;
    }
    return 1;
}

/* Return the slot of a structure in the hash table. */
static asp_sound *tensor_slot(asp_tensors *about, const asp_sound *one)
{
    const uintptr_t key = (uintptr_t)one->data[1] ^ (uintptr_t)one->data[0] >> 3;
    return about->sound + (((key >> 4) * 0x9E3779B97F4A7C15u) >> 58);
}

/* Return whether all indices of A lie inside the matrix. */
static int tensor_check(const asp_tensors *about, const tensor_entries *A)
{
    const int is_wide = A->index_dtype == about->int64;
    const int64_t n_major = A->by_columns ? A->k : A->n, n_minor = A->by_columns ? A->n : A->k;
    const int64_t end = is_wide ? ((const int64_t *)A->starts)[n_major] : ((const int32_t *)A->starts)[n_major];
    return end == A->nnz && !asp_csr_check(is_wide, n_major, n_minor, A->starts, A->indices, A->nnz, 1);
}

/* Return whether the indices of A, the sparse tensor `object`, are valid; *known receives the slot in which it is
 * remembered. A structure is checked at each product until it was seen a few times, because a matrix that is created
 * for each product is not worth remembering. */
static int tensor_is_sound(asp_tensors *about, PyObject *object, const tensor_entries *A, asp_sound **known)
{
    *known = NULL;
    if (!A->starts) return 1; /* each index is checked when it is used */
    if (A->nnz < about->checked) return tensor_check(about, A);
    asp_sound now = tensor_identity(about, A), *slot = tensor_slot(about, &now);
    const int is_same = tensor_is_same(about, A, slot, &now);
    if (is_same && slot->watched) {
        slot->n_products++;
        *known = slot;
        return 1;
    }
    if (!tensor_check(about, A)) return 0;
    PyObject *before = slot->watched;
    if (!is_same) {
        *slot = now;
        Py_XDECREF(before);
    } else if (++slot->n_seen >= about->remembered) {
        PyObject *watched = PyObject_CallFunctionObjArgs((PyObject *)(uintptr_t)about->watch, object, NULL);
        if (!watched) PyErr_Clear(); /* it will be checked again */
        before = slot->watched;
        tensor_print(about, A, &now);
        *slot = now;
        slot->watched = watched;
        Py_XDECREF(before);
    }
    return 1;
}
