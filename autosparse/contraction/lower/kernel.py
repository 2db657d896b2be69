"""Compile programs, once per source through the kernel cache, and run them on several threads."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from autosparse import config, forking
from autosparse._native import runtime_api
from autosparse._native.c.build import FLAGS, ISA_FLAGS, Compilations, Compiler
from autosparse._native.kernels import dumping
from autosparse._native.memory import empty_output
from autosparse.cache.stores import open_store
from autosparse.contraction.expressions.semirings import SEMIRINGS
from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.lower.emit import emit, sums_dtype
from autosparse.contraction.lower.levels import levels, pointers, transposed
from autosparse.contraction.lower.ordered_entries import EntryLevels
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import FEW_ROWS, MAX_EMPTY_ROWS, Dense, Operand, Sparse, distinct
from autosparse.core.dtypes import WideIndex
from autosparse.core.target import Target
from autosparse.errors import BuildError
from autosparse.ops import EINSUM
from autosparse.scalar import DOUBLE, HASH, WIDE_INDEX

_SIZE, _WORD, _SECONDS = WIDE_INDEX.ctypes, HASH.ctypes, DOUBLE.ctypes
MIN_ENTRIES_PER_PART: Final = 4096
"""Minimum work per part of the outer loop: entries of the largest sparse operand, or tasks / 8."""
PARTS_PER_THREAD: Final = 8
"""Maximum number of parts per thread if the outer index is in the output. More parts balance the load better."""
PARTS_OF_SUMS: Final = 32
"""Maximum number of parts if the outer index is summed. It is the same for any thread count, so that sums are too."""
MAX_PRIVATE_OUTPUTS: Final = 1 << 22
"""Maximum number of elements of the parts' private dense outputs, summed over all parts."""
NS_PER_TASK: Final = 2.0
"""Approximate nanoseconds per innermost loop iteration, from which the runtime chooses the number of threads."""

_loaded: Final[dict[str, Any]] = {}
_mutex: Final = forking.lock()


@dataclass(frozen=True, eq=False, slots=True)
class CompiledProgram:
    """Compiled plan, with the dtypes of its indices and values."""

    plan: EinsumPlan
    library: Any  # ctypes.CDLL
    index: np.dtype[Any]
    value: np.dtype[Any]


def compiled(plan: EinsumPlan, operands: dict[str, Operand], extents: dict[str, int]) -> CompiledProgram:
    """Compile `plan` for the operands' value type, with 32-bit indices if sizes permit; raise BuildError on failure."""
    one = next(iter(operands.values()))
    value = one.dtype if isinstance(one, Sparse) else one.array.dtype
    entries = [operand.nnz for operand in operands.values() if isinstance(operand, Sparse)]
    bits = 64 if max([1, *extents.values(), *entries]) >= 2**31 - 1024 else 32  # positions advance by blocks
    library = load(emit(plan, dtype=value.name, index_bits=bits))
    return CompiledProgram(plan, library, np.dtype(f"i{bits // 8}"), value)


def execute(
    program: CompiledProgram, operands: Mapping[str, Operand], extents: dict[str, int], *, tasks: float = 0.0
) -> Sparse | AnyArray:
    """Run the program: return an ndarray for a dense output, else entries sorted by the output's indices.

    `tasks` is the estimated number of loop iterations, or 0 if unknown. A small number keeps the run on one thread.
    """
    inputs = Inputs.of(program.plan, operands, program.index)
    return Run(program, inputs, extents, tasks).run(inputs.arrays)


def load(source: str) -> Any:
    """Return the compiled library of `source`, cached in this process and on disk; raise BuildError on failure."""
    options = config.get_options()
    compiler = Compiler.find(options.compiler)
    isa = Target.host().held_to(options.isa).isa
    facts = [EINSUM.name, source, compiler.identity, " ".join((*FLAGS, *ISA_FLAGS[isa]))]
    key = hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()
    library = _loaded.get(key)
    if library is None:
        dumping.write({f"{key}.c": source}, key)
        folder = open_store().artefact(key, _fill(source, compiler, isa))
        try:
            library = ctypes.CDLL(str(folder / "kernel.so"))
            if runtime_api.available:
                library.asp_memory(*_memory())
        except OSError as err:
            raise BuildError(f"a compiled kernel cannot be loaded: {err}", key=key) from err
        with _mutex:
            library = _loaded.setdefault(key, library)
    return library


def _fill(source: str, compiler: Compiler, isa: str) -> Callable[[Path], None]:
    def into(folder: Path) -> None:
        path = folder / "kernel.c"
        path.write_text(source, encoding="utf-8")
        Compilations().compile(compiler, isa, path, folder / "kernel.so")

    return into


@dataclass(frozen=True, eq=False, slots=True)
class Inputs:
    """Kernel arguments in order of declaration (None: a level without coordinates), and trees by tensor name."""

    arrays: list[AnyArray | None]
    trees: dict[str, EntryLevels]

    @property
    def entries(self) -> int:
        """Number of entries of the largest tree."""
        return max((tree.values.size for tree in self.trees.values()), default=0)

    @classmethod
    def of(
        cls, plan: EinsumPlan, operands: Mapping[str, Operand], index: np.dtype[Any], *, keep: bool = False
    ) -> Inputs:
        """Convert operands to trees in the plan's orders, with indices of the dtype `index`.

        With `keep`, tensors keep their trees for later calls.
        """
        arrays: list[AnyArray | None] = []
        trees: dict[str, EntryLevels] = {}
        for name in plan.sparse:
            operand = operands[name]
            assert isinstance(operand, Sparse)
            is_dense = name in plan.dense_levels
            tree = levels(operand, plan.orders[name], is_dense=is_dense, dtype=index, keep=keep)
            trees[name] = tree
            arrays += arrays_of(tree, index)
        for access in plan.dense:
            operand = operands[access.tensor]
            assert isinstance(operand, Dense)
            arrays.append(operand.array)
        return cls(arrays, trees)


def arrays_of(tree: EntryLevels, dtype: np.dtype[Any]) -> list[AnyArray | None]:
    """Return the arguments of a tree: positions and coordinates of each level, then values."""
    found: list[AnyArray | None] = []
    if tree.crd:
        first = tree.crd[0]
        root = np.array([0, 0 if first is None else first.size], dtype=dtype)
        for pos, crd in zip((root, *tree.pos), tree.crd, strict=True):
            found += [pos, crd]
    return [*found, tree.values]


class Run:
    """Division of the outermost loop into parts, with their outputs, to run a program on operands of known patterns."""

    __slots__ = ("_edges", "_n_modes", "_n_parts", "_n_threads", "_program", "_serial_ns", "_shape", "_sizes")

    def __init__(self, program: CompiledProgram, inputs: Inputs, extents: dict[str, int], tasks: float) -> None:
        plan = program.plan
        self._program = program
        self._n_modes = max(1, len(plan.output.indices))
        self._shape = tuple(extents[index] for index in plan.output.indices)
        self._n_threads = _threads()
        self._serial_ns = NS_PER_TASK * max(tasks, float(inputs.entries))
        self._sizes = (_SIZE * max(1, len(plan.indices)))(*(extents[index] for index in plan.indices))
        edges = self._cut(inputs, extents, tasks)
        self._n_parts = len(edges) - 1
        self._edges = (_SIZE * len(edges))(*edges)

    def run(self, arrays: Sequence[AnyArray | None]) -> Sparse | AnyArray:
        """Run the program on these arguments and return the result."""
        outs = (_WORD * ((self._n_modes + 3) * self._n_parts))()  # asp_out: pointers, count, capacity
        addresses = [0 if array is None else runtime_api.address_of(array) for array in arrays]
        if self._program.plan.output_kind == "dense":
            return self._run_dense(addresses, outs)
        try:
            self._call(addresses, outs, None, 0)
            return self._collected(outs)  # frees each part that was copied
        except BaseException:
            for n in range(self._n_parts):
                self._program.library.asp_free(ctypes.byref(outs, 8 * n * (self._n_modes + 3)))
            raise

    def _call(self, addresses: list[int], outs: Any, result: AnyArray | None, stride: int) -> None:
        """Run all parts; raise MemoryError if a part could not allocate memory."""
        status = self._program.library.asp_einsum(
            (ctypes.c_void_p * max(1, len(addresses)))(*addresses), self._sizes, self._edges,
            _SIZE(self._n_parts), outs,
            None if result is None else ctypes.c_void_p(runtime_api.address_of(result)),
            _SIZE(stride), *self._pool(),
        )  # fmt: skip
        if status:
            raise MemoryError("einsum: no memory for the result or a workspace")

    def _pool(self) -> tuple[Any, Any, Any]:
        """Return the runtime's thread pool, the number of threads, and the estimated serial time in nanoseconds."""
        address = ctypes.c_void_p(_pool_address()) if self._n_threads > 1 and runtime_api.available else None
        return address, ctypes.c_int(self._n_threads), _SECONDS(self._serial_ns)

    def _cut(self, inputs: Inputs, extents: dict[str, int], tasks: float) -> list[int]:
        """Return ascending bounds that divide the outermost index into parts; one part if threads do not pay."""
        plan = self._program.plan
        indices = getattr(plan.program, "indices", None)
        if indices is None:
            return [0, 0]
        outer = indices[0]
        extent = extents[outer]
        holders = [tree for name, tree in inputs.trees.items() if plan.orders[name][:1] == outer]
        longest = max(holders, key=lambda tree: tree.values.size, default=None)
        work = max(float(inputs.entries), tasks / 8)
        most = work // MIN_ENTRIES_PER_PART + 1
        if outer in plan.output.indices:
            n_parts = int(min(PARTS_PER_THREAD * self._n_threads, most)) if self._n_threads > 1 else 1
        else:
            n_parts = int(min(PARTS_OF_SUMS, most, self._most_private(work)))
        if longest is None or not longest.values.size or n_parts == 1 or extent < 2:
            return [0, extent]
        return sorted({0, *_cuts(longest, n_parts), extent})

    def _most_private(self, work: float) -> float:
        """Return the maximum number of parts with private outputs, whose addition must take less than the loops."""
        if self._program.plan.output_kind != "dense":
            return float(PARTS_OF_SUMS)
        size = max(1.0, float(np.prod(self._shape, dtype=float)))
        return max(1.0, min(MAX_PRIVATE_OUTPUTS, work) / size)

    def _run_dense(self, addresses: list[int], outs: Any) -> AnyArray:
        plan = self._program.plan
        is_shared = self._n_parts == 1 or getattr(plan.program, "indices")[0] in plan.output.indices  # noqa: B009
        value, semiring = self._program.value, SEMIRINGS[plan.semiring]
        sums = np.dtype(sums_dtype(plan, value.name))
        results = semiring.filled((1 if is_shared else self._n_parts, *self._shape), sums)
        self._call(addresses, outs, results, 0 if is_shared else results[0].size)
        for other in results[1:]:
            semiring.add(results[:1], other, out=results[:1])  # a scalar result is no array
        whole: AnyArray = results[0].astype(value, copy=False)
        return whole

    def _collected(self, outs: Any) -> Sparse:
        """Join the parts' entries into one operand, by compressed rows if the output is a matrix in sorted order."""
        plan, n_modes, index = self._program.plan, self._n_modes, self._program.index
        n = sum(outs[n_modes + 1 :: n_modes + 3])
        indices = "".join(plan.output.indices)
        is_sorted = plan.output_kind != "entries" and plan.output_order == indices
        values = empty_output((n,), self._program.value)
        has_rows = is_sorted and n_modes == 2 and self._shape[0] <= MAX_EMPTY_ROWS * n + FEW_ROWS
        counts = np.zeros(self._shape[0] + 1, WideIndex) if has_rows else None
        coords = empty_output((n_modes - has_rows, n), index)
        rows = [0] * has_rows + [runtime_api.address_of(row) for row in coords]
        self._program.library.asp_collect(
            outs, _SIZE(self._n_parts), (ctypes.c_void_p * n_modes)(*rows),
            ctypes.c_void_p(runtime_api.address_of(values)),
            None if counts is None else ctypes.c_void_p(runtime_api.address_of(counts)), *self._pool(),
        )  # fmt: skip
        if counts is not None:
            pattern = np.cumsum(counts, dtype=index if n < 2**31 else WideIndex)
            return Sparse(indices, None, values, self._shape, sorted_by=indices, rows=(pattern, coords[0]))
        n_rows, n_cols = self._shape if n_modes == 2 else (0, 0)
        is_by_columns = plan.output_kind != "entries" and n_modes == 2 and not is_sorted
        if is_by_columns and n < 2**31 and max(n_rows, n_cols) <= min(2**31, MAX_EMPTY_ROWS * n + FEW_ROWS):
            by_column = (pointers(coords[1], n_cols).astype(index), coords[0], values)
            pattern, minor, values = transposed(by_column, (n_cols, n_rows))
            return Sparse(indices, None, values, self._shape, sorted_by=indices, rows=(pattern, minor))
        if not is_sorted:
            return distinct(indices, coords.astype(WideIndex), values, self._shape, SEMIRINGS[plan.semiring])
        return Sparse(indices, coords, values, self._shape, sorted_by=indices)


def _threads() -> int:
    return config.get_options().threads or runtime_api.max_threads()


@functools.cache
def _pool_address() -> int:
    return int(runtime_api.ffi.cast("intptr_t", runtime_api.lib.asp_parallel_address()))


@functools.cache
def _memory() -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    """Return the addresses of the runtime's functions that reuse and return memory of earlier results."""
    lib, ffi = runtime_api.lib, runtime_api.ffi
    both = (lib.asp_output_take_address(), lib.asp_output_give_address())
    take, give = (ctypes.c_void_p(int(ffi.cast("intptr_t", one))) for one in both)
    return take, give


def _cuts(tree: EntryLevels, n_parts: int) -> list[int]:
    """Return coordinates of the first level that divide the entries below into parts of about equal size."""
    wanted = np.linspace(0, tree.values.size, n_parts + 1)[1:-1]
    if not tree.pos:
        assert tree.crd[0] is not None
        return sorted({int(cut) for cut in tree.crd[0][wanted.astype(WideIndex)]})
    first_leaf = tree.pos[0]
    for below in tree.pos[1:]:
        first_leaf = below[first_leaf]
    nodes = np.minimum(np.searchsorted(first_leaf, wanted), first_leaf.size - 2)
    return sorted({int(cut) for cut in (nodes if tree.crd[0] is None else tree.crd[0][nodes])})
