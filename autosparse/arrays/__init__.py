"""SciPy's surface for autosparse: array and matrix classes, constructors and `matmul`, imported on demand."""

from autosparse import _without_garbage

_without_garbage("autosparse.arrays.family")  # unpickling in a fresh process imports this package first
