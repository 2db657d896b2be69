/* Address of the elements of the ndarray at `object`, offset bytes into the object; see address_of. */
uintptr_t asp_pointer_at(uintptr_t object, int64_t offset);
