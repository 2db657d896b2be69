/* Names the sources, the flags and the compiler of this library; written by build_runtime.py. */
const char *asp_identity(void);
