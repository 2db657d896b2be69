"""The surface of SciPy's sparse arrays: classes, constructors, `matmul`; imported module by module (`_HOMES`)."""

from autosparse import _without_garbage

_without_garbage("autosparse.arrays.family")  # here, because unpickling begins with that module in a fresh process
