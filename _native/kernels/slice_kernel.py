"""Kernels on slices and blocks, made without formats, schedules and specs: the first race of a process, and a
remembered plan, cost as little as the products of a short program allow.
"""

from __future__ import annotations

import ctypes
import shutil
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from autosparse._native import memory, runtime_api
from autosparse._native.kernels.slice_names import Blocks, Slices, window_of
from numpy.typing import NDArray

from autosparse import config
from autosparse.core.dtypes import HalfBits, NarrowIndex, WideIndex
from autosparse.isa import ISAS, Isa

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Array = NDArray[Any]  # indices of any supported dtype, or values

COLUMNS: Final = {16: HalfBits, 32: NarrowIndex}
"""Types of the columns in slices, by `Slices.bits`."""
ENCODED_CHUNK: Final = 32
"""Slices of one task of a kernel for dictionary-encoded values, whose tasks are taken in turn (`HIGH_SLICES`)."""
_MAX_THREADS: Final = 1 << 30


def may_serve(compiler: str | None) -> bool:
    """Return whether shipped kernels may be used: not if the user edits sources or names an existing compiler."""
    return config.get_options().dump_dir is None and (compiler is None or not _exists(compiler))


def _exists(compiler: str) -> bool:
    if compiler.replace("-", "").isalnum() and compiler != "numba" and shutil.which(compiler) is None:
        return False  # the compiler driver takes 1.4 ms to load
    from autosparse._native.c import build as c_build  # products that name no compiler load it never

    return compiler == "numba" or c_build.compiler_id(compiler) != "none"


def isa_of(name: str | None) -> Isa:
    """Return the instruction set that kernels use under the option `isa`."""
    host, wanted = ISAS[runtime_api.best_isa()], ISAS[name or runtime_api.best_isa()]
    is_lower = wanted.level < host.level and (not wanted.machines or bool(wanted.machines & host.machines))
    return wanted if is_lower else host


def address_of(slices: Slices | Blocks, dtype: str, index_dtype: str, isa: str) -> int:
    """Return the address of the shipped kernel; 0 if there is none."""
    name = slices.name(dtype, index_dtype, isa, gathers=runtime_api.gathers())
    return int(runtime_api.lib.asp_shipped_kernel(name.encode()))


def loaded(path: Path) -> int:
    """Return the address of the kernel in a shared object, which is never unloaded. Raises OSError."""
    try:
        return ctypes.cast(ctypes.CDLL(str(path)).asp_kernel, ctypes.c_void_p).value or 0
    except AttributeError as err:
        raise OSError(f"a compiled kernel cannot be loaded: {err}") from err


class PackedSlices:
    """Rows of a matrix in slices: the arrays of a `PackedOperand`, before its format is needed."""

    __slots__ = ("crd", "pos", "shape", "slices", "values")

    def __init__(self, slices: Slices, shape: tuple[int, int], pos: Mapping[str, Array], crd: dict[str, Array]) -> None:
        self.slices, self.shape, self.pos, self.crd = slices, shape, pos, crd
        self.values: Array = crd["what"]  # replaced by `fill`

    @classmethod
    def laid_out(cls, shape: tuple[int, int], indptr: Array, indices: Array, slices: Slices) -> PackedSlices:
        """Return slices without columns and values. Raises MemoryError."""
        n_slices = -(-shape[0] // slices.rows)
        pos = {"k1": np.empty(n_slices + 1, indptr.dtype), "begin": np.empty(n_slices + 1, WideIndex)}
        crd = {"what": np.empty(n_slices, WideIndex)}
        if slices.sigma > 1:
            crd |= {"first": np.empty(n_slices, NarrowIndex), "rows": np.empty(n_slices * slices.rows, NarrowIndex)}
        made = cls(slices, shape, pos, crd)
        head, threads = _head(shape, indptr, indices), _threads()
        n_listed = runtime_api.lib.asp_slices_lay_out(
            *head, slices.rows, slices.sigma, slices.has_diagonals, slices.bits, *made._layout(), threads
        )
        _check(n_listed)
        if slices.sigma > 1:
            crd["rows"] = crd["rows"][: n_listed * slices.rows].copy()
        return made

    @property
    def n_slots(self) -> int:
        """Number of slots of all slices; a slot has a cell for each row of its slice."""
        return int(self.pos["k1"][-1])

    def filled_bytes(self, dtype: np.dtype[Any]) -> int:
        """Return the bytes that the slices take once they are filled."""
        cells = self.n_slots * self.slices.rows
        n_bytes = cells * dtype.itemsize
        if self.slices.is_encoded:
            from autosparse._native.storage.dictionary import TABLE  # few matrices have such values

            n_bytes = cells + TABLE * dtype.itemsize
        layout = (*self.pos.values(), *(self.crd[name] for name in ("what", "first", "rows") if name in self.crd))
        sides = sum(array.nbytes for array in layout)
        return sides + n_bytes + int(self.pos["begin"][-1]) * self.slices.bits // 8

    def fill(self, indptr: Array, indices: Array, values: Array) -> bool:
        """Write columns and values; return False if a table does not hold the different values and sums."""
        code, is_encoded = runtime_api.DTYPE_CODES[values.dtype.name], self.slices.is_encoded
        if is_encoded:  # values are numbered before they are packed: their numbers take less memory
            from autosparse._native.storage.dictionary import ENCODED, numbered

            # in memory that the comparison with the default kernel reuses for a vector (`tuning.memory.slice_trial`)
            found = numbered(values[: int(indptr[-1])], max(self.shape) * values.itemsize)
            if found is None:
                return False
            (values, self.crd["table"]), code = found, ENCODED
        columns = memory.empty_scratch((int(self.pos["begin"][-1]),), np.dtype(COLUMNS[self.slices.bits]))
        self.crd["k1"], self.values = columns, memory.empty_scratch((self.n_slots * self.slices.rows,), values.dtype)
        _check(runtime_api.lib.asp_slices_fill(
            *(code, *_head(self.shape, indptr, indices), runtime_api.pointer(values)),
            *(self.slices.rows, self.slices.bits, *self._layout(), False),
            *(runtime_api.pointer(columns), runtime_api.pointer(self.values), _threads()),
        ))  # fmt: skip
        # A cell that repeated entries share has the sum of their numbers, and there are fewer such cells than entries.
        return not is_encoded or int(np.count_nonzero(values)) == int(np.count_nonzero(self.values))

    @property
    def nbytes(self) -> int:
        """Bytes taken in addition to the user's arrays."""
        return sum(array.nbytes for array in (*self.pos.values(), *self.crd.values(), self.values))

    def _layout(self) -> list[Any]:  # C pointers: first, rows, pos, begin, what
        found = (self.crd.get("first"), self.crd.get("rows"), *self.pos.values(), self.crd["what"])
        return [runtime_api.ffi.NULL if array is None else runtime_api.pointer(array) for array in found]


class PackedBlocks:
    """Rows of a matrix in blocks, as `PackedSlices`."""

    __slots__ = ("crd", "pos", "shape", "slices", "values")

    def __init__(self, blocks: Blocks, shape: tuple[int, int], pos: Array) -> None:
        self.slices, self.shape, self.pos = blocks, shape, {"k1": pos}
        self.crd = {"k1": memory.empty_scratch((int(pos[-1]),), np.dtype(COLUMNS[blocks.bits]))}
        self.values: Array = pos  # replaced by `fill`

    @classmethod
    def laid_out(cls, shape: tuple[int, int], indptr: Array, indices: Array, blocks: Blocks) -> PackedBlocks:
        """Return blocks without columns and values. Raises MemoryError."""
        pos = memory.empty_scratch((-(-shape[0] // blocks.rows) + 1,), indptr.dtype)
        head, threads = _head(shape, indptr, indices), _threads()
        _check(int(runtime_api.lib.asp_count_blocks(*head, blocks.rows, 1, runtime_api.pointer(pos), threads)))
        return cls(blocks, shape, pos)

    @property
    def n_slots(self) -> int:
        """Number of blocks, each of which reads a row of the dense operand."""
        return self.crd["k1"].size

    def filled_bytes(self, dtype: np.dtype[Any]) -> int:
        """Return the bytes that the blocks take once they are filled."""
        return self.pos["k1"].nbytes + self.crd["k1"].nbytes + self.n_slots * self.slices.rows * dtype.itemsize

    def fill(self, indptr: Array, indices: Array, values: Array) -> bool:
        """Write columns and values; return True."""
        lib, pointer, rows, bits = runtime_api.lib, runtime_api.pointer, self.slices.rows, self.slices.bits
        head, arrays = _head(self.shape, indptr, indices), (pointer(self.pos["k1"]), pointer(self.crd["k1"]))
        _check(lib.asp_list_blocks(*head, rows, 1, bits, *arrays, _threads()))
        self.values = memory.empty_scratch((self.n_slots * rows,), values.dtype)
        dtype, steps = runtime_api.DTYPE_CODES[values.dtype.name], (rows, 1, 0)  # size of a block, steps in i0 and k0
        _check(lib.asp_fill_blocks(
            dtype, *head, pointer(values), rows, 1, *steps, bits, *arrays, pointer(self.values), _threads(),
        ))  # fmt: skip
        return True

    @property
    def nbytes(self) -> int:
        """Bytes taken in addition to the user's arrays."""
        return self.filled_bytes(self.values.dtype)


def laid_out(
    shape: tuple[int, int], indptr: Array, indices: Array, slices: Slices | Blocks
) -> PackedSlices | PackedBlocks:
    """Return slices or blocks without columns and values. Raises MemoryError."""
    if isinstance(slices, Blocks):
        return PackedBlocks.laid_out(shape, indptr, indices, slices)
    return PackedSlices.laid_out(shape, indptr, indices, slices)


class SliceKernel:
    """Kernel for slices or blocks, by its address, with the arguments of its schedule at run time."""

    __slots__ = ("address", "chunk", "max_threads")

    def __init__(self, address: int, *, chunk: int = 0, max_threads: int = 0) -> None:
        self.address = address
        self.chunk = chunk  # slices of a task, if tasks are taken in turn; 0: equal shares of the threads
        self.max_threads = max_threads or _MAX_THREADS  # 0: as many as the caller allows

    @classmethod
    def shipped(cls, slices: Slices | Blocks, address: int) -> SliceKernel:
        """Return the kernel at `address_of` these slices."""
        return cls(address, chunk=ENCODED_CHUNK if slices.is_encoded else 0)


class BoundSlices:
    """Kernel with the slices or blocks that it reads; it has the interface of `kernel.BoundKernel`."""

    __slots__ = ("__weakref__", "_address", "_chunk", "_max_threads", "_operand", "_value_bytes", "packed")
    has_fast_call: ClassVar[bool] = True  # by `enter`

    def __init__(self, kernel: SliceKernel, packed: PackedSlices | PackedBlocks, value_bytes: int) -> None:
        pointer, lib, slices = runtime_api.pointer, runtime_api.lib, packed.slices
        self.packed, self._address, self._value_bytes = packed, kernel.address, value_bytes
        self._chunk, self._max_threads = kernel.chunk, kernel.max_threads
        if isinstance(slices, Slices) and not slices.has_diagonals and slices.sigma > 1:
            from autosparse._native.ir.rough_times import mixes_sorted_rows

            if mixes_sorted_rows(slices.sigma, n_rows=packed.shape[0], n_cells=packed.values.size):
                self._max_threads = 1
        struct = self._operand = runtime_api.ffi.new("asp_operand *")
        struct.size[0], struct.size[1] = packed.shape
        n_outer = packed.pos["k1"].size - 1  # slices, or rows of blocks
        for depth, count in enumerate((n_outer, packed.n_slots, packed.n_slots * slices.rows)):
            struct.n_positions[depth] = count
        struct.pos[1] = pointer(packed.pos["k1"])
        for depth, name in ((1, "k1"), (3, "what"), (4, "first"), (5, "rows"), (6, "table")):  # `slice_layout.SIDES`
            if name in packed.crd:
                struct.crd[depth] = pointer(packed.crd[name])
        if "begin" in packed.pos:
            struct.pos[3] = pointer(packed.pos["begin"])
        struct.vals, struct.window = pointer(packed.values), window_of(getattr(slices, "sigma", 1), packed.crd)
        struct.parallel = lib.asp_parallel_address()
        struct.take, struct.give = lib.asp_output_take_address(), lib.asp_output_give_address()

    def run(self, *product: int) -> bool:
        """Compute a product; arguments and result are those of `kernel.BoundKernel.run`."""
        *operands, n_threads = product
        status = runtime_api.lib.asp_run_kernel(
            *(self._address, self._operand, *operands, min(n_threads, self._max_threads)),
            *(self._chunk, self._value_bytes, self.packed.n_slots),
        )
        return not status

    def enter(self, state: Any) -> None:  # Any: a FastCall
        """Write the arguments of `run` into a fast call (`dispatch.fast_path`)."""
        state.kernel = self._address
        state.kernel_operand = int(runtime_api.ffi.cast("uintptr_t", self._operand))
        state.chunk, state.most_threads = self._chunk, self._max_threads
        state.value_bytes, state.n_reads = self._value_bytes, self.packed.n_slots


def _head(shape: tuple[int, int], indptr: Array, indices: Array) -> tuple[Any, ...]:
    pointer = runtime_api.pointer
    return runtime_api.INDEX_CODES[indptr.dtype.name], *shape, pointer(indptr), pointer(indices)


def _threads() -> int:
    return config.get_options().threads or runtime_api.max_threads()


def _check(code: int) -> None:
    if code < 0:
        raise MemoryError("no memory to pack a sparse operand")
