/* Return a string that identifies the sources, flags and compiler of this library; written by build_runtime.py. */
const char *asp_identity(void);
/* Return the digest of the declarations that the extension module shares with the runtime
 * (`_native/extension/build_extension.py`). */
const char *asp_headers(void);
