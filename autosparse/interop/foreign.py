"""Further inputs of `csr`: torch's tensors, files, and matrices of pydata/sparse and pandas."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def class_of(module: ModuleType, name: str) -> Any:
    """Return the class `name` of `module`; if it has none an empty tuple, of which `isinstance` finds no instance."""
    return getattr(module, name, ())


def is_tensor(obj: object) -> bool:
    """Return whether `obj` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, getattr(torch, "Tensor", ()))


def is_on_gpu(obj: object) -> bool:
    """Return whether `obj` is a torch tensor in the memory of an NVIDIA GPU."""
    return is_tensor(obj) and bool(getattr(obj, "is_cuda", False))


def is_file(obj: Any) -> bool:
    """Return whether `obj` is a path, or a file open for reading."""
    return isinstance(obj, str | os.PathLike) or (hasattr(obj, "read") and not hasattr(obj, "shape"))


def from_file(obj: Any) -> Any:
    """Return the matrix in a path or an open file, as SciPy's readers give it; raise InputFileError or OSError."""
    from autosparse.arrays import files  # imports scipy.io, which takes a quarter of this package's import time

    return files.read(Path(obj)) if isinstance(obj, str | os.PathLike) else files.read_open(obj)


def as_scipys(obj: Any) -> Any:
    """Return a matrix of pydata/sparse or a sparse pandas DataFrame as a SciPy object; other objects unchanged.

    Neither library is imported. Raises ValueError where entries that are not stored are not 0.
    """
    sparse, pandas = sys.modules.get("sparse"), sys.modules.get("pandas")
    if sparse is not None and isinstance(obj, class_of(sparse, "SparseArray")):
        if obj.ndim != 2:
            return obj  # SciPy raises the error
        return (obj if hasattr(obj, "to_scipy_sparse") else obj.to_coo()).to_scipy_sparse()
    if pandas is not None and isinstance(obj, class_of(pandas, "DataFrame")) and obj.shape[1]:
        is_sparse = all(isinstance(dtype, pandas.SparseDtype) for dtype in obj.dtypes)
        return obj.sparse.to_coo() if is_sparse else obj
    return obj
