"""Structure of compressed rows in torch tensors, identified by addresses; data derived from it are kept.

A sparse tensor returns new index tensors at every access, so a structure is identified by the addresses of its index
arrays. A known structure is valid while the storages live and the version counters are unchanged: the address of a
freed storage may be reused for another matrix. Values are never kept: every product reads them.
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autosparse import forking
from autosparse._native import runtime_api
from autosparse.config import get_options
from autosparse.errors import InputError, InputTypeError, ShapeError, StructureError
from autosparse.scalar import INDICES, SCALARS
from autosparse.scalar.tensors import INDEX_TYPES, VALUE_TYPES
from autosparse.torch import results, thresholds

ffi: Any = runtime_api.ffi  # Any: cffi objects carry no types
lib: Any = runtime_api.lib

INDEX_CODES: Final = {dtype: code for code, dtype in enumerate(INDEX_TYPES)}
"""Runtime codes of index dtypes."""
_STARTS: Final = tuple(SCALARS[name].pointer for name in INDICES)
CPU: Final = torch.device("cpu")
"""Device of all tensors made here; named explicitly because the user may have set another default device."""
VALUE_CODES: Final = {dtype: SCALARS[name].code for name, dtype in VALUE_TYPES.items()}
"""Runtime codes of value dtypes."""
MAX_STRUCTURES: Final = 64  # structures kept at a time; each is small until a transpose is built
SWEEP_FROM: Final = 8  # structures from which on adding one removes those of freed tensors


def pointer(tensor: torch.Tensor) -> Any:
    """Return a ``void *`` to the first element; the caller keeps `tensor` alive."""
    return ffi.cast("void *", tensor.data_ptr())


def version(tensor: torch.Tensor) -> int:
    """Return torch's version counter (number of writes), or 0 for tensors made in inference mode, which have none."""
    try:
        return tensor._version
    except RuntimeError:  # try is faster than asking first
        return 0


def is_gone(watched: StorageWeakRef) -> bool:
    """Return whether the storage of weak reference `watched` was freed; a faster `StorageWeakRef.expired`."""
    return bool(_expired(watched.cdata))


_expired: Final = torch.UntypedStorage._expired


class Placed:
    """Compressed rows in the form that kernels take: addresses, shape, nnz, and `index_code` (0: int32, 1: int64)."""

    __slots__ = ("col", "crow", "index_code", "n_cols", "n_rows", "nnz")

    n_rows: int
    n_cols: int
    nnz: int
    index_code: int
    crow: Any  # cffi void *
    col: Any


class Structure(Placed):
    """Compressed rows ``col[crow[i]:crow[i+1]]`` of an ``n_rows`` x ``n_cols`` matrix: crow (n_rows + 1,), col (nnz,).

    Holds addresses, not tensors: the caller keeps crow and col alive during each call.
    """

    __slots__ = (
        "_content", "_lock", "_print", "_turned", "_versions", "_watched", "checked_at", "inverse_lengths", "is_sound",
        "n_changes", "operands", "owner", "untransposed_s",
    )  # fmt: skip

    def __init__(self, crow: torch.Tensor, col: torch.Tensor, n_rows: int, n_cols: int) -> None:
        self.n_rows, self.n_cols, self.nnz = n_rows, n_cols, col.numel()
        self.index_code = INDEX_CODES[col.dtype]
        self.crow, self.col = pointer(crow), pointer(col)
        self.inverse_lengths: dict[torch.dtype, torch.Tensor] = {}
        self.operands: dict[tuple[torch.dtype, type], Any] = {}  # Any: operand.TorchOperand, which imports this module
        self.is_sound = False  # whether a kernel may follow the indices; set by `check`
        self.n_changes = 0  # number of changes of the arrays that `changed` found
        self.untransposed_s = 0.0  # time of transposed products while the transpose is not built
        results.keep_out(crow, col)
        self._watched = (StorageWeakRef(crow.untyped_storage()), StorageWeakRef(col.untyped_storage()))
        self._versions = (version(crow), version(col))
        self._turned: Transposed | None = None
        self._print: tuple[int, int] | None = None
        self._content: tuple[int, int] | None = None
        self.owner: weakref.ref[torch.Tensor] | None = None  # sparse tensor for which the arrays were checked last
        self.checked_at = 0  # version counter of the sparse tensor at the last check
        self._lock = forking.lock()

    def stands(self, crow: torch.Tensor, col: torch.Tensor) -> bool:
        """Return whether `crow` and `col`, at the addresses of this structure, are its arrays and unwritten since."""
        return self._versions == (version(crow), version(col)) and not self.dead

    @property
    def dead(self) -> bool:
        """Return whether the memory of an index array was freed."""
        a, b = self._watched
        return is_gone(a) or is_gone(b)

    def changed(self) -> bool:
        """Return whether index arrays were written since the last call, as far as samples of them show.

        This detects writes that torch does not count (NumPy, ``.data``). After a change the indices are checked again
        and derived data are dropped. Raises StructureError.
        """
        width = 8 if self.index_code else 4
        seen = (
            lib.asp_probe(self.crow, width * (self.n_rows + 1)),
            lib.asp_probe(self.col, width * self.nnz),
        )
        if seen == self._print:
            return False
        was_known = self._print is not None
        if was_known:
            self._turned, self.is_sound = None, False
            self.inverse_lengths.clear()
            self.n_changes += 1
        if not self.is_sound:
            self.check()
        self._print = seen
        return was_known

    def has_other_content(self) -> bool:
        """Return whether any index differs from those at the last call of this method, O(nnz)."""
        width = 8 if self.index_code else 4
        n_threads = torch.get_num_threads()
        seen = (
            lib.asp_look_low(self.crow, width * (self.n_rows + 1), n_threads),
            lib.asp_look_low(self.col, width * self.nnz, n_threads),
        )
        was, self._content = self._content, seen
        return was is not None and was != seen

    def check(self) -> None:
        """Check that a kernel may follow the indices, O(nnz). Raises StructureError where it may not."""
        self.is_sound = False
        code = lib.asp_csr_check(
            self.index_code, self.n_rows, self.n_cols, self.crow, self.col, self.nnz, torch.get_num_threads()
        )
        fault = runtime_api.STRUCTURE_FAULTS.get(code)
        if fault is None and self._end() != self.nnz:
            fault = f"indptr ends at {self._end()}"
        if fault is not None:
            raise StructureError.unsound(fault, shape=(self.n_rows, self.n_cols), n_stored=self.nnz)
        self.is_sound = True

    def _end(self) -> int:
        """Return the last row start, ``crow[n_rows]``."""
        starts = ffi.cast(_STARTS[self.index_code], self.crow)
        return int(starts[self.n_rows])

    def transposed(self) -> Transposed:
        """Return the rows of the transpose with the position of each value in the original; built once, O(nnz)."""
        with self._lock:
            self.changed()
            if self._turned is None:
                self._turned = Transposed(self)
            return self._turned

    def turned_when_it_pays(self) -> Transposed | None:
        """Return the transpose if it is built already or building it pays off, otherwise None.

        It pays off once the extra time of products without it equals the time to build it (ski rental), and if it
        fits into the option `extra_memory`.
        """
        if self._turned is None:
            options = get_options()
            price_s = self.nnz * Transposed.ns_per_entry * 1e-9
            if (
                self.untransposed_s * thresholds.TRANSPOSE_GAIN < price_s
                or Transposed.bytes_ratio(self) > options.extra_memory
            ):
                return None
        return self.transposed()


class Transposed(Placed):
    """CSR structure of the transpose: the value of its entry p is ``values[perm[p]]`` of the original."""

    __slots__ = ("operands", "perm", "tensors")

    ns_per_entry = thresholds.TRANSPOSE_NS_PER_ENTRY  # ns; updated by each measured construction

    def __init__(self, of: Structure) -> None:
        start_s = time.perf_counter()
        self.n_rows, self.n_cols, self.nnz = of.n_cols, of.n_rows, of.nnz
        narrow = max(of.n_rows, of.n_cols, of.nnz) < 2**31 - 1
        dtype = INDEX_TYPES[not narrow]
        self.index_code = INDEX_CODES[dtype]
        self.tensors = tuple(torch.empty(n, dtype=dtype, device=CPU) for n in (self.n_rows + 1, self.nnz, self.nnz))
        self.crow, self.col, self.perm = map(pointer, self.tensors)
        self.operands: dict[tuple[torch.dtype, type], Any] = {}
        arrays = [_at(of.crow, of.n_rows + 1, of.index_code), _at(of.col, of.nnz, of.index_code)]
        if narrow and of.index_code:
            arrays = [array.to(dtype) for array in arrays]
        runtime_api.raise_for(
            lib.asp_csr_transpose(
                4, self.index_code, of.n_rows, of.n_cols, pointer(arrays[0]), pointer(arrays[1]), ffi.NULL,
                self.crow, self.col, ffi.NULL, self.perm, torch.get_num_threads(),
            )
        )  # fmt: skip
        if of.nnz > 1 << 14:  # timings of small structures are noise
            Transposed.ns_per_entry = 1e9 * (time.perf_counter() - start_s) / of.nnz

    @staticmethod
    def bytes_ratio(of: Structure) -> float:
        """Return the bytes of the transpose of `of` over the bytes of `of` itself, both with float32 values."""
        width = 8 if of.index_code else 4
        return 4 * (3 * of.nnz + of.n_cols) / (of.nnz * (width + 4) + of.n_rows * width + 1)


def _at(address: Any, n: int, index_code: int) -> torch.Tensor:
    """Return a tensor of `n` indices at `address`, whose memory it does not own; int64 if `index_code` is 1."""
    dtype = INDEX_TYPES[index_code]
    if n == 0:
        return torch.empty(0, dtype=dtype, device=CPU)
    return torch.frombuffer(ffi.buffer(address, n * (8 if index_code else 4)), dtype=dtype)


def _is_index_array(array: Any) -> bool:  # Any: a file may hold any object
    if not isinstance(array, torch.Tensor):
        return False
    plain = array.dtype in INDEX_CODES and array.dim() == 1 and array.is_cpu and array.layout is torch.strided
    return plain and array.is_contiguous() and (array.data_ptr() != 0 or not array.numel())


def _described(array: Any) -> str:
    if not isinstance(array, torch.Tensor):
        return "which is not a tensor"
    return f"of shape {tuple(array.shape)} and {array.dtype} on {array.device}"


class IndexArrays:
    """Owner of index arrays and of their structure; the arrays are contiguous int32 or int64, of one dtype.

    The constructor checks that a kernel may follow the indices. Raises InputError, StructureError.
    """

    __slots__ = ("_structure", "col", "crow", "n_cols", "n_rows")

    def __init__(self, crow: torch.Tensor, col: torch.Tensor, n_rows: int, n_cols: int) -> None:
        self.crow, self.col, self.n_rows, self.n_cols = crow, col, n_rows, n_cols
        self._structure = self._look()
        self._structure.changed()  # detects arrays that were written since an earlier matrix was made of them

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexArrays, (self.crow, self.col, self.n_rows, self.n_cols)

    def _look(self) -> Structure:
        """Return the structure of these arrays, after checking dtypes and lengths, and indices if they are unchecked.

        Raises InputError, InputTypeError, StructureError.
        """
        crow, col = self.crow, self.col
        if not (_is_index_array(crow) and _is_index_array(col)) or crow.dtype is not col.dtype:
            raise InputError.refused(
                "index arrays must be vectors without gaps in this computer's memory, "
                f"both {' or both '.join(INDICES)}",
                given=f"a {type(crow).__name__} {_described(crow)} and a {type(col).__name__} {_described(col)}",
                hint="pass plain torch tensors on the CPU",
            )
        if not (isinstance(self.n_rows, int) and isinstance(self.n_cols, int) and 0 <= self.n_cols < 1 << 62):
            raise InputTypeError.refused(
                "rows and columns are counts", given=f"{self.n_rows!r:.50}, {self.n_cols!r:.50}", hint="pass integers"
            )
        if crow.shape[0] != self.n_rows + 1:
            raise StructureError.indptr_size(crow.shape[0], wanted=self.n_rows + 1)
        structure = structure_of(crow, col, self.n_rows, self.n_cols)
        if not structure.is_sound:
            structure.check()
        return structure

    def fit(self, values: torch.Tensor) -> torch.Tensor:
        """Return `values` unchanged if it has one number per stored entry. Raises ShapeError, InputTypeError."""
        if not isinstance(values, torch.Tensor):
            raise InputTypeError.refused(
                "the values of a Csr are a dense torch tensor",
                given=f"an object of type {type(values).__name__}",
                hint="pass torch.as_tensor(...)",
            )
        if values.shape != self.col.shape:
            n = self.col.shape[0]
            wanted = f"values of shape ({n},), one for each stored entry"
            raise ShapeError.unfit("Csr", wanted=wanted, A=(self.n_rows, self.n_cols), values=values.shape)
        return values

    @property
    def arrays(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Index arrays (crow, col)."""
        return self.crow, self.col

    @property
    def structure(self) -> Structure:
        """Structure of these arrays; it is replaced by a new one after the arrays were written."""
        if not self._structure.stands(self.crow, self.col):
            self._structure = self._look()
        return self._structure


_lock = forking.lock()
_structures: OrderedDict[tuple[int, int, int, int, int, torch.dtype], Structure] = OrderedDict()


def structure_of(crow: torch.Tensor, col: torch.Tensor, n_rows: int, n_cols: int) -> Structure:
    """Return the structure of these contiguous arrays: the registered one if they are unwritten, else a new one."""
    key = (crow.data_ptr(), col.data_ptr(), col.numel(), n_rows, n_cols, col.dtype)
    known = _structures.get(key)
    if known is not None and known.stands(crow, col):
        return known
    return _made(key, crow, col)


def _made(key: tuple[int, int, int, int, int, torch.dtype], crow: torch.Tensor, col: torch.Tensor) -> Structure:
    made = Structure(crow, col, key[3], key[4])
    with _lock:
        _structures[key] = made
        _structures.move_to_end(key)
        if len(_structures) > SWEEP_FROM:
            for old in [k for k, s in _structures.items() if s.dead]:
                del _structures[old]
        while len(_structures) > MAX_STRUCTURES:
            _structures.popitem(last=False)
    return made


def index_arrays(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return row starts and columns of a CSR or BSR tensor, or column starts and rows of a CSC or BSC tensor."""
    if A.layout in (torch.sparse_csr, torch.sparse_bsr):
        return A.crow_indices(), A.col_indices()
    return A.ccol_indices(), A.row_indices()


def checked(arrays: tuple[torch.Tensor, torch.Tensor], n_rows: int, n_cols: int, *, of: torch.Tensor) -> Structure:
    """Return the structure of the sparse tensor `of`, whose index arrays are `arrays`, with checked indices.

    Raises StructureError. Below autograd the index arrays have no version counter. The sparse tensor has one, which
    writes to values raise too. It does not count writes before the tensor was made: other tensors' arrays are hashed.
    """
    structure, owner, n_writes = structure_of(*arrays, n_rows, n_cols), weakref.ref(of), version(of)
    is_known = structure.owner is owner and structure.checked_at == n_writes  # an object has one weak reference
    if structure.is_sound and not is_known and structure.has_other_content():
        structure = renewed(structure, arrays)
    if not structure.is_sound:
        structure.check()
        structure.has_other_content()
    if structure.owner is owner or structure.owner is None or structure.owner() is None:
        structure.owner, structure.checked_at = owner, n_writes
    return structure


def renewed(structure: Structure, arrays: tuple[torch.Tensor, torch.Tensor]) -> Structure:
    """Return a new structure of `arrays`, without derived data, in place of `structure`, whose arrays were written."""
    crow, col = arrays
    key = (crow.data_ptr(), col.data_ptr(), col.numel(), structure.n_rows, structure.n_cols, col.dtype)
    return _made(key, crow, col)


forgotten_too: Final[list[Callable[[], None]]] = []
"""Functions that `forget_structures` calls as well, to clear other caches."""


def forget_structures() -> None:
    """Forget every structure. Call it after writing index arrays in a way that torch does not count (NumPy, ``.data``).

    A `Csr` made before keeps its own structure; make it anew.

    >>> A = torch.eye(2).to_sparse_csr()
    >>> A.col_indices().numpy()[:] = [1, 0]
    >>> asp.torch.forget_structures()
    >>> asp.torch.spmm(A, torch.tensor([1.0, 2.0]))
    tensor([2., 1.])
    """
    with _lock:
        _structures.clear()
    for forget in forgotten_too:
        forget()
