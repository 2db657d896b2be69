"""Readers of sparse matrices from files: Matrix Market, .npz of SciPy and of graph libraries, tensors in FROSTT's
format.

SciPy's readers trust a file: they allocate what its header says, and some texts make them write past their arrays
or end the process. These readers check a file before SciPy reads it, and check indices before they are used.
"""

from __future__ import annotations

import io
import operator
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.io
import scipy.sparse as sps

from autosparse.core.dtypes import Complex, Hash, Real, WideIndex
from autosparse.errors import InputFileError
from autosparse.light import VERSION_OF_SCIPY
from autosparse.operands.native_rows import check_structure
from autosparse.reading import tensors as coordinates
from autosparse.reading import texts

# Exceptions that readers raise for broken files. A missing file stays FileNotFoundError, and MemoryError stays itself.
UNREADABLE: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, NotImplementedError, OSError, RuntimeError, SyntaxError,
    TypeError, ValueError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
MIN_ENTRY_BYTES: Final = {"coordinate": 4, "array": 2}
"""Minimum bytes per entry of a Matrix Market file, by layout.

A coordinate entry has at least ``1 1`` and an end of line, an array entry one digit and a separator.
"""
_DTYPES: Final = {"integer": WideIndex, "unsigned-integer": Hash, "complex": Complex}
BLOCK_BYTES: Final = 1 << 20
_ARRAYS: Final = ("data", "indices", "indptr")
MAX_INFLATED: Final = 1100
"""Upper bound on the bytes that one byte of a .npz file can expand to (deflate reaches 1032)."""

Source = str | io.BytesIO
"""Source that SciPy's reader accepts: a path, or a stream that stays open while anything refers to it.

Closing a stream before the reader is destroyed, which an exception delays, ends the process.
"""


def _read_matrix_market(path: Path) -> Any:
    """Return a coo_array from a coordinate file, an ndarray from an array file."""
    return _parse_matrix_market(*_source_of(path))


def _parse_matrix_market(source: Source, n_bytes: int) -> Any:
    header = Header(*scipy.io.mminfo(_from_start(source)))
    header.check(n_bytes)
    if header.layout == "array" and header.n_stored == 0:
        return np.zeros((header.n_rows, header.n_cols), _DTYPES.get(header.field, Real))
    if (header.layout, header.symmetry) == ("array", "skew-symmetric"):
        _refuse_more_lines(source, header.n_stored)
    return read_matrix_market(_from_start(source))


def read_matrix_market(source: Source) -> Any:
    """Return the coo_array or ndarray that SciPy's reader makes of a text, without its warning about matrices."""
    found = scipy.io.mmread(source, **({"spmatrix": False} if VERSION_OF_SCIPY >= (1, 15) else {}))
    return sps.coo_array(found) if sps.issparse(found) else found


def _refuse_more_lines(source: Source, n_most: int) -> None:
    """Raise ValueError for a dense file of more than `n_most` values, which SciPy's reader writes out of bounds."""
    text = Path(source).read_bytes() if isinstance(source, str) else source.getvalue()
    lines = [line for line in text.split(b"\n") if line.strip() and not line.startswith(b"%")]
    if len(lines) - 1 > n_most:  # the first line holds the extents
        raise ValueError(f"File too long. It holds {len(lines) - 1:,} values, not {n_most:,}")


class Header(NamedTuple):
    """Header of a Matrix Market file, as `scipy.io.mminfo` reads it."""

    n_rows: int
    n_cols: int
    n_entries: int
    layout: str
    field: str
    symmetry: str

    @property
    def n_stored(self) -> int:
        """Number of entries that the text must have."""
        if self.layout != "array":
            return self.n_entries
        if self.symmetry == "general":
            return self.n_rows * self.n_cols
        return self.n_rows * (self.n_rows + (-1 if self.symmetry == "skew-symmetric" else 1)) // 2

    def check(self, n_bytes: int) -> None:
        """Raise ValueError for an impossible shape, or for more entries than a file of `n_bytes` bytes can hold.

        SciPy's reader allocates memory for all entries of the header.
        """
        if self.symmetry != "general" and self.n_rows != self.n_cols:
            raise ValueError(f"a {self.symmetry} matrix is square, not {self.n_rows:,} x {self.n_cols:,}")
        if self.n_stored * MIN_ENTRY_BYTES.get(self.layout, 1) > n_bytes:
            raise ValueError(f"truncated file: its header says {self.n_stored:,} entries, but it has {n_bytes:,} bytes")


def _source_of(path: Path) -> tuple[Source, int]:
    """Return the source to read and its bytes; text gets a final line end, which SciPy's reader searches for."""
    if not path.name.lower().endswith(".mtx"):
        content = path.read_bytes()
        if not texts.is_compressed(content):
            raise ValueError("its name says that it is compressed, but its content is not")
        return _whole_lines(texts.normal(texts.expanded(content, stem=path.name.split(".")[0])))
    n_bytes, last = 0, b""
    with path.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            if not n_bytes and not texts.is_plain(block):
                return _whole_lines(texts.normal(path.read_bytes()))
            _refuse_zero_bytes(block)
            n_bytes, last = n_bytes + len(block), block[-1:]
    if last == b"\n" and str(path).isascii():
        return os.fspath(path), n_bytes
    return _whole_lines(path.read_bytes())


def _refuse_zero_bytes(text: bytes) -> None:
    """Raise ValueError for text with a zero byte, behind which SciPy's reader finds no end of a number."""
    if b"\0" in text:
        raise ValueError("it is not a text file (it contains a NUL byte)")


def _whole_lines(text: bytes) -> tuple[io.BytesIO, int]:
    """Return the text with a final line end; raise ValueError where it stops in the exponent of a number."""
    _refuse_zero_bytes(text)
    if text[-1:] in (b"e", b"E", b"d", b"D", b"+", b"-"):
        raise ValueError("Truncated file. It ends in the middle of a number")
    text = text if text.endswith(b"\n") else text + b"\n"
    return io.BytesIO(text), len(text)


def _from_start(source: Any) -> Any:  # Any: a path, or a stream
    if isinstance(source, io.BytesIO):
        source.seek(0)
    return source


def _read_npz(path: Path | io.BytesIO) -> Any:
    """Return the matrix of `scipy.sparse.save_npz`, or (data, indices, indptr, shape) from arrays of these names.

    Names may have a prefix, as graph libraries give them (``adj_data``, ``adj_matrix.data``).
    """
    refuse_inflated_members(path)
    with np.load(_from_start(path), allow_pickle=False) as file:
        if "format" in file:
            return _within_bounds(sps.load_npz(_from_start(path)))
        prefix = _prefix_of(file.files)
        shape = tuple(operator.index(extent) for extent in file[f"{prefix}shape"]) if f"{prefix}shape" in file else None
        return *(file[f"{prefix}{name}"] for name in _ARRAYS), shape


def _prefix_of(names: list[str]) -> str:
    """Return the prefix of "data", "indices" and "indptr"; of several, the adjacency's. Raises ValueError for none."""
    prefixes = [one.removesuffix("data") for one in names if one.endswith("data")]
    whole = [prefix for prefix in prefixes if all(f"{prefix}{name}" in names for name in _ARRAYS)]
    if "" in whole:
        return ""
    chosen = whole if len(whole) == 1 else [prefix for prefix in whole if prefix.startswith("adj")]
    if len(chosen) != 1:
        raise ValueError(f"it holds {names}, but not data, indices and indptr of one matrix")
    return chosen[0]


def refuse_inflated_members(path: Path | io.BytesIO) -> None:
    """Raise ValueError for headers of arrays that are larger than the file can hold; NumPy would allocate them."""
    size = len(path.getbuffer()) if isinstance(path, io.BytesIO) else path.stat().st_size
    most_bytes = MAX_INFLATED * (size + 1)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                n_bytes = _declared_bytes(member)
            if n_bytes > most_bytes:
                raise ValueError(f"the header of {name} says {n_bytes:,} bytes, more than the file can hold")


def _declared_bytes(member: Any) -> int:  # Any: a binary stream
    """Return the bytes of the array that a .npy stream declares; 0 where its header is of no known kind."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if member.read(6) != b"\x93NUMPY":
        return 0
    read = readers.get(tuple(member.read(2)))
    if read is None:
        return 0
    shape, _, dtype = read(member)
    n_bytes = int(dtype.itemsize)
    for extent in shape:
        n_bytes *= int(extent)
    return n_bytes


def _within_bounds(found: Any) -> Any:  # Any: a sparse object of SciPy's
    """Return `found`; raise ValueError when an index points outside of it, which SciPy's conversions would follow."""
    if found.format in ("csr", "csc", "bsr"):
        height, width = found.blocksize if found.format == "bsr" else (1, 1)
        n_rows, n_cols = found.shape if found.ndim == 2 else (1, *found.shape)
        extents = n_rows // height, n_cols // width
        check_structure(found.indptr, found.indices, extents[::-1] if found.format == "csc" else extents)
    if found.format == "dia" and found.offsets.size:
        n_rows, n_cols = found.shape
        if found.offsets.min() <= -max(n_rows, 1) or found.offsets.max() >= max(n_cols, 1):
            raise ValueError(f"offsets must lie between {1 - n_rows} and {n_cols - 1}")
    return found


def _read_tensor(path: Path) -> Any:
    return coordinates.parsed(texts.normal(texts.expanded(path.read_bytes())))


READERS: Final[Mapping[str, Callable[[Path], Any]]] = {
    ".mtx": _read_matrix_market,
    ".mtx.gz": _read_matrix_market,
    ".npz": _read_npz,
    **dict.fromkeys((".mtx.bz2", ".tar.gz", ".tgz", ".tar.bz2"), _read_matrix_market),
    **dict.fromkeys((".tns", ".tns.gz", ".tns.bz2"), _read_tensor),
}


def read(path: Path) -> Any:
    """Return the matrix in a file, as SciPy's readers give it; the suffix decides the format."""
    return _as_matrix(read_any(path), path)


def read_any(path: Path) -> Any:
    """Return the matrix in a file, or the `Entries` of a tensor."""
    reader = next((READERS[suffix] for suffix in READERS if path.name.lower().endswith(suffix)), None)
    if reader is None:
        raise InputFileError.unknown_suffix(path, known=READERS)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {str(path)!r}")
    try:
        return reader(path)
    except UNREADABLE as err:
        raise InputFileError.unreadable(path, reason=f"{err}" or type(err).__name__) from err


def read_open(stream: Any) -> Any:
    """Return the matrix in an open file; its first bytes decide the format."""
    return _as_matrix(read_any_open(stream), _name_of(stream))


def read_any_open(stream: Any) -> Any:
    """Return the matrix in an open file, or the `Entries` of a tensor."""
    name = _name_of(stream)
    try:
        content = texts.content_of(stream)
        if content.startswith(b"PK"):
            return _read_npz(io.BytesIO(content))
        text = texts.normal(texts.expanded(content, stem=Path(name).name.split(".")[0]))
        if not text.startswith(b"%") and name.lower().endswith((".tns", ".tns.gz", ".tns.bz2")):
            return coordinates.parsed(text)
        return _parse_matrix_market(*_whole_lines(text))
    except UNREADABLE as err:
        raise InputFileError.unreadable(name, reason=f"{err}" or type(err).__name__) from err


def _name_of(stream: Any) -> str:
    return str(getattr(stream, "name", "an open file"))


def _as_matrix(found: Any, source: Path | str) -> Any:
    if not isinstance(found, coordinates.Entries):
        return found
    if len(found.coords) != 2:
        reason = f"it holds a tensor of {len(found.coords)} modes, which `tensor` reads"
        raise InputFileError.unreadable(source, reason=reason)
    return sps.coo_array((found.values, tuple(found.coords)))
