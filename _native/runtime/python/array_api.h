/* Return the pointer stored `offset` bytes into the object at `object`, such as an ndarray's data pointer
 * (runtime_api.address_of). */
uintptr_t asp_pointer_at(uintptr_t object, int64_t offset);
