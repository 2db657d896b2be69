"""The surface of SciPy's sparse arrays: classes, constructors, `matmul`; imported module by module (`_HOMES`)."""
