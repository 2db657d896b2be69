"""Python interface of the C runtime: C (+)= A B and C (+)= A^T B for CSR operands, hashes, structure checks.

`lib` and `ffi` are the compiled extension, or None when it was not built (`available` is then False, and nothing else
here may be called). The hot path calls `lib.asp_csr_mm` directly. For a pointer to a contiguous array,
``ffi.from_buffer(array)`` takes 0.1 us (and holds a reference), as does ``ffi.cast("void *", address)`` of an address
that `address_of` returned. `pointer` does both steps for any strides in 0.3 us. The functions below validate their
arguments.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import config, scalar
from autosparse.core.dtypes import Hash, WideIndex
from autosparse.isa import isas_of
from autosparse.notices import FallbackWarning, warn_once


def _load() -> tuple[Any, Any, str]:
    try:
        extension = importlib.import_module("autosparse._native._runtime")
    except ModuleNotFoundError:
        return None, None, f"the C runtime was not built when autosparse was installed: {_why_not_built()}"
    except ImportError as err:
        return None, None, f"the C runtime cannot be loaded: {err}"
    return extension.lib, extension.ffi, ""


def _why_not_built() -> str:
    """Return the note that setup.py left when its compiler or linker failed."""
    try:
        reason = Path(__file__).with_name("_runtime_fault.txt").read_text(encoding="utf-8").strip()
    except OSError:
        reason = ""
    return reason or "the build recorded no reason; `pip install -v` shows the compiler's output"


lib: Any  # cffi objects have no types
ffi: Any
fault: str  # why there is no runtime; "" if there is one
lib, ffi, fault = _load()

available: Final = lib is not None

DTYPE_CODES: Final = scalar.VALUE_CODES
INDEX_CODES: Final = scalar.INDEX_CODES
_HASHES: Final = f"{scalar.HASH.c}[2]"
# creating a dtype's name takes 0.5 µs
CODE_OF_INDEX: Final = {np.dtype(name): code for name, code in INDEX_CODES.items()}

FLAG_ACCUMULATE: Final = 1  # C += A B
FLAG_DETERMINISTIC: Final = 2  # one summation order for any number of threads

ISA_LEVELS: Final = {row.name: row.level for row in isas_of()}
"""Numbers that the runtime uses for the instruction sets of this processor family."""


def is_there() -> bool:
    """Return `available`; if False, warn once per process with the reason, the consequence and the remedy."""
    if not available:
        from autosparse._native.reinstalling import hint  # not needed where the runtime is available

        warn_once(FallbackWarning, "runtime", FallbackWarning.no_runtime(fault, hint=hint()))
    return available


extension: Any
extension_fault: str  # why there is no extension module; "" if there is one
_package: Final[Any] = importlib.import_module("autosparse._native")  # by name: it lists modules that import this one
extension, extension_fault = _package.connected_extension(lib, ffi)
"""The extension module `_extension` (see `_extension.pyi`), or None where it was not built or does not fit."""


def _address_by_interface(array: NDArray[Any]) -> int:
    """Return an array's address by NumPy's own protocol (0.5 us)."""
    address: int = array.__array_interface__["data"][0]
    return address


address_of: Final[Callable[[NDArray[Any]], int]] = _address_by_interface if extension is None else extension.address_of
"""Return the address of an array's first element (0.03 us by the extension module)."""


def pointer(array: NDArray[Any]) -> Any:
    """Return a ``void *`` to the first element; the caller keeps `array` alive."""
    return ffi.cast("void *", address_of(array))


def max_threads() -> int:
    """Return the number of threads that OpenMP would use (OMP_NUM_THREADS, threadpoolctl, allowed CPUs), at least 1."""
    threads: int = lib.asp_max_threads()
    return max(threads, 1)


def gathers() -> bool:
    """Return whether gather instructions are faster here than one load per element (measured once per process)."""
    return not available or bool(lib.asp_gathers())


def dev_sources() -> tuple[str, ...]:
    """Return the names of the sources that `make dev` compiled with less optimisation than the others."""
    names: bytes = ffi.string(lib.asp_dev_sources()) if hasattr(lib, "asp_dev_sources") else b""
    return tuple(names.decode().split())


def path() -> str:
    """Return the path of autosparse's compiled extension `_runtime`, the C runtime, which must be `available`."""
    return str(sys.modules["autosparse._native._runtime"].__file__)


def best_isa() -> str:
    """Return the highest instruction set of this CPU for which the runtime, which must be `available`, has kernels."""
    level = lib.asp_best_isa()
    return next(row.name for row in isas_of() if row.level == level)


_held_isa: str | None = None
_held_wait = "auto"
WAITS: Final = ("auto", "active", "passive")
"""Values of the setting `wait`, in the order of the codes of `asp_pool_wait`."""


def hold(isa: str | None, wait: str) -> None:
    """Set the runtime's process-wide state: the instruction set, and how the pool's threads wait.

    `isa` is the highest instruction set of the precompiled kernels; None, or a set of another processor family, means
    that of the CPU. `wait` is the setting
    of that name. Concurrent products of other threads stay correct.
    """
    global _held_isa, _held_wait
    if isa != _held_isa:
        _held_isa = isa
        lib.asp_force_isa(ISA_LEVELS.get(isa, -1) if isa else -1)
    if wait != _held_wait:
        _held_wait = wait
        lib.asp_pool_wait(WAITS.index(wait))


@config.on_change
def _hold(options: config.Options) -> None:
    if available:
        hold(options.isa, options.wait)


def _leading(array: NDArray[Any]) -> int:
    """Return the number of elements from one row to the next (for a vector: from one element to the next)."""
    if array.size == 0:
        return 1
    if array.ndim == 2 and array.shape[1] > 1 and array.strides[1] != array.itemsize:
        raise ValueError("columns of a dense operand must be adjacent; pass np.ascontiguousarray(B)")
    step, rest = divmod(array.strides[0], array.itemsize)
    if rest:
        raise ValueError("strides must be whole elements")
    return step


def matmul(
    csr: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    shape: tuple[int, int],
    B: NDArray[Any],
    out: NDArray[Any],
    *,
    transposed: bool = False,
    threads: int = 1,
    flags: int = 0,
) -> NDArray[Any]:
    """Compute out (+)= A B, or A^T B if `transposed`; `csr` is (indptr, indices, data) of A (`shape`), B and out are
    1-D or 2-D.

    All values must have the same dtype of `DTYPE_CODES`, all indices the same one of `INDEX_CODES`. Raises ValueError
    for shapes, dtypes or strides that do not fit, and MemoryError for lack of work space.
    """
    indptr, indices, data = csr
    inner, outer = (shape[0], shape[1]) if transposed else (shape[1], shape[0])
    n_vecs = 1 if B.ndim == 1 else B.shape[1]
    if B.shape[0] != inner or out.shape != (outer, *B.shape[1:]) or indptr.shape != (shape[0] + 1,):
        raise ValueError(f"A {shape}, B {B.shape} and out {out.shape} do not fit")
    if not data.dtype == B.dtype == out.dtype or indptr.dtype != indices.dtype or not out.flags.writeable:
        raise ValueError(f"dtypes differ or out is read-only: A {data.dtype}, B {B.dtype}, out {out.dtype}")
    if not (indptr.flags.c_contiguous and indices.flags.c_contiguous and data.flags.c_contiguous):
        raise ValueError("indptr, indices and data must be contiguous")
    product = lib.asp_csr_t_mm if transposed else lib.asp_csr_mm
    status = product(
        DTYPE_CODES[data.dtype.name], INDEX_CODES[indices.dtype.name], *shape, pointer(indptr), pointer(indices),
        pointer(data), pointer(B), _leading(B), pointer(out), _leading(out), n_vecs, threads, flags,
    )  # fmt: skip
    raise_for(status)
    return out


def has_identical_rows(indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
    """Return whether sampled consecutive rows have identical columns; products with several columns run faster on such
    rows.
    """
    code, n_rows = INDEX_CODES[indices.dtype.name], indptr.size - 1
    return bool(lib.asp_has_identical_rows(code, n_rows, pointer(indptr), pointer(indices)))


def rows_agree(
    rows: tuple[NDArray[Any], NDArray[Any]], found: NDArray[Any], wanted: NDArray[Any], largest: float
) -> bool:
    """Return whether the runtime accepts `found`, in a tenth of the time in which NumPy explains a difference.

    `rows`: indptr and data. `largest` bounds the absolute values of the dense operand.
    """
    indptr, data = rows
    codes = DTYPE_CODES[data.dtype.name], INDEX_CODES[indptr.dtype.name]
    arrays = (pointer(one) for one in (indptr, data, found, wanted))
    return wanted.size > 0 and bool(lib.asp_rows_agree(*codes, *wanted.shape, *arrays, largest))


def hash128(array: NDArray[Any]) -> int:
    """Return XXH3 (128 bits) of the bytes of a contiguous array."""
    low_high = ffi.new(_HASHES)
    lib.asp_xxh3_128(pointer(array), array.nbytes, low_high)
    return int(low_high[1]) << 64 | int(low_high[0])


def chunk_hashes(array: NDArray[Any]) -> NDArray[Hash]:
    """Return a 64-bit hash of each chunk (ASP_LOOK_CHUNK bytes) of a contiguous array; large arrays use all threads."""
    hashes = np.empty(-(-array.nbytes // lib.ASP_LOOK_CHUNK), Hash)
    lib.asp_look(pointer(array), array.nbytes, lib.ASP_LOOK_CHUNK, pointer(hashes), max_threads())
    return hashes


def structure_hashes(indptr: NDArray[Any], indices: NDArray[Any]) -> tuple[int, int]:
    """Return `hash128` of the row starts and of the stored indices."""
    return hash128(np.ascontiguousarray(indptr)), hash128(np.ascontiguousarray(indices))


def sparsity_hash(
    shape: tuple[int, int], indptr: NDArray[Any], indices: NDArray[Any], known: tuple[int, int] | None = None
) -> str:
    """Return 128 bits, as 32 hex digits, of a CSR structure: shape, index width, indptr and stored indices.

    `known` holds the structure's `structure_hashes` if they have been computed already.
    """
    nnz = int(indptr[-1])
    head = np.array([*shape, nnz, indptr.itemsize, indices.itemsize], dtype=WideIndex)
    return _joint_hash([hash128(head), *(known or structure_hashes(indptr, indices[:nnz]))])


def tensor_hash(shape: tuple[int, ...], coords: NDArray[Any]) -> str:
    """Return 128 bits, as 32 hex digits, of a tensor's coordinates (ndim, nnz): shape, index width and coordinates."""
    head = np.array([len(shape), *shape, coords.shape[1], coords.itemsize], dtype=WideIndex)
    return _joint_hash([hash128(np.ascontiguousarray(array)) for array in (head, *coords)])


def _joint_hash(parts: list[int]) -> str:
    words = np.array([part >> shift & (1 << 64) - 1 for part in parts for shift in (0, 64)], dtype=Hash)
    return f"{hash128(words):032x}"


STRUCTURE_FAULTS: Final = {
    1: "indptr does not begin with 0",
    2: "indptr decreases",
    3: "indptr ends beyond the stored indices",
    4: "an index lies outside the columns",
}


def check_structure(
    shape: tuple[int, int], indptr: NDArray[Any], indices: NDArray[Any], *, threads: int = 1
) -> str | None:
    """Return the fault of a CSR structure (see STRUCTURE_FAULTS), or None if kernels may use it without further
    checks.
    """
    if indptr.shape != (shape[0] + 1,):
        return f"indptr has length {indptr.size}, not {shape[0] + 1}"
    code = lib.asp_csr_check(
        CODE_OF_INDEX[indptr.dtype], *shape, pointer(indptr), pointer(indices), indices.size, threads
    )
    return STRUCTURE_FAULTS.get(code)


def transpose(
    csr: tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None],
    shape: tuple[int, int],
    *,
    with_permutation: bool = False,
    threads: int = 1,
    room: Callable[[tuple[int], np.dtype[Any]], NDArray[Any]] = np.empty,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]:
    """Return (indptr, indices, data, perm) of A^T in CSR, with rows of A in order and ``data_t == data[perm]``.

    `csr` is (indptr, indices, data or None) of A; perm is None unless `with_permutation`; `room` allocates
    uninitialised arrays. Raises MemoryError.
    """
    indptr, indices, data = csr
    nnz = int(indptr[-1])
    t_indptr, t_indices = room((shape[1] + 1,), indptr.dtype), room((nnz,), indices.dtype)
    t_data = None if data is None else room((nnz,), data.dtype)
    perm = room((nnz,), indices.dtype) if with_permutation else None
    pointers = [
        ffi.NULL if a is None else pointer(a) for a in (indptr, indices, data, t_indptr, t_indices, t_data, perm)
    ]
    item_bytes = 4 if data is None else data.itemsize
    raise_for(lib.asp_csr_transpose(item_bytes, INDEX_CODES[indptr.dtype.name], *shape, *pointers, threads))
    return t_indptr, t_indices, t_data, perm


def gather(source: NDArray[Any], perm: NDArray[Any], out: NDArray[Any], *, threads: int = 1) -> NDArray[Any]:
    """Compute out[k] = source[perm[k]], which updates the values of a permuted copy, and return `out`."""
    if out.dtype != source.dtype or out.shape != perm.shape:
        raise ValueError(f"source {source.dtype}, perm {perm.shape} and out {out.dtype} {out.shape} do not fit")
    code = INDEX_CODES[perm.dtype.name]
    raise_for(lib.asp_gather(source.itemsize, code, pointer(perm), pointer(source), pointer(out), perm.size, threads))
    return out


def add_at(values: NDArray[Any], numbers: NDArray[Any] | None, positions: NDArray[Any], out: NDArray[Any]) -> None:
    """Compute out[positions[q]] += values[numbers[q]] in order of q; with `numbers` None, values[q] is added."""
    numbered, itype = (ffi.NULL, 0) if numbers is None else (pointer(numbers), INDEX_CODES[numbers.dtype.name])
    code = DTYPE_CODES[values.dtype.name]
    lib.asp_add_at(code, itype, positions.size, pointer(values), numbered, pointer(positions), pointer(out))


REFUSALS: Final = {1: "unsupported type or parameter", 3: "invalid size"}
"""Meaning of the runtime's status codes ASP_BAD_CODE and ASP_BAD_SIZE."""


def raise_for(status: int) -> None:
    """Raise the exception for the status code that a function of the runtime returned, unless it is 0."""
    if status == 2:
        raise MemoryError("not enough memory for the work space of a product")
    if status:
        reason = REFUSALS.get(status, "unknown reason")
        raise ValueError(f"the runtime refused its operands: {reason} (status {status})")
