"""Partial reads of the arrays in a .npz file: row starts by `csr_head`, ranges of entries by `entries`.

An uncompressed array is read at the range's position. A compressed array can only be decompressed from a position where
the decompressor's state is known. While a process decompresses an array, it keeps such states at equal distances, and a
later range starts at the nearest state before it. A process that reads many ranges, in any order, decompresses the
file about once.
"""

from __future__ import annotations

import bisect
import struct
import threading
import zipfile
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from autosparse.arrays.files import refuse_inflated_members
from autosparse.core.dtypes import Byte
from autosparse.errors import StructureError
from autosparse.operands.native_rows import check_starts

LOCAL_HEADER_BYTES: Final = 30
"""Bytes of a zip member's local header before its name and extra field."""
FED_BYTES: Final = 1 << 14
"""Bytes of compressed text that are decompressed in one step."""
N_STATES: Final = 256
"""Maximum number of states kept for one array; each takes about 40 kB."""
MIN_DISTANCE: Final = 1 << 20
"""Minimum bytes of decompressed data between two kept states."""


@dataclass(frozen=True, slots=True)
class CsrHead:
    """Properties of a csr matrix in a file that are read before its entries."""

    indptr: Any  # Any: ndarray (m + 1,) of row starts
    n_cols: int
    indices: np.dtype[Any]
    data: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Member:
    """Location of one array in a file: the member's own bytes begin at byte `start` of the file."""

    path: Path
    name: str
    start: int
    n_header: int
    size: int
    dtype: np.dtype[Any]

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the bytes of entries [first, last) in the uncompressed member. Raises ValueError beyond its end."""
        if last > self.size:
            raise ValueError(f"{self.name} has {self.size:,} entries, indptr says {last:,}")
        return self.n_header + first * self.dtype.itemsize, self.n_header + last * self.dtype.itemsize

    def ends_early(self, n_bytes: int) -> ValueError:
        """Return the ValueError to raise for a member that ends after `n_bytes` bytes."""
        return ValueError(f"{self.name} ends after {n_bytes:,} bytes, but its header says {self.size:,} entries")


@dataclass(frozen=True, slots=True)
class Plain:
    """Uncompressed array."""

    member: Member

    def read(self, first: int, last: int) -> Any:
        """Return the array's entries [first, last) in new memory. Raises ValueError where the file ends earlier."""
        start, stop = self.member.span(first, last)
        with self.member.path.open("rb") as file:
            file.seek(self.member.start + start)
            found = np.fromfile(file, self.member.dtype, last - first)
        if found.nbytes < stop - start:
            raise self.member.ends_early(start + found.nbytes)
        return found


@dataclass(frozen=True, slots=True)
class State:
    """State of a decompressor that has consumed `n_read` compressed bytes and returned `n_given` decompressed ones."""

    n_given: int
    n_read: int
    inflater: Any  # Any: zlib's object


@dataclass(frozen=True, slots=True)
class Deflated:
    """Compressed array, and the states from which it can be decompressed further."""

    member: Member
    states: list[State] = field(default_factory=lambda: [State(0, 0, zlib.decompressobj(-zlib.MAX_WBITS))])
    lock: Any = field(default_factory=threading.Lock)

    @property
    def distance(self) -> int:
        """Bytes of decompressed data from one state to the next."""
        return max(MIN_DISTANCE, self.member.size * self.member.dtype.itemsize // N_STATES)

    def read(self, first: int, last: int) -> Any:
        """Read the entries [first, last)."""
        start, stop = self.member.span(first, last)
        found = np.empty(last - first, self.member.dtype)
        into = found.view(Byte)
        with self.lock:
            at = bisect.bisect_right(self.states, start, key=lambda one: one.n_given) - 1
            state = self.states[at]
            given, inflater = state.n_given, state.inflater.copy()
        with self.member.path.open("rb") as file:
            file.seek(self.member.start + state.n_read)
            while given < stop:
                if inflater.eof or not (text := file.read(FED_BYTES)):
                    raise self.member.ends_early(given)
                bytes_ = np.frombuffer(inflater.decompress(text), Byte)
                kept = bytes_[max(0, start - given) : stop - given]
                at = max(0, given - start)
                into[at : at + kept.size] = kept
                given += bytes_.size
                self._keep(State(given, file.tell() - self.member.start, inflater))
        return found

    def _keep(self, state: State) -> None:
        """Keep a copy of `state` if it is at least `distance` decompressed bytes behind the last kept one."""
        with self.lock:
            if state.n_given - self.states[-1].n_given >= self.distance and not state.inflater.eof:
                self.states.append(State(state.n_given, state.n_read, state.inflater.copy()))


def entries(path: Path, name: str, first: int, last: int) -> Any:
    """Read the entries [first, last) of the array `name` of a .npz file into new memory.

    Raises ValueError where the array has fewer, zipfile.BadZipFile or zlib.error for a broken file.
    """
    state = path.stat()
    return _opened(path, name, (state.st_mtime_ns, state.st_size)).read(first, last)


@lru_cache(maxsize=8)
def _opened(path: Path, name: str, state_of_file: tuple[int, int]) -> Plain | Deflated:
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        info = archive.getinfo(f"{name}.npy")
        if info.compress_type not in _KINDS:
            method = info.compress_type
            raise ValueError(f"{name}: zip compression method {method} is not supported (stored or deflate only)")
        with archive.open(info) as stream:
            size, dtype = _npy_header(stream)
            n_header = stream.tell()
        file.seek(info.header_offset)
        n_name, n_extra = struct.unpack("<26xHH", file.read(LOCAL_HEADER_BYTES))
    start = info.header_offset + LOCAL_HEADER_BYTES + n_name + n_extra
    made: Plain | Deflated = _KINDS[info.compress_type](Member(path, name, start, n_header, size, dtype))
    return made


_KINDS: Final[dict[int, type[Plain] | type[Deflated]]] = {zipfile.ZIP_STORED: Plain, zipfile.ZIP_DEFLATED: Deflated}
"""Readers by zip's code of the compression method."""


def _npy_header(member: Any) -> tuple[int, np.dtype[Any]]:
    """Read the header of a .npy file; return (number of entries, dtype) of its one-dimensional array."""
    version = np.lib.format.read_magic(member)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = reader(member)
    if len(shape) != 1 or dtype.hasobject:
        raise ValueError(f"expected a one-dimensional numeric array, not one of shape {shape} and dtype {dtype}")
    return shape[0], dtype


def csr_head(path: Path) -> CsrHead:
    """Read the row starts, checked, and the dtypes of a csr matrix that ``save_npz`` wrote.

    Raises ValueError for a file of another kind, for row starts that do not rise from 0, and for arrays shorter than
    the row starts say; KeyError for a missing array.
    """
    refuse_inflated_members(path)
    with np.load(path, allow_pickle=False) as file:
        form = file["format"].item() if "format" in file else b"csr"
        if (form.decode() if isinstance(form, bytes) else form) != "csr":
            raise ValueError(f"it holds a matrix of format {form!r}, and only csr is supported")
        indptr, shape = file["indptr"], file["shape"]
    if shape.size != 2 or shape.dtype.kind not in "iu" or shape.min() < 0:
        raise ValueError(f"shape {shape.tolist()} is not that of a matrix")
    if indptr.ndim != 1 or indptr.dtype.kind not in "iu":
        raise ValueError(f"indptr has {indptr.ndim} dimensions and dtype {indptr.dtype}, not one of integers")
    found = {}
    with zipfile.ZipFile(path) as archive:
        for name in ("indices", "data"):
            with archive.open(f"{name}.npy") as member:
                found[name] = _npy_header(member)
    if found["indices"][1].kind not in "iu":
        raise ValueError(f"indices are of dtype {found['indices'][1]}, not integers")
    check_starts(indptr, int(shape[0]))
    sizes = {name: size for name, (size, _) in found.items()}
    if indptr[-1] > min(sizes.values()):
        raise StructureError.too_short(int(indptr[-1]), n_indices=sizes["indices"], n_data=sizes["data"])
    return CsrHead(indptr, int(shape[1]), found["indices"][1], found["data"][1])
