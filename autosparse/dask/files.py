"""Readers of sparse matrices in files as Dask arrays, piece by piece, so that no process holds the whole matrix.

========================  =====================================================  =====================================
file                      piece                                                  passes over the file
========================  =====================================================  =====================================
.npz (csr, ``save_npz``)  the entries of some rows; row starts are read at once  one (compressed: up to the piece)
.mtx (coordinate)         some bytes of the text, cut at lines                   two: entries per row, entries
.parquet, or a folder     a row group of triples                                 two: entries per row, entries
========================  =====================================================  =====================================
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import dask.array as da
import numpy as np
import scipy.io
import scipy.sparse as sps
from dask.base import tokenize
from dask.delayed import delayed
from numpy.typing import DTypeLike

from autosparse.arrays.files import UNREADABLE, Header, read_matrix_market
from autosparse.core.dtypes import Complex, Hash, NarrowIndex, Real, WideIndex
from autosparse.dask import archives
from autosparse.dask.blocks import block, csr_block
from autosparse.dask.collection import DEFAULT_BLOCK_BYTES, SparseArray, balanced_chunks
from autosparse.errors import InputError, InputFileError, MissingExtraError
from autosparse.operands.native_rows import check_structure

PIECE_BYTES: Final = 64 << 20
"""Bytes of a text file that one task reads."""


@dataclass(frozen=True, slots=True)
class Triples:
    """File of (row, column, value) triples in any order, with a function that reads one piece of it."""

    path: Path
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    pieces: tuple[Any, ...]  # Any: arguments of `read_piece`
    read_piece: Callable[..., sps.coo_array]
    n_entries: int | None = None  # number stated in the file; None: not stated
    is_mirrored: bool = False  # symmetric: an entry off the diagonal stands for two

    def piece(self, which: Any) -> sps.coo_array:
        """Return the entries of one piece `which` as COO. Raises InputFileError for unreadable text or bad entries."""
        try:
            return self.read_piece(self.path, which, self.shape)
        except ValueError as err:
            raise InputFileError.unreadable(self.path, reason=str(err)) from err


def read(
    path: os.PathLike[str] | str,
    *,
    n_blocks: int | None = None,
    shape: tuple[int, int] | None = None,
    columns: tuple[str, str, str] = ("row", "col", "value"),
    dtype: DTypeLike | None = None,
) -> da.Array:
    """Return a Dask array of the sparse matrix in `path`, rows cut so that blocks hold equally many stored entries.

    .npz: a csr matrix written by ``scipy.sparse.save_npz``. .mtx: a Matrix Market coordinate file. .parquet: a file, or
    a folder of them, with the integer `columns` row and col, counted from 0, and a value; `shape` defaults to the
    largest row and column plus one. `n_blocks` defaults to blocks of about 64 MiB, `dtype` to that of the stored
    values. Duplicate entries are summed. Raises InputFileError (ValueError) for other files, FileNotFoundError, and
    MissingExtraError (ImportError) where parquet needs pyarrow.

    >>> sps.save_npz("eye.npz", sps.eye_array(4, format="csr"))
    >>> asp.dask.read("eye.npz", n_blocks=2).chunks
    ((2, 2), (4,))
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {str(path)!r}")
    suffix = ".parquet" if path.is_dir() else path.suffix.lower()
    if suffix == ".npz":
        return _read_npz(path, n_blocks, dtype)
    if suffix not in _TRIPLES:
        raise InputFileError.unknown_suffix(path, known=(".npz", *_TRIPLES))
    return _read_triples(_TRIPLES[suffix](path, shape, columns, dtype), n_blocks)


# --- csr in a .npz ------------------------------------------------------------------------------------------------


def _read_npz(path: Path, n_blocks: int | None, dtype: DTypeLike | None) -> da.Array:
    try:
        head = archives.csr_head(path)
    except UNREADABLE as err:
        raise InputFileError.unreadable(path, reason=f"{err}" or type(err).__name__) from err
    item_bytes = head.indices.itemsize + head.data.itemsize
    nnz = int(head.indptr[-1])
    chunks = balanced_chunks(head.indptr, n_blocks or max(1, -(-nnz * item_bytes // DEFAULT_BLOCK_BYTES)))
    wanted = np.dtype(dtype or head.data)
    label = f"npz-{tokenize(str(path), path.stat().st_mtime_ns, chunks, str(wanted))}"
    bounds = [0, *np.cumsum(chunks).tolist()]
    graph = {
        (label, i, 0): (_rows_of_npz, path, head.indptr[first : last + 1], head.n_cols, wanted)
        for i, (first, last) in enumerate(pairwise(bounds))
    }
    return SparseArray(graph, label, (chunks, (head.n_cols,)), meta=csr_block((0, 0), dtype=wanted))


def _rows_of_npz(path: Path, indptr: Any, n_cols: int, dtype: np.dtype[Any]) -> Any:
    first, last = int(indptr[0]), int(indptr[-1])
    try:
        indices, data = (archives.entries(path, name, first, last) for name in ("indices", "data"))
        fits = indices.dtype in (NarrowIndex, WideIndex) and last - first <= np.iinfo(indices.dtype).max
        starts = (indptr - indptr[0]).astype(indices.dtype if fits else WideIndex)
        shape = len(indptr) - 1, n_cols
        check_structure(starts, indices, shape)  # before indices are used
    except UNREADABLE as err:
        raise InputFileError.unreadable(path, reason=f"{err}" or type(err).__name__) from err
    return csr_block((data.astype(dtype, copy=False), indices, starts), shape=shape)


# --- triples ------------------------------------------------------------------------------------------------------


def _read_triples(source: Triples, n_blocks: int | None) -> da.Array:
    """Return a Dask array of the file's matrix: pieces are read, cut at the blocks' rows, and joined block by block."""
    counts = [delayed(_count)(source, piece) for piece in source.pieces] or [np.zeros(source.shape[0] + 1, WideIndex)]
    while len(counts) > 1:
        counts = [delayed(sum)(counts[at : at + 8]) for at in range(0, len(counts), 8)]
    counted = delayed(counts[0]).compute()
    n_found = int(counted[-1])
    if source.n_entries not in (None, n_found):
        raise InputFileError.unreadable(
            source.path, reason=f"it says that it has {source.n_entries:,} entries, and has {n_found:,}"
        )
    starts = np.concatenate(([0], np.cumsum(counted[:-1])))
    n_bytes = int(starts[-1]) * (4 + source.dtype.itemsize)
    chunks = balanced_chunks(starts, n_blocks or max(1, -(-n_bytes // DEFAULT_BLOCK_BYTES)))
    bounds = [0, *np.cumsum(chunks).tolist()]
    label = f"triples-{tokenize(str(source.path), source.path.stat().st_mtime_ns, chunks, str(source.dtype))}"
    graph: dict[Any, Any] = {
        (f"cut-{label}", k): (_cut, source, piece, bounds) for k, piece in enumerate(source.pieces)
    }
    for i, m in enumerate(chunks):
        for k in range(len(source.pieces)):
            graph[f"part-{label}", k, i] = (_part, (f"cut-{label}", k), i)
        parts = [(f"part-{label}", k, i) for k in range(len(source.pieces))]
        graph[label, i, 0] = (_join, parts, (m, source.shape[1]), source.dtype)
    return SparseArray(graph, label, (chunks, (source.shape[1],)), meta=csr_block((0, 0), dtype=source.dtype))


def _count(source: Triples, piece: Any) -> Any:
    """Return the number of stored entries in each row of a piece, then the number of triples in the piece."""
    found = source.piece(piece)
    n_twins = int(np.count_nonzero(found.row != found.col)) // 2 if source.is_mirrored else 0
    return np.append(np.bincount(found.row, minlength=source.shape[0]), found.nnz - n_twins)


def _cut(source: Triples, piece: Any, bounds: list[int]) -> list[Any]:
    """Cut a piece: return (rows, columns, values) for each block, rows counted from the block's first."""
    found = source.piece(piece)
    owner = np.searchsorted(bounds[1:], found.row, side="right")
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(len(bounds)))
    parts = []
    for i, (first, last) in enumerate(pairwise(ends)):
        kept = order[first:last]
        parts.append((found.row[kept] - bounds[i], found.col[kept], found.data[kept].astype(source.dtype, copy=False)))
    return parts


def _part(parts: list[Any], i: int) -> Any:
    return parts[i]


def _join(parts: list[Any], shape: tuple[int, int], dtype: np.dtype[Any]) -> Any:
    rows, columns, values = (np.concatenate([part[n] for part in parts]) for n in range(3))
    return block(sps.coo_array((values.astype(dtype, copy=False), (rows, columns)), shape=shape).tocsr())


# --- Matrix Market ------------------------------------------------------------------------------------------------


def _matrix_market(path: Path, shape: Any, columns: Any, dtype: DTypeLike | None) -> Triples:
    try:
        header = Header(*scipy.io.mminfo(str(path)))
        header.check(path.stat().st_size)
    except ValueError as err:
        raise InputFileError.unreadable(path, reason=str(err)) from err
    if header.layout != "coordinate":
        raise InputFileError.unreadable(
            path, reason="it holds a dense array; numpy and dask.array.from_array read these"
        )
    with path.open("rb") as stream:
        banner = stream.readline()
        while (line := stream.readline()).startswith(b"%") or not line.strip():
            pass
        at = stream.tell()
    size = path.stat().st_size
    cuts = [*range(at, size, PIECE_BYTES), size]
    field = {"integer": WideIndex, "unsigned-integer": Hash, "complex": Complex}.get(header.field, Real)
    pieces = tuple((banner, start, stop) for start, stop in pairwise(cuts) if stop > start)
    shape, is_mirrored = (header.n_rows, header.n_cols), header.symmetry != "general"
    return Triples(path, shape, np.dtype(dtype or field), pieces, _lines, header.n_entries, is_mirrored)


def _lines(path: Path, piece: tuple[bytes, int, int], shape: tuple[int, int]) -> sps.coo_array:
    """Return the entries whose lines begin in bytes [start, stop); `piece` is (banner, start, stop)."""
    banner, start, stop = piece
    with path.open("rb") as stream:
        stream.seek(start - 1)
        if stream.read(1) != b"\n":
            stream.readline()
        text = stream.read(max(0, stop - stream.tell()))
        if text and not text.endswith(b"\n"):
            text += stream.readline()
    lines = [line for line in text.split(b"\n") if line.strip()] if b"\n\n" in text else None
    body = b"\n".join(lines) + b"\n" if lines is not None else text
    body = body if body.endswith(b"\n") or not body else body + b"\n"
    if b"\0" in body:
        raise InputFileError.unreadable(path, reason="it is not a text file (it contains a NUL byte)")
    head = banner + b"%d %d %d\n" % (*shape, body.count(b"\n"))
    return read_matrix_market(io.BytesIO(head + body))


# --- parquet ------------------------------------------------------------------------------------------------------


def _parquet(path: Path, shape: Any, columns: tuple[str, str, str], dtype: DTypeLike | None) -> Triples:
    pq = _pyarrow()
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InputFileError.unreadable(path, reason="the folder holds no .parquet file")
    found = [pq.ParquetFile(one) for one in files]
    missing = set(columns) - set(found[0].schema_arrow.names)
    if missing:
        raise InputError.refused(
            f"the file has no column {', '.join(sorted(missing))}",
            given=f"columns {', '.join(found[0].schema_arrow.names)}", hint='pass columns=("row", "col", "value")',
        )  # fmt: skip
    pieces = tuple(
        (one, group, columns) for one, file in zip(files, found, strict=True) for group in range(file.num_row_groups)
    )
    if shape is None:
        extents = [delayed(_extents)(piece) for piece in pieces]
        shape = tuple(np.max(delayed(list)(extents).compute(), axis=0) + 1)
    kind = found[0].schema_arrow.field(columns[2]).type.to_pandas_dtype()
    return Triples(path, (int(shape[0]), int(shape[1])), np.dtype(dtype or kind), pieces, _group)


def _pyarrow() -> Any:  # Any: pyarrow has no types
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError.by_hand("pyarrow", purpose="reading parquet", how="pip install pyarrow") from error
    return pq


def _columns(piece: Any) -> list[Any]:
    file, group, columns = piece
    table = _pyarrow().ParquetFile(file).read_row_group(group, columns=list(columns))
    return [table.column(name).to_numpy() for name in columns]


def _extents(piece: Any) -> tuple[int, int]:
    rows, columns, _ = _columns(piece)
    return int(rows.max(initial=-1)), int(columns.max(initial=-1))


def _group(path: Path, piece: Any, shape: tuple[int, int]) -> sps.coo_array:
    rows, columns, values = _columns(piece)
    return sps.coo_array((values, (rows, columns)), shape=shape)


_TRIPLES: Final[Mapping[str, Callable[..., Triples]]] = {".mtx": _matrix_market, ".parquet": _parquet}
"""Functions that find the pieces of a file, by suffix."""
