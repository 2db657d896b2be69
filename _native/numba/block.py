"""Emission of blocks and accumulators in Python: plain loops over constant extents, which LLVM unrolls and vectorises.

Accumulators of a workspace are an array on the stack, ``acc0`` for the output and ``acc1``, ... for partial sums. It
has one cell per combination of the block's output coordinates, with the columns of a tile contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from autosparse._native.ir import nodes as ir
from autosparse._native.ir.writer import PythonWriter
from autosparse._native.numba.emitting import NumbaEmitter, NumbaScope

from autosparse.core.expression import Access, IndexExpression


@dataclass(frozen=True)
class Quantity:
    """An emitted line that assigns the expression `text` to `name`, and the block coordinates on which it depends."""

    name: str
    text: str
    needs: frozenset[str]


@dataclass(frozen=True)
class BlockWriter:
    """Writer of the Python code of one block at the current width of the column tile."""

    emitter: NumbaEmitter
    block: ir.Block
    scope: NumbaScope

    @property
    def value(self) -> str:
        """Suffix of the names of the functions that load and store values."""
        return self.emitter.value

    @property
    def expression(self) -> IndexExpression:
        """Expression that is computed."""
        return self.block.expression

    @property
    def cells(self) -> tuple[ir.Coordinate, ...]:
        """Coordinates of the block that distinguish accumulators; that of the column tile last."""
        found = [c for c in self.block.coordinates if c.index in self.expression.output.indices]
        return tuple(sorted(found, key=self._is_column))

    @property
    def n_cells(self) -> int:
        """Number of accumulators."""
        return math.prod(c.split for c in self.cells)

    @property
    def stored(self) -> str:
        """Suffix of the names of the functions that load A's values as they are stored."""
        return self.emitter.spec.schedule.format.values or self.value

    def cell(self) -> str:
        """Return the expression of the accumulator's index at the current coordinates."""
        text = ""
        for c in self.cells:
            text = (
                f"({text}) * {c.split} + {c.name}"
                if "+" in text
                else f"{text} * {c.split} + {c.name}"
                if text
                else c.name
            )
        return text or "0"

    def _is_column(self, c: ir.Coordinate) -> bool:
        return c.index == self.scope.tile

    def extent(self, c: ir.Coordinate) -> str:
        """Return the number of iterations of a loop over `c`."""
        return str(self.scope.width) if self._is_column(c) else str(c.split)

    def index(self, index: str) -> str:
        """Return the expression of the index `index` by the coordinates that are known at this point."""
        if index == self.scope.tile:
            return f"{index} + {index}0" if any(map(self._is_column, self.block.coordinates)) else index
        split = self.emitter.split(index)
        return f"{index}1" if split == 1 else f"{index}1 * {split} + {index}0"

    def needs(self, indices: Iterable[str]) -> frozenset[str]:
        """Return the coordinates of the block on which these indices depend."""
        wanted = set(indices)
        return frozenset(c.name for c in self.block.coordinates if c.index in wanted)

    def may_pass_end(self, index: str) -> bool:
        """Return whether the index can lie beyond its operand, where the block runs through padding."""
        return index != self.scope.tile and bool(self.needs([index]))

    def clamped(self, indices: Iterable[str]) -> Iterator[Quantity]:
        """Yield a quantity ``at_k``, the clamped index, for each of `indices` that may pass the end."""
        for index in dict.fromkeys(indices):
            if self.may_pass_end(index):
                yield Quantity(f"at_{index}", f"min({self.index(index)}, n_{index} - 1)", self.needs([index]))

    def place(self, access: Access) -> str:
        """Return the expression of an element's offset in a dense operand, with clamped indices."""
        at = [f"at_{index}" if self.may_pass_end(index) else self.index(index) for index in access.indices]
        if self.emitter.spec.schedule.format.rows and access.indices[0] == "i":
            at[0] = f"load_i32(slice_rows, {at[0]})"
        at = [f"({text})" if " " in text and not text.startswith("load_") else text for text in at]
        return at[0] if len(at) == 1 else f"{at[0]} * ld{access.tensor} + {at[1]}"

    def loaded(self, accesses: Sequence[Access]) -> Iterator[Quantity]:
        """Yield quantities ``value_A``, ``value_B``, ...: the operands' values, after those that they depend on."""
        dense = [access for access in accesses if access != self.expression.sparse]
        yield from self.clamped(index for access in dense for index in access.indices)
        if len(dense) < len(accesses):
            positions = list(self.located())
            yield from positions
            needs = positions[-1].needs if positions else frozenset()
            sparse = self.expression.sparse.tensor
            yield Quantity(f"value_{sparse}", f"load_{self.stored}(vals, {self.position})", needs)
        for access in dense:
            place = self.place(access)
            yield Quantity(
                f"value_{access.tensor}", f"load_{self.value}({access.tensor}, {place})", self.needs(access.indices)
            )

    @property
    def position(self) -> str:
        """Position of the current entry in the last level."""
        return f"p_{self.emitter.program.levels[-1].name}"

    def located(self) -> Iterator[Quantity]:
        """Yield a quantity ``p_...``, the position, for each level that is located in the block."""
        needs: frozenset[str] = frozenset()
        for level in self.block.levels:
            parent, name = level.parent_position, level.name
            needs |= frozenset({name}) & {c.name for c in self.block.coordinates}
            extent = self.emitter.extent_text(ir.Extent(level.coordinate, partner_bound=False))
            yield Quantity(f"p_{name}", name if parent == "0" else f"{parent} * {extent} + {name}", needs)

    @contextmanager
    def loops(self, coordinates: Sequence[ir.Coordinate], quantities: Iterable[Quantity]) -> Iterator[None]:
        """Emit nested loops around the context, with each quantity set in the outermost possible loop."""
        out, waiting, bound = self.scope.out, list(quantities), set[str]()
        every = {c.name for c in coordinates}
        with ExitStack() as stack:
            waiting = _set(out, waiting, every - bound)
            for c in coordinates:
                stack.enter_context(out.block(f"for {c.name} in range({self.extent(c)})"))
                bound.add(c.name)
                waiting = _set(out, waiting, every - bound)
            yield


def _set(out: PythonWriter, waiting: list[Quantity], unbound: set[str]) -> list[Quantity]:
    """Emit assignments of the quantities whose coordinates are all bound; return the quantities that must wait."""
    left = []
    for quantity in waiting:
        if quantity.needs & unbound:
            left.append(quantity)
        else:
            out.line(f"{quantity.name} = {quantity.text}")
    return left


def emit_block(emitter: NumbaEmitter, node: ir.Block, scope: NumbaScope) -> None:
    """Emit code that adds the products of all cells to the innermost accumulators."""
    block = BlockWriter(emitter, node, scope)
    product = " * ".join(f"value_{access.tensor}" for access in node.factors) or "ONE"
    name = f"acc{scope.depth}"
    with block.loops(node.coordinates, block.loaded(node.factors)):
        scope.out.line(_add(block, name, product))


def _add(block: BlockWriter, name: str, text: str) -> str:
    """Return the text of ``name[cell] += text``."""
    cell = block.cell()
    return f"store_{block.value}({name}, {cell}, load_{block.value}({name}, {cell}) + {text})"


def emit_workspace(emitter: NumbaEmitter, node: ir.Workspace, scope: NumbaScope) -> None:
    """Emit cleared accumulators, the body, and the addition of the products with the factors to the target."""
    block = BlockWriter(emitter, node.block, scope)
    out, name = scope.out, f"acc{node.depth}"
    out.line(f"{name} = stack_{block.value}({block.n_cells})")
    with block.loops(block.cells, ()):
        out.line(f"store_{block.value}({name}, {block.cell()}, ZERO)")
    emitter.run(node.body, scope.inside(node.depth))
    total = f"load_{block.value}({name}, {block.cell()})"
    if block.expression.sampled and not node.depth:
        _store_entries(block, node, total)
        return
    quantities = list(block.loaded(node.factors))
    total = " * ".join([total, *(f"value_{factor.tensor}" for factor in node.factors)])
    if node.depth:
        with block.loops(block.cells, quantities):
            out.line(_add(block, f"acc{node.depth - 1}", total))
    else:
        _store(block, node, total, quantities)


def _store(block: BlockWriter, node: ir.Workspace, total: str, quantities: Sequence[Quantity]) -> None:
    """Emit stores of the results `total` in the output, for cells that lie inside it."""
    out, output = block.scope.out, node.output
    with block.loops(block.cells, quantities), ExitStack() as inside:
        limits = [index for index in output.indices if block.may_pass_end(index)]
        if limits:
            test = " and ".join(f"{block.index(index)} < n_{index}" for index in limits)
            inside.enter_context(out.block(f"if {test}"))
        at = [block.index(index) for index in output.indices]
        if block.emitter.spec.schedule.format.rows:
            at[0] = f"load_i32(slice_rows, {at[0]})"
        out.line(f"where = {at[0] if len(at) == 1 else f'({at[0]}) * ld{output.tensor} + {at[1]}'}")
        out.line(f"total = {total}")
        _add_held(block, node)
        if node.check:
            with out.block(f"if not {block.emitter.finite_text}"):
                out.line("bad = 1")
        out.line(f"store_{block.value}({output.tensor}, where, total)")


def _store_entries(block: BlockWriter, node: ir.Workspace, total: str) -> None:
    """Emit stores of a sampled result at every entry of the cell's position, times the entry's value."""
    emitter, out = block.emitter, block.scope.out
    load, value = f"load_{emitter.positions}", block.value
    with block.loops(block.cells, list(block.located())):
        out.line(f"entry = {load}(origin, {block.position}) if origin != 0 else {block.position}")
        with out.block("while entry >= 0"):
            out.line("where = entry")
            out.line(f"total = {total} * load_{value}(vals, entry)")
            _add_held(block, node)
            out.line(f"store_{value}({node.output.tensor}, where, total)")
            out.line(f"entry = {load}(repeats, entry) if repeats != 0 else -1")


def _add_held(block: BlockWriter, node: ir.Workspace) -> None:
    """Emit the addition of the output's previous content, unless this is the first part of the sum."""
    if node.init == "zero":
        return
    add = f"total += load_{block.value}({node.output.tensor}, where)"
    if not node.first:
        block.scope.out.line(add)
        return
    with block.scope.out.block(f"if {' or '.join(f'{name} != 0' for name in node.first)}"):
        block.scope.out.line(add)
