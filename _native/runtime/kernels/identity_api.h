/* Return a string that identifies the sources, flags and compiler of this library; written by build_runtime.py. */
const char *asp_identity(void);
/* Return the digest of the declarations that the extension module shares with the runtime
 * (`_native/extension/build_extension.py`). */
const char *asp_headers(void);
/* Return the names of the sources that `make dev` compiled with its own flags, separated by spaces; "" in other builds. */
const char *asp_dev_sources(void);
