"""Register blocks in C: accumulators as named variables, updates as straight-line code of explicit vector operations.

Accumulators are named variables of vector type, because gcc 12 keeps arrays such as ``float acc[32]`` in memory, which
is 4 times slower.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field, replace

from autosparse._native.c.complex_values import add_product, add_sum, declared, is_complex, whole
from autosparse._native.c.types import vector_type
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.block import lanes_of
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.ir.writer import Writer

from autosparse.core.expression import Access
from autosparse.core.values import dataclass

Cell = Mapping[str, int]  # block coordinate -> constant value


@dataclass
class Used:
    """Helper functions that the emitted text calls, by the numbers of lanes that they are needed for."""

    lanes: set[int] = field(default_factory=lambda: {1})
    partial: set[int] = field(default_factory=set)
    gather: set[int] = field(default_factory=set)
    heads: set[int] = field(default_factory=set)
    slices: set[int] = field(default_factory=set)
    folds: set[tuple[int, int]] = field(default_factory=set)
    stored: set[int] = field(default_factory=set)  # lanes of half-precision values
    # numbers of entries per step, of rows that are computed by one call each
    rows: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class BlockShape:
    """A block for one column width: its constant extents, its vector axis and the groups of lanes along it."""

    spec: KernelSpec
    block: ir.Block
    width: int | None  # width of the current column tile
    splits: Mapping[str, int]
    tile_index: str | None
    used: Used
    least: int | None = None  # minimum number of columns of a masked tile; None: all of its width
    depth: int = 0  # of the workspace: 0 holds the output's sums, others hold partial sums
    ways: int = 1  # accumulators per cell, used in turn
    jam: tuple[str, ...] = ()  # coordinates of the entries that are computed together
    n_entries: int = 1
    entry: int = 0
    most_lanes: int | None = None  # of the enclosing workspace
    is_narrow: bool = False  # a tile of fewer lanes than the workspace's, with its own accumulators

    def entries(self) -> list[BlockShape]:
        """Return this shape once for each of the entries that are computed together."""
        return [replace(self, entry=entry) for entry in range(self.n_entries)]

    def narrow(self) -> BlockShape:
        """Return the block with one value at a time, for tiles narrower than vectors; it has its own accumulators."""
        return replace(self, is_narrow=True, ways=1)

    def variable(self, name: str) -> str:
        """Return the C name of a coordinate's or position's variable; each jammed entry has its own."""
        return f"{name}_{self.entry}" if name.removeprefix("p_") in self.jam else name

    def extent(self, coordinate: ir.Coordinate) -> int:
        """Return the constant extent, which is the tile's width for the tile's inner coordinate."""
        return self.width if self.width is not None and coordinate.index == self.tile_index else coordinate.split

    @property
    def axis(self) -> ir.Coordinate | None:
        """Coordinate whose values are vector lanes."""
        return next((c for c in self.block.coordinates if c.name == self.block.vector), None)

    @property
    def lanes(self) -> int:
        """Number of lanes of the vectors."""
        if self.is_narrow:
            return 1
        return lanes_of(self.extent(self.axis), self.most_lanes or self.spec.max_lanes) if self.axis else 1

    @property
    def vector(self) -> str:
        """Name of the vector type."""
        self.used.lanes.add(self.lanes)
        return vector_type(self.spec, self.lanes)

    def load_values(self) -> str:
        """Return the prefix of the name of the function that loads a vector of stored values."""
        if not self.spec.schedule.format.values:
            return "load_"
        self.used.stored.add(self.lanes)
        return "load_stored_"

    def is_output(self, coordinate: ir.Coordinate) -> bool:
        """Return whether the coordinate is a part of an output index."""
        return coordinate.index in self.block.expression.output.indices

    def cells(self, *, output: bool) -> list[dict[str, int]]:
        """Return values by name of the output (else the summed) coordinates; the vector axis steps by whole vectors."""
        chosen = [c for c in self.block.coordinates if self.is_output(c) is output]
        ranges = [range(0, self.extent(c), self.lanes if c == self.axis else 1) for c in chosen]
        return [dict(zip((c.name for c in chosen), values, strict=True)) for values in itertools.product(*ranges)]

    def index(self, index: str, cell: Cell) -> str:
        """Return the C text of an index's value."""
        inner = cell.get(f"{index}0")
        if index == self.tile_index and self.width is not None:
            return _plus(index, inner or 0)
        split = self.splits.get(index, 1)
        outer = self.variable(f"{index}1")
        if split == 1:
            return outer
        if inner is not None:
            return _plus(f"{outer} * {split}", inner)
        return f"{outer} * {split} + {self.variable(f'{index}0')}"

    def output_address(self, output: Access, cell: Cell) -> str:
        """Return the C text of the address of an output cell, in the user's order of rows."""
        values = [self.index(index, cell) for index in output.indices]
        if self.spec.schedule.format.rows:
            values[0] = f"slice_rows[{values[0]}]"
        return self.address(output, values)

    def address(self, access: Access, values: Sequence[str]) -> str:
        """Return the C text of ``&tensor[values]``: row-major, contiguous in the last index."""
        if len(values) == 1:
            return f"{access.tensor}_ + {values[0]}"
        row = values[0] if values[0].isidentifier() or values[0].startswith("asp_min(") else f"({values[0]})"
        return f"{access.tensor}_ + {row} * ld{access.tensor} + {values[1]}"

    def position(self, cell: Cell) -> str:
        """Return the C text of the value's position."""
        levels = self.block.levels
        if not levels:
            return self.variable(f"p_{self.spec.schedule.format.order[-1]}")
        parent = self.variable(levels[0].parent_position)
        if all(level.name in cell for level in levels):
            size, at = 1, 0
            for level in levels:
                size, at = size * level.coordinate.split, at * level.coordinate.split + cell[level.name]
            return str(at) if parent == "0" else _plus(f"{parent} * {size}", at)
        text = parent
        for level in levels:
            extent = f"n_{level.name}" if level.coordinate.is_outer else str(level.coordinate.split)
            coordinate = cell.get(level.name, self.variable(level.name))
            text = f"({text}) * {extent} + {coordinate}"
        return text

    def head(self, cell: Cell) -> str | None:
        """Return the name of the mask of a cell's vector if it may extend past the last column, else None."""
        if self.least is None or self.axis is None or self.axis.index != self.tile_index:
            return None
        at = cell[self.axis.name]
        return f"head_{at}" if at + self.lanes > self.least else None

    def accumulator(self, copy: int, cell: Cell) -> str:
        """Return the name of the accumulator of an output cell."""
        parts = [f"{name}_{cell[name]}" for name in cell]
        kind = f"part{self.depth}x" if self.depth else "rest" if self.is_narrow else "sum"
        return "_".join([f"{kind}{copy}" if copy else kind, *parts])

    def guard(self, cell: Cell) -> str | None:
        """Return the condition for the cell to lie inside the output, ignoring lanes, or None if it always does."""
        tests = [
            f"{self.index(name[:-1], cell)} < n_{name[:-1]}"
            for name in cell
            if cell[name] and name[:-1] != self.tile_index and not (self.axis and name == self.axis.name)
        ]
        return " && ".join(tests) or None


def emit_block(out: Writer, shape: BlockShape, copy: int) -> None:
    """Emit all multiply-adds of the block into accumulator copy `copy`, or into those of each jammed entry."""
    sparse, sampled = shape.block.expression.sparse, shape.block.expression.sampled
    loaded: dict[tuple[str, ...], str] = {}
    vectors = [_is_vector(shape) if access == sparse else _has_axis(shape, access) for access in shape.block.factors]
    scalar = vectors.index(False) if False in vectors else None
    for number, summed in enumerate(shape.cells(output=False)):
        for one in shape.entries():
            for cell in one.cells(output=True):
                both = {**summed, **cell}
                factors = [
                    _value(out, one, both) if access == sparse else emit_dense(out, one, access, both, loaded)
                    for access in shape.block.factors
                ]
                to = one.entry * shape.ways + number % shape.ways if sampled else copy
                out.line(add_product(shape.spec, one.lanes, one.accumulator(to, cell), factors, scalar))


def _value(out: Writer, shape: BlockShape, cell: Cell) -> str:
    """Return C text of A's stored value at a cell: a scalar, or a vector if lanes run along the last level."""
    position = shape.position(cell)
    if _is_vector(shape):
        return f"{shape.load_values()}{shape.vector}(vals + {position})"
    return f"widen_f32x1(vals[{position}])" if shape.spec.schedule.format.values else f"vals[{position}]"


def _is_vector(shape: BlockShape) -> bool:
    """Return whether lanes run along the last level, so that A's stored values are vectors."""
    return shape.axis is not None and any(level.coordinate == shape.axis for level in shape.block.levels)


def emit_dense(out: Writer, shape: BlockShape, access: Access, cell: Cell, loaded: dict[tuple[str, ...], str]) -> str:
    """Return the name of the variable that holds a dense factor; emit its load unless `loaded` has it."""
    relevant = [f"{name}_{cell[name]}" for name in cell if name[:-1] in access.indices]
    if any(name[:-1] in access.indices for name in shape.jam):
        relevant.append(f"e{shape.entry}")
    key = (access.tensor, *relevant)
    if key not in loaded:
        name = "_".join([access.tensor.lower(), *relevant])
        kind = shape.vector if _has_axis(shape, access) else vector_type(shape.spec, 1)
        out.line(f"const {kind} {name} = {_dense_load(shape, access, cell)};")
        loaded[key] = name
    return loaded[key]


def _has_axis(shape: BlockShape, access: Access) -> bool:
    return shape.axis is not None and shape.axis.index in access.indices


def _dense_load(shape: BlockShape, access: Access, cell: Cell) -> str:
    values = [shape.index(index, cell) for index in access.indices]
    axis = shape.axis
    if axis is not None and _has_axis(shape, access) and not shape.is_output(axis) and axis.index != shape.tile_index:
        # Lanes along a summed index: its last block may extend past the end.
        shape.used.partial.add(shape.lanes)
        return f"load_clamped_{shape.vector}({access.tensor}_, {values[-1]}, n_{axis.index})"
    clamped = [_clamp(shape, index, value, cell) for index, value in zip(access.indices, values, strict=True)]
    if shape.spec.schedule.format.rows and access.indices[0] == "i":
        clamped[0] = f"slice_rows[{clamped[0]}]"
    address = shape.address(access, clamped)
    return _load(shape, address, cell) if _has_axis(shape, access) else f"*({address})"


def _load(shape: BlockShape, address: str, cell: Cell) -> str:
    head = shape.head(cell)
    return f"load_head_{shape.vector}({address}, {head})" if head else f"load_{shape.vector}({address})"


def _clamp(shape: BlockShape, index: str, value: str, cell: Cell) -> str:
    """Return the C text `value` of an index, clamped if it may lie past the end, where only padding is stored."""
    if cell.get(f"{index}0", 0) == 0 or index == shape.tile_index:
        return value
    return f"asp_min({value}, n_{index} - 1)"


def emit_heads(out: Writer, shape: BlockShape) -> None:
    """Declare the masks of a tile that may end inside its vectors."""
    for at in range(0, shape.width or 0, shape.lanes):
        if shape.axis is not None and shape.head({shape.axis.name: at}):
            shape.used.heads.add(shape.lanes)
            left = f"end_{shape.tile_index} - {shape.tile_index}" + (f" - {at}" if at else "")
            out.line(f"const head_{shape.vector} head_{at} = make_head_{shape.vector}({left});")


def emit_init(out: Writer, shape: BlockShape, node: ir.Workspace) -> None:
    """Declare masks, and accumulators initialised to zero or the output's content."""
    emit_heads(out, shape)
    zero = f"({shape.vector}){{0}}"
    first = first_test(shape, node)
    starts_at_zero = node.init == "zero" or bool(node.factors)
    for copy in range(shape.n_entries * shape.ways if shape.block.expression.sampled else node.copies):
        for cell in shape.cells(output=True):
            name = shape.accumulator(copy, cell)
            start = zero if starts_at_zero or copy else _load_output(shape, node.output, cell, first, zero)
            out.line(declared(shape.spec, shape.vector, name, start))


def first_test(shape: BlockShape, node: ir.Workspace) -> str:
    """Return the C condition that the output holds no partial sum yet, or "" if the question does not arise."""
    names = [shape.tile_index if name == f"{shape.tile_index}1" else name for name in node.first]
    return " && ".join(f"{name} == 0" for name in names)


def _load_output(shape: BlockShape, output: Access, cell: Cell, first: str, zero: str) -> str:
    load = _output_load(shape, output, cell)
    guard = shape.guard(cell)
    tests = " || ".join(filter(None, [first, f"!({guard})" if guard else ""]))
    return f"{tests} ? {zero} : {load}" if tests else load


def _output_load(shape: BlockShape, output: Access, cell: Cell) -> str:
    address = shape.output_address(output, cell)
    if _partial_output(shape):
        return f"load_part_{shape.vector}({address}, {_room(shape, cell)})"
    if _has_axis(shape, output):
        return _load(shape, address, cell)
    return f"first_{shape.vector}(*({address}))" if is_complex(shape.spec) else f"({shape.vector}){{*({address})}}"


def _partial_output(shape: BlockShape) -> bool:
    """Return whether vectors run along an output index that may end inside a vector."""
    axis = shape.axis
    partial = axis is not None and shape.is_output(axis) and axis.index != shape.tile_index
    if partial:
        shape.used.partial.add(shape.lanes)
    return partial


def _room(shape: BlockShape, cell: Cell) -> str:
    index = shape.axis.index if shape.axis else ""
    return f"n_{index} - ({shape.index(index, cell)})"


def emit_store(out: Writer, shape: BlockShape, node: ir.Workspace) -> None:
    """Sum the copies, multiply by the remaining factors, check for values that are not finite, and store."""
    loaded: dict[tuple[str, ...], str] = {}
    first, zero = first_test(shape, node), f"({shape.vector}){{0}}"
    for cell in shape.cells(output=True):
        total = shape.accumulator(0, cell)
        for copy in range(1, node.copies):
            out.line(add_sum(shape.spec, total, shape.accumulator(copy, cell)))
        if is_complex(shape.spec):
            out.line(f"{total} = {whole(shape.spec, shape.lanes, total)};")
        guard = shape.guard(cell)
        factors = [emit_dense(out, shape, access, cell, loaded) for access in node.factors]
        if node.depth:
            around = replace(shape, depth=node.depth - 1)
            out.line(f"{around.accumulator(0, cell)} += {' * '.join([total, *factors])};")
            continue
        if factors:
            held = "" if node.init == "zero" else f"({_load_output(shape, node.output, cell, first, zero)}) + "
            out.line(f"{total} = {held}{' * '.join([total, *factors])};")
        address = shape.output_address(node.output, cell)
        with out.block(f"if ({guard})") if guard else nullcontext():
            if node.check:
                out.line(f"check_{shape.lanes} += {total} * 0;")
            _store_cell(out, shape, address, total, cell)


def _store_cell(out: Writer, shape: BlockShape, address: str, total: str, cell: Cell) -> None:
    if _partial_output(shape):
        room = _room(shape, cell)
        out.line(f"if ({room} >= {shape.lanes})")
        out.line(f"    store_{shape.vector}({address}, {total});")
        out.line("else")
        out.line(f"    store_part_{shape.vector}({address}, {total}, {room});")
    elif _has_axis(shape, shape.block.expression.output):
        head = shape.head(cell)
        kind, mask = ("_head", f", {head}") if head else ("", "")
        out.line(f"store{kind}_{shape.vector}({address}, {total}{mask});")
    else:
        out.line(f"*({address}) = sum_{shape.vector}({total});")


def _plus(text: str, constant: int) -> str:
    return f"{text} + {constant}" if constant else text
