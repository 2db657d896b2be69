"""State of the C emitter: the kernel being emitted, and the current position in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from autosparse._native.c.block import BlockShape, Used
from autosparse._native.c.sampled import sampled_declarations
from autosparse._native.c.slices import slice_declarations
from autosparse._native.c.types import C_INDICES, C_VALUES, stored_type
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.ir.writer import Writer

from autosparse.core.values import dataclass
from autosparse.scalar import C_SIZE


@dataclass(frozen=True)
class CScope:
    """Position of the emitter: the function being written, the enclosing loop variables, the current column tile."""

    out: Writer
    variables: tuple[str, ...] = ()  # integer variables that a task receives
    width: int | None = None
    least: int | None = None  # minimum number of columns of a masked tile
    tile_index: str | None = None
    extents: tuple[str, ...] = ()  # of the enclosing sequential loops
    copy: int = 0  # accumulator copy to which the current entry is added
    depth: int = 0  # of the enclosing workspace
    ways: int = 1
    lanes: int | None = None  # of the enclosing workspace; None: there is none
    jam: tuple[str, ...] = ()  # coordinates of entries that are computed together, and their number
    n_entries: int = 1

    def binding(self, *names: str) -> CScope:
        """Return the scope inside a loop that binds `names`."""
        return replace(self, variables=(*self.variables, *names))


@dataclass
class CEmitter:
    """State of one kernel being emitted."""

    spec: KernelSpec
    program: ir.Program
    rules: Mapping[type, Callable[[Any, Any, CScope], None]]  # function that emits each kind of node
    used: Used = field(default_factory=Used)
    tasks: list[str] = field(default_factory=list)

    def run(self, nodes: Iterable[ir.Node], scope: CScope) -> None:
        """Emit `nodes` in order."""
        for node in nodes:
            self.rules[type(node)](self, node, scope)
            if isinstance(node, ir.Locate):
                scope = scope.binding(f"p_{node.level.name}")
            if isinstance(node, ir.Fetch) and node.level.name not in scope.jam:
                scope = scope.binding(f"p_{node.level.name}", node.level.name)

    def shape(self, block: ir.Block, scope: CScope) -> BlockShape:
        """Return `block` at the current column width."""
        splits = dict(self.spec.schedule.format.splits) | dict(self.spec.schedule.dense_splits)
        shape = BlockShape(self.spec, block, scope.width, splits, scope.tile_index, self.used, scope.least)
        together = replace(shape, jam=scope.jam, n_entries=scope.n_entries)
        return replace(together, depth=scope.depth, ways=scope.ways, most_lanes=scope.lanes)

    def declare(self, body: str, *, known: Iterable[str] = ()) -> str:
        """Return the declarations of the operands and extents that `body` uses, except for the `known` names."""
        every = self._declarations() | _extents(self.program)
        lines = {name: text for name, text in every.items() if name not in known}
        wanted: set[str] = set()
        text = body
        for name in reversed(lines):  # later ones use earlier ones
            if re.search(rf"(?<![>.])\b{name}\b", text):
                wanted.add(name)
                text += lines[name].partition("=")[2]
        return "".join(f"    {lines[name]}\n" for name in lines if name in wanted)

    def _declarations(self) -> dict[str, str]:
        """Return the declaration of each operand, read from `call`."""
        spec, value = self.spec, C_VALUES[self.spec.dtype]
        lines = {"A": "const asp_operand *A = call->A;"}
        for depth, index in enumerate(self.program.expression.sparse.indices):
            lines[f"n_{index}"] = f"const {C_SIZE} n_{index} = A->size[{depth}];"
        expression = self.program.expression
        leading = [f"ld{access.tensor}" for access in (*expression.dense, expression.output)]
        lines |= {name: f"const {C_SIZE} {name} = call->{name};" for name in (*leading, "n_j", "n_threads", "chunk")}
        for level in self.program.levels:
            for kind, bits in (("pos", spec.positions_bits), ("crd", spec.coordinate_bits)):
                name = f"{level.name}_{kind}"
                lines[name] = f"const {C_INDICES[bits]} *restrict {name} = A->{kind}[{level.depth}];"
            lines[f"last_{level.name}"] = f"const {C_SIZE} last_{level.name} = A->n_positions[{level.depth}] - 1;"
        lines |= slice_declarations(value)
        if expression.sampled:
            lines |= sampled_declarations(spec, C_INDICES[spec.positions_bits])
        else:
            lines["vals"] = f"const {stored_type(spec)} *restrict vals = A->vals;"
        for access in expression.dense:
            lines[f"{access.tensor}_"] = (
                f"const {value} *restrict {access.tensor}_ = (const {value} *)call->{access.tensor};"
            )
        output = expression.output.tensor
        lines[f"{output}_"] = f"{value} *restrict {output}_ = ({value} *)call->{output};"
        return lines


def _extents(program: ir.Program) -> dict[str, str]:
    """Return the declarations of the extents of the outer coordinates."""
    nodes = [node for node in ir.walk(program.body) if isinstance(node, ir.ForDense | ir.ForTiles)]
    coordinates = {level.coordinate for level in program.levels} | {node.coordinate for node in nodes}
    return {
        f"n_{c.name}": f"const {C_SIZE} n_{c.name} = "
        + (f"n_{c.index};" if c.split == 1 else f"(n_{c.index} + {c.split - 1}) / {c.split};")
        for c in sorted(coordinates, key=lambda c: c.name)
        if c.is_outer
    }
