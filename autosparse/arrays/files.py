"""Sparse matrices from files: Matrix Market and SciPy's .npz."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.io
import scipy.sparse as sps

from autosparse.errors import InputFileError

# What the readers raise for broken files; a missing file stays FileNotFoundError.
_UNREADABLE: Final = (
    ValueError,
    KeyError,
    EOFError,
    IndexError,
    OverflowError,
    OSError,
    zipfile.BadZipFile,
    zlib.error,
)


def _read_matrix_market(path: Path) -> Any:
    """coo_array of a coordinate file, ndarray of an array file."""
    if path.name.lower().endswith(".gz"):
        stream: io.BufferedIOBase = io.BytesIO(gzip.decompress(path.read_bytes()))
    else:
        stream = path.open("rb")
    with stream:
        _refuse_half_a_number(stream)
        found = scipy.io.mmread(stream)
    return sps.coo_array(found) if sps.issparse(found) else found


def _refuse_half_a_number(stream: io.BufferedIOBase) -> None:
    """ValueError for text that ends in the exponent of a number: SciPy's reader (1.13 - 1.17) crashes there."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, size - 2))
    last = stream.read()[-1:]
    stream.seek(0)
    if last and last in b"eEdD+-":
        raise ValueError("Truncated file. It ends in the middle of a number")


def _read_npz(path: Path) -> Any:
    """What `scipy.sparse.save_npz` wrote, or (data, indices, indptr, shape) from arrays of these names."""
    with np.load(path, allow_pickle=False) as file:
        if "format" in file:
            return sps.load_npz(path)
        missing = {"data", "indices", "indptr"} - set(file.files)
        if missing:
            raise ValueError(f"it holds {file.files}, but not {', '.join(sorted(missing))}")
        shape = tuple(int(extent) for extent in file["shape"]) if "shape" in file else None
        return file["data"], file["indices"], file["indptr"], shape


READERS: Final[Mapping[str, Callable[[Path], Any]]] = {
    ".mtx": _read_matrix_market,
    ".mtx.gz": _read_matrix_market,
    ".npz": _read_npz,
}


def read(path: Path) -> Any:
    """The matrix in a file, as SciPy's readers give it; what it is, is decided by the suffix."""
    reader = next((READERS[suffix] for suffix in READERS if path.name.lower().endswith(suffix)), None)
    if reader is None:
        raise InputFileError.unknown_suffix(path, known=READERS)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {str(path)!r}")
    try:
        return reader(path)
    except _UNREADABLE as err:
        raise InputFileError.unreadable(path, reason=f"{err}" or type(err).__name__) from err
