"""Compiled programs: built once per source through the cache of kernels, run on several threads."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from autosparse import config, forking
from autosparse._native import runtime_api
from autosparse._native.c.build import FLAGS, ISA_FLAGS, Compilations, Compiler
from autosparse.asymptotic.lower.emit import Plan, emit
from autosparse.asymptotic.lower.levels import Levels, levels
from autosparse.asymptotic.operands import AnyArray, Dense, Operand, Sparse, distinct
from autosparse.cache.stores import open_store
from autosparse.core.target import Target
from autosparse.errors import BuildError

MOST_ENTRIES_PER_CHUNK: Final = 1 << 16
"""Chunks of the outer loop hold about so many entries of the largest sparse operand, so that threads stay busy."""
MOST_PRIVATE_OUTPUTS: Final = 1 << 22
"""Elements of dense outputs that threads may have of their own."""

_loaded: Final[dict[str, Any]] = {}
_mutex: Final = forking.lock()


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """A compiled plan."""

    plan: Plan
    entry: Any  # ctypes functions
    free: Any
    index: np.dtype[Any]
    value: np.dtype[Any]


def compiled(plan: Plan, operands: dict[str, Operand], extents: dict[str, int]) -> Program:
    """`plan` as machine code for operands of these types and sizes; BuildError."""
    one = next(iter(operands.values()))
    value = one.values.dtype if isinstance(one, Sparse) else one.array.dtype
    entries = [operand.nnz for operand in operands.values() if isinstance(operand, Sparse)]
    bits = 64 if max([1, *extents.values(), *entries]) >= 2**31 - 1 else 32
    entry, free = load(emit(plan, dtype=value.name, index_bits=bits))
    return Program(plan, entry, free, np.dtype(f"i{bits // 8}"), value)


def execute(program: Program, operands: dict[str, Operand], extents: dict[str, int]) -> Sparse | AnyArray:
    """The result: an ndarray for a dense output, else entries sorted by the output's indices."""
    return _Run(program.plan, operands, extents, program.index, program.value).run(program.entry, program.free)


def load(source: str) -> tuple[Any, Any]:
    """Entry points of the compiled `source`, from this process, the cache of kernels or the compiler; BuildError."""
    compiler = Compiler.find(config.get_options().compiler)
    isa = Target.host().isa
    facts = ["einsum", source, compiler.identity, " ".join((*FLAGS, *ISA_FLAGS[isa]))]
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
    return library.asp_einsum, library.asp_free


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

    def __init__(
        self, plan: Plan, operands: dict[str, Operand], extents: dict[str, int], index: np.dtype[Any],
        value: np.dtype[Any],
    ) -> None:  # fmt: skip
        self.plan, self.operands, self.extents, self.index, self.value = plan, operands, extents, index, value
        self.n_modes = max(1, len(plan.output.indices))
        self.sizes = (ctypes.c_int64 * max(1, len(plan.indices)))(*(extents[index] for index in plan.indices))
        self.kept: list[AnyArray] = []
        self.trees: dict[str, Levels] = {}
        self.shape = tuple(extents[index] for index in plan.output.indices)

    def run(self, entry: Any, free: Any) -> Sparse | AnyArray:
        arguments = self._inputs()
        parts = self._parts()
        if self.plan.output_kind == "dense":
            return self._run_dense(entry, arguments, parts)
        outs = [(ctypes.c_uint64 * (self.n_modes + 3))() for _ in parts]  # asp_out: pointers, count, capacity
        try:
            self._each(entry, [(arguments, part, out) for part, out in zip(parts, outs, strict=True)])
            return self._entries(outs)
        finally:
            for out in outs:
                free(out)

    def _inputs(self) -> list[int]:
        """Addresses in the order in which the source declares them, the dense output's aside."""
        arguments: list[int] = []
        orders = self.plan.orders()
        for name in self.plan.sparse:
            operand = self.operands[name]
            assert isinstance(operand, Sparse)
            tree = levels(operand, orders[name], is_dense=name in self.plan.dense_levels, dtype=self.index)
            self.trees[name] = tree
            arguments += self._addresses(tree)
        for access in self.plan.dense:
            operand = self.operands[access.tensor]
            assert isinstance(operand, Dense)
            arguments.append(self._address(operand.array))
        return arguments

    def _addresses(self, tree: Levels) -> list[int]:
        first = tree.crd[0]
        root = np.array([0, 0 if first is None else first.size], dtype=self.index)
        found = []
        for pos, crd in zip((root, *tree.pos), tree.crd, strict=True):
            found += [self._address(pos), 0 if crd is None else self._address(crd)]
        return [*found, self._address(tree.values)]

    def _address(self, array: AnyArray) -> int:
        self.kept.append(array)
        return int(array.ctypes.data)

    def _parts(self) -> list[tuple[int, int]]:
        """Ranges of the outermost loop's index; one where threads would not pay or could not share."""
        program = self.plan.program
        indices = getattr(program, "indices", None)
        if indices is None:
            return [(0, 0)]
        outer = indices[0]
        extent = self.extents[outer]
        holders = [tree for name, tree in self.trees.items() if self.plan.orders()[name][0] == outer]
        n_threads = config.get_options().threads or runtime_api.max_threads()
        longest = max(holders, key=lambda tree: tree.values.size, default=None)
        n_parts = min(8 * n_threads, longest.values.size // 4096 + 1) if longest is not None else 1
        if self.plan.output_kind == "dense" and outer not in self.plan.output.indices:
            n_parts = n_threads if self._is_small_output() and n_parts > 1 else 1
        if longest is None or n_threads == 1 or n_parts == 1 or extent < 2:
            return [(0, extent)]
        edges = [0, *_cuts(longest, n_parts), extent]
        return [(first, last) for first, last in itertools.pairwise(edges) if first < last]

    def _is_small_output(self) -> bool:
        return bool(np.prod(self.shape, dtype=float) <= MOST_PRIVATE_OUTPUTS)

    def _run_dense(self, entry: Any, arguments: list[int], parts: list[tuple[int, int]]) -> AnyArray:
        is_shared = len(parts) == 1 or getattr(self.plan.program, "indices")[0] in self.plan.output.indices  # noqa: B009
        results = [np.zeros(self.shape, self.value) for _ in (parts[:1] if is_shared else parts)]
        calls = []
        for n, part in enumerate(parts):
            result = results[0 if is_shared else n]
            calls.append(([*arguments, int(result.ctypes.data)], part, None))
        self._each(entry, calls)
        for other in results[1:]:
            results[0] += other
        return results[0]

    def _each(self, entry: Any, calls: Sequence[tuple[list[int], tuple[int, int], Any]]) -> None:
        """Make the calls, several at a time; MemoryError when one had no room."""
        waiting, failed = list(reversed(calls)), []

        def work() -> None:
            while waiting:
                try:
                    arguments, (first, last), out = waiting.pop()
                except IndexError:  # another thread was faster
                    return
                array = (ctypes.c_void_p * (len(arguments) + 1))(*arguments)
                if entry(array, self.sizes, ctypes.c_int64(first), ctypes.c_int64(last), out):
                    failed.append(first)

        n_threads = min(len(calls), config.get_options().threads or runtime_api.max_threads())
        threads = [threading.Thread(target=work, daemon=True) for _ in range(n_threads - 1)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
        if failed:
            raise MemoryError("einsum: no memory for the result or a workspace")

    def _entries(self, outs: Sequence[Any]) -> Sparse:
        rows: list[list[AnyArray]] = [[] for _ in range(self.n_modes)]
        values = []
        for out in outs:
            n = int(out[self.n_modes + 1])
            if n:
                for mode in range(self.n_modes):
                    rows[mode].append(_seen(int(out[mode]), n, self.index))
                values.append(_seen(int(out[self.n_modes]), n, self.value))
        indices = "".join(self.plan.output.indices)
        if not values:
            return Sparse(indices, np.zeros((self.n_modes, 0), np.int64), np.zeros(0, self.value), self.shape)
        coords = np.stack([np.concatenate(parts) for parts in rows])
        order = self.plan.output_order()
        if self.plan.output_kind == "entries" or order != indices:
            return distinct(indices, coords.astype(np.int64), np.concatenate(values), self.shape)
        return Sparse(indices, coords, np.concatenate(values), self.shape, sorted_by=indices)


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


def _seen(address: int, n: int, dtype: np.dtype[Any]) -> AnyArray:
    """Memory of a kernel as an array, until it is freed."""
    memory: Any = (ctypes.c_char * (n * dtype.itemsize)).from_address(address)
    found: AnyArray = np.frombuffer(memory, dtype=dtype)
    return found
