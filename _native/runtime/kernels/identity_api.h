/* Return a string that identifies the sources, flags and compiler of this library; written by build_runtime.py. */
const char *asp_identity(void);
