/* The address of the shipped kernel of that key (`KernelSpec.key`) or name (`slice_names`), to be called as a generated one; 0: none. */
uintptr_t asp_shipped_kernel(const char *key);
