"""Compiled programs: built once per source through the cache of kernels, run on several threads."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from autosparse import config, forking
from autosparse._native import runtime_api
from autosparse._native.c.build import FLAGS, ISA_FLAGS, Compilations, Compiler
from autosparse.asymptotic.lower.emit import emit
from autosparse.asymptotic.lower.levels import Levels, levels
from autosparse.asymptotic.lower.plan import Plan
from autosparse.asymptotic.operands import AnyArray, Dense, Operand, Sparse, distinct
from autosparse.cache.stores import open_store
from autosparse.core.target import Target
from autosparse.errors import BuildError
from autosparse.ops import EINSUM

LEAST_ENTRIES_PER_PART: Final = 4096
"""Parts of the outer loop hold at least so many entries of the largest sparse operand."""
PARTS_PER_THREAD: Final = 8
PARTS_OF_SUMS: Final = 32
"""Most parts where sums run over the outer loop: on any number of threads, so that they are added in one order."""
MOST_PRIVATE_OUTPUTS: Final = 1 << 22
"""Elements of dense outputs that parts may have of their own, all together."""
NS_PER_TASK: Final = 2.0
"""About what an innermost turn takes."""

_loaded: Final[dict[str, Any]] = {}
_mutex: Final = forking.lock()


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """A compiled plan."""

    plan: Plan
    library: Any  # of ctypes
    index: np.dtype[Any]
    value: np.dtype[Any]


def compiled(plan: Plan, operands: dict[str, Operand], extents: dict[str, int]) -> Program:
    """`plan` as machine code for operands of these types and sizes; BuildError."""
    one = next(iter(operands.values()))
    value = one.values.dtype if isinstance(one, Sparse) else one.array.dtype
    entries = [operand.nnz for operand in operands.values() if isinstance(operand, Sparse)]
    bits = 64 if max([1, *extents.values(), *entries]) >= 2**31 - 1 else 32
    library = load(emit(plan, dtype=value.name, index_bits=bits))
    return Program(plan, library, np.dtype(f"i{bits // 8}"), value)


def execute(
    program: Program, operands: dict[str, Operand], extents: dict[str, int], *, tasks: float = 0.0
) -> Sparse | AnyArray:
    """The result: an ndarray for a dense output, else entries sorted by the output's indices.

    `tasks`: about how many turns the loops take, if that is known; few keep it on one thread.
    """
    return _Run(program, operands, extents, tasks).run()


def load(source: str) -> Any:
    """The library of the compiled `source`, from this process, the cache of kernels or the compiler; BuildError."""
    compiler = Compiler.find(config.get_options().compiler)
    isa = Target.host().isa
    facts = [EINSUM.name, source, compiler.identity, " ".join((*FLAGS, *ISA_FLAGS[isa]))]
    key = hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()
    library = _loaded.get(key)
    if library is None:
        dump(key, source)
        folder = open_store().artefact(key, _fill(source, compiler, isa))
        try:
            library = ctypes.CDLL(str(folder / "kernel.so"))
        except OSError as err:
            raise BuildError(f"a compiled kernel cannot be loaded: {err}", key=key) from err
        with _mutex:
            library = _loaded.setdefault(key, library)
    return library


def dump(key: str, source: str) -> None:
    """Write the source into the setting `dump_dir`, if there is one."""
    folder = config.get_options().dump_dir
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{key}.c").write_text(source, encoding="utf-8")
        except OSError as err:
            raise BuildError(f"cannot write to the folder of AUTOSPARSE_DUMP_DIR: {err}", key=key) from err


def _fill(source: str, compiler: Compiler, isa: str) -> Callable[[Path], None]:
    def into(folder: Path) -> None:
        path = folder / "kernel.c"
        path.write_text(source, encoding="utf-8")
        Compilations().compile(compiler, isa, path, folder / "kernel.so")

    return into


class _Run:
    """One execution: arguments, the parts of the outer loop, what each part wrote."""

    def __init__(self, program: Program, operands: dict[str, Operand], extents: dict[str, int], tasks: float) -> None:
        self.plan, self.library, self.index, self.value = program.plan, program.library, program.index, program.value
        self.operands, self.extents, self.tasks = operands, extents, tasks
        self.n_modes = max(1, len(self.plan.output.indices))
        self.kept: list[AnyArray] = []
        self.trees: dict[str, Levels] = {}
        self.shape = tuple(extents[index] for index in self.plan.output.indices)
        self.n_threads = config.get_options().threads or runtime_api.max_threads()
        self.entries = 0

    def run(self) -> Sparse | AnyArray:
        arguments = self._inputs()
        edges = self._edges()
        n_parts = len(edges) - 1
        outs = (ctypes.c_uint64 * ((self.n_modes + 3) * n_parts))()  # asp_out: pointers, count, capacity
        if self.plan.output_kind == "dense":
            return self._run_dense(arguments, edges, outs)
        try:
            self._call(arguments, edges, outs, None, 0)
            return self._collected(outs, n_parts)
        finally:
            for n in range(n_parts):
                self.library.asp_free(ctypes.byref(outs, 8 * n * (self.n_modes + 3)))

    def _call(self, arguments: list[int], edges: list[int], outs: Any, result: AnyArray | None, stride: int) -> None:
        """Run all parts; MemoryError when one had no room."""
        n_parts = len(edges) - 1
        sizes = (ctypes.c_int64 * max(1, len(self.plan.indices)))(*(self.extents[i] for i in self.plan.indices))
        status = self.library.asp_einsum(
            (ctypes.c_void_p * max(1, len(arguments)))(*arguments), sizes, (ctypes.c_int64 * (n_parts + 1))(*edges),
            ctypes.c_int64(n_parts), outs, None if result is None else ctypes.c_void_p(result.ctypes.data),
            ctypes.c_int64(stride), *self._pool(),
        )  # fmt: skip
        if status:
            raise MemoryError("einsum: no memory for the result or a workspace")

    def _pool(self) -> tuple[Any, Any, Any]:
        """The runtime's threads, how many, and about how long one alone would take."""
        address = None
        if self.n_threads > 1 and runtime_api.available:
            address = ctypes.c_void_p(int(runtime_api.ffi.cast("intptr_t", runtime_api.lib.asp_parallel_address())))
        serial_ns = NS_PER_TASK * max(self.tasks, float(self.entries))
        return address, ctypes.c_int(self.n_threads), ctypes.c_double(serial_ns)

    def _inputs(self) -> list[int]:
        """Addresses in the order in which the source declares them."""
        arguments: list[int] = []
        for name in self.plan.sparse:
            operand = self.operands[name]
            assert isinstance(operand, Sparse)
            tree = levels(
                operand, self.plan.orders[name], is_dense=name in self.plan.dense_levels, dtype=self.index
            )  # fmt: skip
            self.trees[name] = tree
            self.entries = max(self.entries, tree.values.size)
            arguments += self._addresses(tree)
        for access in self.plan.dense:
            operand = self.operands[access.tensor]
            assert isinstance(operand, Dense)
            arguments.append(self._address(operand.array))
        return arguments

    def _addresses(self, tree: Levels) -> list[int]:
        found: list[int] = []
        if tree.crd:
            first = tree.crd[0]
            root = np.array([0, 0 if first is None else first.size], dtype=self.index)
            for pos, crd in zip((root, *tree.pos), tree.crd, strict=True):
                found += [self._address(pos), 0 if crd is None else self._address(crd)]
        return [*found, self._address(tree.values)]

    def _address(self, array: AnyArray) -> int:
        self.kept.append(array)
        return int(array.ctypes.data)

    def _edges(self) -> list[int]:
        """Ranges of the outermost loop's index; one where threads would not pay or could not share."""
        indices = getattr(self.plan.program, "indices", None)
        if indices is None:
            return [0, 0]
        outer = indices[0]
        extent = self.extents[outer]
        holders = [tree for name, tree in self.trees.items() if self.plan.orders[name][:1] == outer]
        longest = max(holders, key=lambda tree: tree.values.size, default=None)
        work = max(float(self.entries), self.tasks / 8)
        most = work // LEAST_ENTRIES_PER_PART + 1
        if outer in self.plan.output.indices:
            n_parts = int(min(PARTS_PER_THREAD * self.n_threads, most)) if self.n_threads > 1 else 1
        else:
            n_parts = int(min(PARTS_OF_SUMS, most, self._most_private(work)))
        if longest is None or not longest.values.size or n_parts == 1 or extent < 2:
            return [0, extent]
        return sorted({0, *_cuts(longest, n_parts), extent})

    def _most_private(self, work: float) -> float:
        """Parts that may have a result of their own: adding those up is to take less than the loops."""
        if self.plan.output_kind != "dense":
            return float(PARTS_OF_SUMS)
        size = max(1.0, float(np.prod(self.shape, dtype=float)))
        return max(1.0, min(MOST_PRIVATE_OUTPUTS, work) / size)

    def _run_dense(self, arguments: list[int], edges: list[int], outs: Any) -> AnyArray:
        n_parts = len(edges) - 1
        is_shared = n_parts == 1 or getattr(self.plan.program, "indices")[0] in self.plan.output.indices  # noqa: B009
        results = np.zeros((1 if is_shared else n_parts, *self.shape), self.value)
        self._call(arguments, edges, outs, results, 0 if is_shared else results[0].size)
        for other in results[1:]:
            results[0] += other
        whole: AnyArray = results[0]
        return whole

    def _collected(self, outs: Any, n_parts: int) -> Sparse:
        """The parts' entries in one: rows where the output is a matrix that was written in order."""
        n = sum(int(outs[part * (self.n_modes + 3) + self.n_modes + 1]) for part in range(n_parts))
        indices, order = "".join(self.plan.output.indices), self.plan.output_order
        is_sorted = self.plan.output_kind != "entries" and order == indices
        values = np.empty(n, self.value)
        has_rows = is_sorted and self.n_modes == 2
        counts = np.zeros(self.shape[0] + 1, np.int64) if has_rows else None
        coords = np.empty((self.n_modes - has_rows, n), self.index)
        rows = [0] * has_rows + [int(row.ctypes.data) for row in coords]
        self.library.asp_collect(
            outs, ctypes.c_int64(n_parts), (ctypes.c_void_p * self.n_modes)(*rows),
            ctypes.c_void_p(values.ctypes.data), None if counts is None else ctypes.c_void_p(counts.ctypes.data),
            *self._pool(),
        )  # fmt: skip
        if counts is not None:
            pattern = np.cumsum(counts, dtype=self.index if n < 2**31 else np.int64)
            return Sparse(indices, None, values, self.shape, sorted_by=indices, rows=(pattern, coords[0]))
        if not is_sorted:
            return distinct(indices, coords.astype(np.int64), values, self.shape)
        return Sparse(indices, coords, values, self.shape, sorted_by=indices)


def _cuts(tree: Levels, n_parts: int) -> list[int]:
    """Coordinates of the first level that cut the entries below into parts of about one size."""
    wanted = np.linspace(0, tree.values.size, n_parts + 1)[1:-1]
    if not tree.pos:
        assert tree.crd[0] is not None
        return sorted({int(cut) for cut in tree.crd[0][wanted.astype(np.int64)]})
    first_leaf = tree.pos[0]
    for below in tree.pos[1:]:
        first_leaf = below[first_leaf]
    nodes = np.minimum(np.searchsorted(first_leaf, wanted), first_leaf.size - 2)
    return sorted({int(cut) for cut in (nodes if tree.crd[0] is None else tree.crd[0][nodes])})
