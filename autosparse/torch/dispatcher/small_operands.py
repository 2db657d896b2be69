"""C builtins for small products, for which reading the tensors' attributes in Python takes too long.

They compute products of few multiplications, and the first larger products of structures without preparations.

PyTorch's own product of 8 × 8 matrices takes 4 µs, as long as a dozen attributes of tensors read in Python. The
builtin (`runtime/python/tensor_python.h`) reads the tensors in PyTorch's memory, by functions of PyTorch's stable
C interface. That interface has no members of sparse tensors. Their offsets, and other facts that the interface lacks,
are found at import on probe tensors; possibly unreadable memory is read through `/proc/self/mem`. Where anything is not
found as expected there is no builtin, and small products take the path of larger ones.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch

from autosparse._native import runtime_api
from autosparse.torch import native, results, thresholds
from autosparse.torch.dispatcher.known import KnownIndices
from autosparse.torch.structure import forgotten_too

Few: TypeAlias = Callable[[object, object, object, object, object, object], torch.Tensor | KnownIndices | None]
"""Type of a builtin: (A, B, base, beta, alpha, out) → alpha · A B + beta · base, or None where it does not apply.

Where base and out are None, the result may be a `KnownIndices` whose `multiply` calls the executor.
"""

_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
"""Bytes of a machine word."""
_FARTHEST: Final = 512
"""Number of bytes of a TensorImpl that are searched for a member."""
_ASKED: Final = ("get_layout", "get_dtype", "get_device_type", "get_dim", "get_sizes", "get_strides", "get_data_ptr")
"""Functions of PyTorch's C interface that the builtin calls, without the prefix ``aoti_torch_``."""


class _LayoutError(Exception):
    """Error for a PyTorch version that stores its tensors in an unexpected layout."""


def _words(memory: int, start: int, n: int) -> list[int]:
    """Return `n` machine words read from address `start` of the file `memory`; fewer where readable memory ends."""
    try:
        read = os.pread(memory, n * _WORD, start)
    except (OSError, OverflowError):
        return []
    return [int.from_bytes(read[at : at + _WORD], sys.byteorder) for at in range(0, len(read) - _WORD + 1, _WORD)]


def _halves(memory: int, start: int) -> list[int]:
    """Return the six 32-bit numbers in the three machine words at address `start` of the file `memory`."""
    return [half for word in _words(memory, start, 3) for half in (word & 0xFFFFFFFF, word >> 32)]


def _how() -> int:
    """Return the thread count and flags of kernels, packed into one integer for the builtin."""
    return native.threads() + 1024 * native.flags()


def _only(places: set[int]) -> int:
    if len(places) != 1:
        raise _LayoutError
    return places.pop() * _WORD


def _compressed() -> Iterator[tuple[torch.Tensor, list[torch.Tensor]]]:
    for index, value in ((torch.int32, torch.float32), (torch.int64, torch.float64)):
        crow, col = torch.tensor([0, 1, 3], dtype=index), torch.tensor([2, 0, 1], dtype=index)
        A = torch.sparse_csr_tensor(crow, col, torch.ones(3, dtype=value), (2, 3), check_invariants=False)
        yield A, [A.crow_indices(), A.col_indices(), A.values()]
        A = torch.sparse_csc_tensor(crow, col, torch.ones(3, dtype=value), (3, 2), check_invariants=False)
        yield A, [A.ccol_indices(), A.row_indices(), A.values()]


def _coordinates() -> Iterator[tuple[torch.Tensor, list[torch.Tensor]]]:
    for value in (torch.float32, torch.float64):
        at = torch.tensor([[0, 1, 1], [2, 0, 1]])
        A = torch.sparse_coo_tensor(at, torch.ones(3, dtype=value), (2, 3), check_invariants=False)
        yield A, [A._indices(), A._values()]


class _Search:
    """Search for the memory layout of PyTorch's tensors; the result is kept as an `asp_tensors` struct in `state`."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._dense = torch.ones(3)
        core = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        ffi = runtime_api.ffi
        self.state = state = ffi.new("asp_tensors *")
        for name in _ASKED:
            function = ctypes.cast(getattr(core, f"aoti_torch_{name}"), ctypes.c_void_p).value
            setattr(state, name, ffi.cast(ffi.typeof(getattr(state, name)), function))
        types = (torch.Tensor, torch.nn.Parameter)
        named = tuple({"dtype": dtype} for dtype in (torch.float32, torch.float64))
        dtypes = (torch.float32, torch.float64)
        self.kept = (*types, *named, *dtypes, torch.empty, _how, results.empty, KnownIndices, core)
        state.types, state.named = ([ffi.cast("void *", id(one)) for one in some] for some in (types, named))
        state.dtypes = [ffi.cast("void *", id(one)) for one in dtypes]
        objects: dict[str, object] = {"empty": torch.empty, "how": _how, "room": results.empty, "watch": KnownIndices}
        for name, kept in objects.items():
            setattr(state, name, ffi.cast("void *", id(kept)))
        state.most, state.roomy = thresholds.BUILTIN_PRODUCT, thresholds.POOLED_BYTES
        state.direct, state.n_direct = thresholds.DIRECT_PRODUCT, thresholds.UNPREPARED_PRODUCTS
        state.checked, state.remembered = thresholds.ENTRIES_CHECKED, thresholds.REMEMBERED_PRODUCTS
        self._object()
        self._keys()
        self._storages()
        self._codes()
        state.compressed_at = self._members(_compressed())
        state.coordinates_at = self._members(_coordinates())

    def _object(self) -> None:
        """Find the offset of the tensor's address in a Python object."""
        n = torch.Tensor.__basicsize__ // _WORD
        places = set(range(object.__basicsize__ // _WORD, n))
        for probe in (self._dense, torch.ones(2, 2), torch.nn.Parameter(torch.ones(1))):
            found = _words(self._memory, id(probe), n)
            places &= {at for at, word in enumerate(found) if word == probe._cdata}
        self.state.tensor_at = _only(places)

    def _impl(self, tensor: torch.Tensor) -> list[int]:
        return _words(self._memory, tensor._cdata, _FARTHEST // _WORD)

    def _keys(self) -> None:
        """Find the offset of the dispatch keys in a TensorImpl, and those of lazy conjugates, negatives, zeros."""
        plain = self._dense
        refused = (torch._neg_view(plain), torch.ones(3, dtype=torch.complex64).conj(), torch._efficientzerotensor(3))
        places = set(range(1, _FARTHEST // _WORD))
        for probe in (plain, *refused):
            keys = torch._C._dispatch_keys(probe).raw_repr()
            places &= {at for at, word in enumerate(self._impl(probe)) if word == keys}
        self.state.keys_at = _only(places)
        of_plain = torch._C._dispatch_keys(plain).raw_repr()
        bits = [torch._C._dispatch_keys(probe).raw_repr() & ~of_plain for probe in refused]
        if not all(bits):
            raise _LayoutError
        self.state.refused = bits[0] | bits[1] | bits[2]

    def _storages(self) -> None:
        """Find the offsets of the storage and of the version counter in a TensorImpl."""
        places, counters = set(range(1, _FARTHEST // _WORD)), set[tuple[int, int]]()
        for n_writes in (67, 131):
            probe = torch.ones(3)
            for _ in range(n_writes):
                probe.add_(1)
            words = self._impl(probe)
            places &= {at for at, word in enumerate(words) if word == probe.untyped_storage()._cdata}
            found = {
                (at, _WORD + 4 * half)
                for at, word in enumerate(words)
                for half, number in enumerate(_halves(self._memory, word + _WORD))
                if number == probe._version
            }
            counters = counters & found if counters else found
        self.state.storage_at = _only(places)
        if len(counters) != 1:
            raise _LayoutError
        at, self.state.version_in = counters.pop()
        self.state.version_at = at * _WORD

    def _code(self, name: str, tensor: torch.Tensor) -> int:
        code = runtime_api.ffi.new("int32_t *")
        handle = runtime_api.ffi.cast("void *", id(tensor) + self.state.tensor_at)
        if getattr(self.state, name)(handle, code):
            raise _LayoutError
        return int(code[0])

    def _codes(self) -> None:
        state, eye = self.state, torch.eye(2)
        state.strided, state.cpu = self._code("get_layout", eye), self._code("get_device_type", eye)
        state.csr, state.csc = (self._code("get_layout", A) for A in (eye.to_sparse_csr(), eye.to_sparse_csc()))
        state.coo = self._code("get_layout", eye.to_sparse())
        for name in ("float32", "float64", "int32", "int64"):
            setattr(state, name, self._code("get_dtype", torch.ones(1, dtype=getattr(torch, name))))

    def _members(self, probes: Iterator[tuple[torch.Tensor, list[torch.Tensor]]]) -> int:
        """Return the word offset in a sparse TensorImpl at which the first of consecutive tensor members is stored.

        `probes`: sparse tensors with the members expected there.
        """
        ffi, kind = runtime_api.ffi, self._impl(self._dense)[0]  # a dense tensor's class: its virtual table
        places = set(range(1, _FARTHEST // _WORD))
        for A, members in probes:
            words, fitting = self._impl(A), set[int]()
            for at in sorted(places):
                parts = words[at : at + len(members)]
                if len(parts) < len(members) or any(_words(self._memory, part, 1) != [kind] for part in parts):
                    continue
                data = ffi.new("void **")
                lie = [
                    not self.state.get_data_ptr(ffi.cast("void *", A._cdata + (at + i) * _WORD), data)
                    and int(ffi.cast("uintptr_t", data[0])) == member.data_ptr()
                    for i, member in enumerate(members)
                ]
                if all(lie):
                    fitting.add(at)
            places &= fitting
        return _only(places)


def _find() -> tuple[Few, Few]:
    """Return the builtins for small products with matrices B and with vectors B; `none` twice if unavailable."""
    if not runtime_api.available or not hasattr(runtime_api.lib, "asp_tensor_maker") or sys.platform != "linux":
        return none, none
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return none, none
    memory = -1
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
        # PyTorch warns at the first use of each layout (beta); the user may have set another default device
        with warnings.catch_warnings(), torch.device("cpu"):
            warnings.simplefilter("ignore")
            found = _Search(memory)
            made = _made(found, 2), _made(found, 1)
            return made if _answers_as_expected(*made) else (none, none)
    except (_LayoutError, AttributeError, OSError, RuntimeError, TypeError, ValueError):
        return none, none
    finally:
        if memory >= 0:
            os.close(memory)


def _made(found: _Search, n_dims: int) -> Few:
    ffi = runtime_api.ffi
    state = ffi.new("asp_tensors *", found.state[0])
    state.n_dims = n_dims
    signature = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
    make = signature(int(runtime_api.lib.asp_tensor_maker()))
    _states.append(state)
    builtin: Few = make(int(ffi.cast("uintptr_t", state)), (state, *found.kept))
    return builtin


_states: Final[list[Any]] = []  # cffi's asp_tensors


def _forget() -> None:
    """Mark every structure that the builtins know as unchecked."""
    for state in _states:
        for sound in state.sound:
            sound.nnz = -1


forgotten_too.append(_forget)


def _answers_as_expected(matrix: Few, vector: Few) -> bool:
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0], [0.0, 4.0]])
    base, x = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0])
    B = torch.stack([base, base + 3])
    for A in (dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse()):
        for product, right in ((matrix, B), (vector, x)):
            want = 2 * (dense @ right) + 0.5 * base
            out = torch.zeros_like(want)
            answer = product(A, right, base, 0.5, 2, None)
            if not isinstance(answer, torch.Tensor) or not torch.equal(answer, want):
                return False
            if product(A, right, base, 0.5, 2, out) is not out or not torch.equal(out, want):
                return False
    return True


def none(*_: object) -> None:
    """Return None for any arguments: takes the builtin's place where it is not available."""


matrix, vector = _find()
"""Builtins of type `Few` for B (k, m) and for B (k,)."""
