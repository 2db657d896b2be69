"""Real matrices of a folder: .npz (SciPy's format), .mtx and .mtx.gz; tensors: .npz with coords, vals and shape.

Other files are ignored.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.io
import scipy.sparse

from peerlib.case import Tensor

SUFFIXES: Final = (".npz", ".mtx", ".mtx.gz")


@dataclass(frozen=True, slots=True)
class MatrixFile:
    """One matrix or tensor of a folder; `name` is the file's name without its suffix."""

    name: str
    path: Path
    nnz: int
    is_tensor: bool = False


def _stem(path: Path) -> str:
    suffix = next((suffix for suffix in reversed(SUFFIXES) if path.name.endswith(suffix)), "")
    return path.name[: len(path.name) - len(suffix)]


_MATRIX_PARTS: Final = ("format.npy", "data.npy")
_TENSOR_PARTS: Final = ("coords.npy", "shape.npy", "vals.npy")


def _npz_nnz(path: Path, parts: tuple[str, ...] = _MATRIX_PARTS) -> int | None:
    """Return the length of the last of `parts`, read from its header; None if a part is missing."""
    try:
        with zipfile.ZipFile(path) as archive:
            if not set(parts) <= set(archive.namelist()):
                return None
            with archive.open(parts[-1]) as stream:
                major, _ = np.lib.format.read_magic(stream)
                readers = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
                shape, _, _ = readers[major](stream)
                return int(np.prod(shape))
    except (zipfile.BadZipFile, ValueError, KeyError):
        return None


def _mtx_nnz(path: Path) -> int | None:
    try:
        return int(scipy.io.mminfo(path)[2])
    except (ValueError, OSError):
        return None


def count_stored(path: Path) -> int | None:
    """Return the number of stored entries of the matrix at `path`, read from headers alone; None if it is no matrix."""
    return _npz_nnz(path) if path.name.endswith(".npz") else _mtx_nnz(path)


def find_matrices(
    folder: Path, *, min_nnz: int = 0, only: tuple[str, ...] = (), limit: int | None = None
) -> list[MatrixFile]:
    """Return the matrices of `folder` with at least `min_nnz` stored entries, sorted by name; `only` selects names."""
    return list(_matching(folder, min_nnz, only))[:limit]


def _matching(folder: Path, min_nnz: int, only: tuple[str, ...]) -> Iterator[MatrixFile]:
    paths = [folder] if folder.is_file() else sorted(folder.iterdir())
    for path in paths:
        if not path.name.endswith(SUFFIXES) or (only and _stem(path) not in only):
            continue
        nnz = count_stored(path)
        if nnz is not None and nnz >= min_nnz:
            yield MatrixFile(_stem(path), path, nnz)


def held_out(files: Sequence[MatrixFile], folder: Path) -> list[MatrixFile]:
    """Return the files whose groups are held out from training and not sealed, by the folder's index.csv.

    Return all files if `folder` is one file.
    """
    from autosparse.tuner.research.collect.recipes import is_held_out, is_sealed, real_files

    if not folder.is_dir():
        return list(files)
    names = {one.name for one in real_files(folder) if is_held_out(one.group) and not is_sealed(one.group)}
    return [file for file in files if file.path.name in names]


def find_tensors(
    folder: Path, *, min_nnz: int = 0, only: tuple[str, ...] = (), limit: int | None = None
) -> list[MatrixFile]:
    """Return the tensors of `folder`, selected in the same way as matrices."""
    paths = [path for path in sorted(folder.iterdir()) if path.suffix == ".npz"] if folder.is_dir() else [folder]
    counted = [(path, _npz_nnz(path, _TENSOR_PARTS)) for path in paths if not only or _stem(path) in only]
    found = [MatrixFile(_stem(path), path, n, True) for path, n in counted if n is not None and n >= min_nnz]
    return found[:limit]


def load_tensor(path: Path, *, dtype: str) -> Tensor:
    """Load the tensor at `path`, with sorted coordinates and summed duplicates."""
    with np.load(path) as archive:
        coords, values, shape = archive["coords"], archive["vals"], tuple(map(int, archive["shape"]))
    coords = coords if coords.shape[0] == len(shape) else coords.T
    unique, entry = np.unique(coords, axis=1, return_inverse=True)
    data = np.bincount(entry.ravel(), weights=values.astype(np.float64), minlength=unique.shape[1])
    return Tensor(np.ascontiguousarray(unique, dtype=np.int32), data.astype(dtype), shape)


def load(path: Path, *, dtype: str) -> Any:
    """Load the matrix at `path` in the form of `as_csr`."""
    return as_csr(scipy.sparse.load_npz(path) if path.name.endswith(".npz") else scipy.io.mmread(path), dtype=dtype)


def as_csr(raw: Any, *, dtype: str) -> Any:
    """Convert `raw` to a canonical scipy.sparse.csr_array, with int32 indices if they suffice."""
    matrix: Any = scipy.sparse.csr_array(raw).astype(dtype)
    matrix.sum_duplicates()
    if matrix.nnz < 2**31 and max(matrix.shape) < 2**31:
        matrix.indices = matrix.indices.astype(np.int32)
        matrix.indptr = matrix.indptr.astype(np.int32)
    return matrix
