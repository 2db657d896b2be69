"""Structure: compressed rows that live in torch tensors, known by their addresses; what is derived from them is kept.

A sparse tensor hands out new objects for its indices at every look, so a structure is recognised by the addresses of
its index arrays. An entry is believed while their storages live and their version counters stand still (a storage that
died may have given its address to another matrix). Values are never kept: they are read at every product.
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autosparse import forking
from autosparse._native import runtime_api
from autosparse.config import get_options
from autosparse.errors import InputError, InputTypeError, ShapeError, StructureError
from autosparse.torch import results, thresholds

ffi: Any = runtime_api.ffi  # Any: cffi objects carry no types
lib: Any = runtime_api.lib

INDEX_CODES: Final = {torch.int32: 0, torch.int64: 1}
CPU: Final = torch.device("cpu")
"""Named wherever a tensor is made: somebody may have set another default device."""
VALUE_CODES: Final = {torch.float32: 0, torch.float64: 1, torch.complex64: 2, torch.complex128: 3}
MAX_STRUCTURES: Final = 64  # remembered at a time; each costs little until a transpose is built
SWEEP_FROM: Final = 8  # structures from which dead ones are looked for when another is added


def pointer(tensor: torch.Tensor) -> Any:
    """``void *`` to the first element; the caller keeps `tensor` alive."""
    return ffi.cast("void *", tensor.data_ptr())


def version(tensor: torch.Tensor) -> int:
    """Torch's count of writes; tensors made in inference mode are not counted."""
    try:
        return tensor._version
    except RuntimeError:  # asking first takes longer than reading
        return 0


def is_gone(watched: StorageWeakRef) -> bool:
    """Whether its memory was given back: `StorageWeakRef.expired`, without the detour that takes ten times as long."""
    return bool(_expired(watched.cdata))


_expired: Final = torch.UntypedStorage._expired


class Placed:
    """Where compressed rows lie, as kernels are told: addresses, shape, entries, and 0 or 1 for int32 or int64."""

    __slots__ = ("col", "crow", "index_code", "n_cols", "n_rows", "nnz")

    n_rows: int
    n_cols: int
    nnz: int
    index_code: int
    crow: Any  # cffi void *
    col: Any


class Structure(Placed):
    """Rows ``col[crow[i]:crow[i+1]]`` of an ``n_rows`` x ``n_cols`` matrix: crow (n_rows + 1,), col (nnz,).

    Holds addresses, not tensors: whoever calls keeps crow and col alive for the length of the call.
    """

    __slots__ = (
        "_content", "_lock", "_print", "_turned", "_versions", "_watched", "checked_at", "operands", "inverse_lengths",
        "is_sound", "n_changes", "untransposed_s",
    )  # fmt: skip

    def __init__(self, crow: torch.Tensor, col: torch.Tensor, n_rows: int, n_cols: int) -> None:
        self.n_rows, self.n_cols, self.nnz = n_rows, n_cols, col.numel()
        self.index_code = INDEX_CODES[col.dtype]
        self.crow, self.col = pointer(crow), pointer(col)
        self.inverse_lengths: dict[torch.dtype, torch.Tensor] = {}
        self.operands: dict[tuple[torch.dtype, type], Any] = {}  # Any: operand.TorchOperand, which knows this class
        self.is_sound = False  # whether a kernel may follow the indices: looked at once, by `check`
        self.n_changes = 0  # of the arrays, found by `changed`
        self.untransposed_s = 0.0  # spent in products with the transpose while it is not built
        results.keep_out(crow, col)
        self._watched = (StorageWeakRef(crow.untyped_storage()), StorageWeakRef(col.untyped_storage()))
        self._versions = (version(crow), version(col))
        self._turned: Transposed | None = None
        self._print: tuple[int, int] | None = None
        self._content: tuple[int, int] | None = None
        self.checked_at = 0  # the count of writes to the sparse tensor whose arrays these are
        self._lock = forking.lock()

    def stands(self, crow: torch.Tensor, col: torch.Tensor) -> bool:
        """Whether `crow` and `col`, found at the same addresses, are still the arrays that we saw."""
        return self._versions == (version(crow), version(col)) and not self.dead

    @property
    def dead(self) -> bool:
        """Whether the memory of an index array was given back."""
        a, b = self._watched
        return is_gone(a) or is_gone(b)

    def changed(self) -> bool:
        """Whether index arrays were replaced behind torch's back (NumPy, ``.data``) since the last look.

        Looks at samples. After a change the indices are checked again and what was derived from them is forgotten.
        Raises StructureError.
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
        """Return whether any index differs from what the last call of this method has seen, O(nnz)."""
        width = 8 if self.index_code else 4
        n_threads = torch.get_num_threads()
        seen = (
            lib.asp_look_low(self.crow, width * (self.n_rows + 1), n_threads),
            lib.asp_look_low(self.col, width * self.nnz, n_threads),
        )
        was, self._content = self._content, seen
        return was is not None and was != seen

    def check(self) -> None:
        """Make sure that a kernel may follow the indices, O(nnz). Raises StructureError when it may not."""
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
        """Where the last row ends."""
        starts = ffi.cast("int64_t *" if self.index_code else "int32_t *", self.crow)
        return int(starts[self.n_rows])

    def transposed(self) -> Transposed:
        """Rows of the transpose with the place of each value in ours; built once, O(nnz)."""
        with self._lock:
            self.changed()
            if self._turned is None:
                self._turned = Transposed(self)
            return self._turned

    def turned_when_it_pays(self) -> Transposed | None:
        """The transpose, once products without it have cost as much more as building it does (ski rental)."""
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
    """CSR structure of the transpose: entry p of it has its value at ``values[perm[p]]`` of the original."""

    __slots__ = ("operands", "perm", "tensors")

    ns_per_entry = thresholds.TRANSPOSE_NS_PER_ENTRY  # as measured last

    def __init__(self, of: Structure) -> None:
        start_s = time.perf_counter()
        self.n_rows, self.n_cols, self.nnz = of.n_cols, of.n_rows, of.nnz
        narrow = max(of.n_rows, of.n_cols, of.nnz) < 2**31 - 1
        dtype = torch.int32 if narrow else torch.int64
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
        if of.nnz > 1 << 14:  # small ones tell about the machine's mood
            Transposed.ns_per_entry = 1e9 * (time.perf_counter() - start_s) / of.nnz

    @staticmethod
    def bytes_ratio(of: Structure) -> float:
        """Bytes of a transpose of `of` with float32 values in its order, relative to those of the matrix itself."""
        width = 8 if of.index_code else 4
        return 4 * (3 * of.nnz + of.n_cols) / (of.nnz * (width + 4) + of.n_rows * width + 1)


def _at(address: Any, n: int, index_code: int) -> torch.Tensor:
    """Tensor over `n` indices at `address`, which it does not own."""
    dtype = torch.int64 if index_code else torch.int32
    if n == 0:
        return torch.empty(0, dtype=dtype, device=CPU)
    return torch.frombuffer(ffi.buffer(address, n * (8 if index_code else 4)), dtype=dtype)


def _is_index_array(array: Any) -> bool:  # Any: a file may hold anything
    if not isinstance(array, torch.Tensor):
        return False
    plain = array.dtype in INDEX_CODES and array.dim() == 1 and array.is_cpu and array.layout is torch.strided
    return plain and array.is_contiguous() and (array.data_ptr() != 0 or not array.numel())


def _described(array: Any) -> str:
    if not isinstance(array, torch.Tensor):
        return "that is no tensor"
    return f"of shape {tuple(array.shape)} and {array.dtype} on {array.device}"


class IndexArrays:
    """Index arrays kept alive together with what is known about them; contiguous int32 or int64, of one dtype.

    Made only of arrays that a kernel may follow: raises InputError, StructureError.
    """

    __slots__ = ("_structure", "col", "crow", "n_cols", "n_rows")

    def __init__(self, crow: torch.Tensor, col: torch.Tensor, n_rows: int, n_cols: int) -> None:
        self.crow, self.col, self.n_rows, self.n_cols = crow, col, n_rows, n_cols
        self._structure = self._look()
        self._structure.changed()  # where a matrix is made again of arrays that were written in between

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexArrays, (self.crow, self.col, self.n_rows, self.n_cols)

    def _look(self) -> Structure:
        """The structure of the arrays as they are now; lengths are looked at anew, indices if nobody has before."""
        crow, col = self.crow, self.col
        if not (_is_index_array(crow) and _is_index_array(col)) or crow.dtype is not col.dtype:
            raise InputError.refused(
                "index arrays must be vectors without gaps in this computer's memory, both int32 or both int64",
                given=f"a {type(crow).__name__} {_described(crow)} and a {type(col).__name__} {_described(col)}",
                cure="plain torch tensors on the CPU",
            )
        if not (isinstance(self.n_rows, int) and isinstance(self.n_cols, int) and 0 <= self.n_cols < 1 << 62):
            raise InputTypeError.refused(
                "rows and columns are whole numbers", given=f"{self.n_rows!r:.50}, {self.n_cols!r:.50}", cure="n, m"
            )
        if crow.shape[0] != self.n_rows + 1:
            raise StructureError.indptr_size(crow.shape[0], wanted=self.n_rows + 1)
        structure = structure_of(crow, col, self.n_rows, self.n_cols)
        if not structure.is_sound:
            structure.check()
        return structure

    def fit(self, values: torch.Tensor) -> torch.Tensor:
        """`values`, a tensor of one number for each stored entry. Raises ShapeError, InputTypeError."""
        if not isinstance(values, torch.Tensor):
            raise InputTypeError.refused(
                "the values of a Csr are a dense torch tensor",
                given=f"an object of type {type(values).__name__}",
                cure="torch.as_tensor(...)",
            )
        if values.shape != self.col.shape:
            n = self.col.shape[0]
            wanted = f"values of shape ({n},), one for each stored entry"
            raise ShapeError.unfit("Csr", wanted=wanted, A=(self.n_rows, self.n_cols), values=values.shape)
        return values

    @property
    def arrays(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(crow, col)."""
        return self.crow, self.col

    @property
    def structure(self) -> Structure:
        """The structure of these arrays, a new one after they were written."""
        if not self._structure.stands(self.crow, self.col):
            self._structure = self._look()
        return self._structure

    def inverse_lengths(self, dtype: torch.dtype) -> torch.Tensor:
        """1 / (entries of row i), 1 for an empty row: (n_rows, 1)."""
        kept = self.structure.inverse_lengths
        if dtype not in kept:
            kept[dtype] = self.crow.diff().clamp_(min=1).to(dtype).reciprocal_().unsqueeze(1)
        return kept[dtype]


_lock = forking.lock()
_structures: OrderedDict[tuple[int, int, int, int, int, torch.dtype], Structure] = OrderedDict()


def structure_of(crow: torch.Tensor, col: torch.Tensor, n_rows: int, n_cols: int) -> Structure:
    """The structure at these arrays, from the registry when it was seen before. Arrays must be contiguous."""
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
    """Row starts and columns of a CSR tensor, or column starts and rows of a CSC tensor."""
    if A.layout is torch.sparse_csr:
        return A.crow_indices(), A.col_indices()
    return A.ccol_indices(), A.row_indices()


def checked(arrays: tuple[torch.Tensor, torch.Tensor], n_rows: int, n_cols: int, *, of: torch.Tensor) -> Structure:
    """The structure of a sparse tensor with these arrays, whose indices a kernel may follow. Raises StructureError.

    Below autograd the arrays have no count of writes; the sparse tensor has one, to its values too.
    """
    structure, n_writes = structure_of(*arrays, n_rows, n_cols), version(of)
    if structure.is_sound and structure.checked_at != n_writes and structure.has_other_content():
        structure = renewed(structure, arrays)
    if not structure.is_sound:
        structure.check()
        structure.has_other_content()
    structure.checked_at = n_writes
    return structure


def renewed(structure: Structure, arrays: tuple[torch.Tensor, torch.Tensor]) -> Structure:
    """A new structure in the place of one whose arrays were written; nothing that was derived is taken over."""
    crow, col = arrays
    key = (crow.data_ptr(), col.data_ptr(), col.numel(), structure.n_rows, structure.n_cols, col.dtype)
    return _made(key, crow, col)


forgotten_too: Final[list[Callable[[], None]]] = []
"""What else `forget_structures` calls."""


def forget_structures() -> None:
    """Forget every structure: after index arrays were written in a way that torch does not count (NumPy, ``.data``).

    A `Csr` made before keeps its own; make it anew.

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
