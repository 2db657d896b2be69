"""Entries of a row as vector lanes, for products of one column with long rows; elements of B are gathered."""

from __future__ import annotations

from autosparse._native.c.block import BlockShape
from autosparse._native.c.complex_values import add_product, declared, whole, zero_of
from autosparse._native.c.types import masked_gather, vector_type
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.block import lanes_of
from autosparse._native.ir.writer import Writer

from autosparse.core.values import dataclass
from autosparse.scalar import C_SIZE


@dataclass(frozen=True)
class GatherShape:
    """A step of `unroll` entries, in vectors of as many lanes as a register has."""

    base: BlockShape
    unroll: int

    @property
    def lanes(self) -> int:
        """Number of lanes of one vector."""
        return lanes_of(self.unroll, self.base.spec.max_lanes)

    @property
    def vector(self) -> str:
        """Type of the vectors; reading it also requests its helper functions."""
        self.base.used.lanes.add(self.lanes)
        self.base.used.gather.add(self.lanes)
        return vector_type(self.base.spec, self.lanes)

    @property
    def masked(self) -> bool:
        """Return whether the last, incomplete step is computed by the same vectors, with masked lanes."""
        return masked_gather(self.base.spec, self.lanes)

    @property
    def output(self) -> str:
        """C text of the output cell."""
        return f"*({self.base.output_address(self.base.block.expression.output, {})})"


def emit_gather_init(out: Writer, shape: GatherShape, node: ir.Workspace) -> None:
    """Declare the accumulators: vectors for whole steps, `rest` for the output's content and single entries."""
    zero = zero_of(shape.base.spec)
    first = " && ".join(f"{name} == 0" for name in node.first)
    start = zero if node.init == "zero" else f"{first} ? {zero} : {shape.output}" if first else shape.output
    spec = shape.base.spec
    out.line(declared(spec, vector_type(spec, 1), "rest", start))
    for group in range(shape.unroll // shape.lanes):
        out.line(declared(spec, shape.vector, f"sum_{group}", "{0}"))


def emit_gather_store(out: Writer, shape: GatherShape) -> None:
    """Sum all accumulators and store the result."""
    spec = shape.base.spec
    groups = " + ".join(whole(spec, shape.lanes, f"sum_{group}") for group in range(shape.unroll // shape.lanes))
    out.line(f"{shape.output} = {whole(spec, 1, 'rest')} + sum_{shape.vector}({groups});")


def emit_gather_loop(out: Writer, shape: GatherShape, node: ir.ForStored) -> None:
    """Emit whole steps, then the rest: masked if the instruction set allows it, else entry by entry."""
    name, level = node.level.name, node.level
    parent = level.parent_position
    access = shape.base.block.expression.dense[0]
    dense = f"{access.tensor}_"
    if level.coordinate.split > 1:
        outer = level.coordinate.partner
        dense = f"({dense} + {outer} * {level.coordinate.split})"
    out.line(f"{C_SIZE} p_{name} = {name}_pos[{parent}];")
    out.line(f"const {C_SIZE} end_{name} = {name}_pos[{'1' if parent == '0' else parent + ' + 1'}];")
    step = shape.unroll
    if not (shape.masked and step == shape.lanes):
        with out.block(f"for (; p_{name} + {step} <= end_{name}; p_{name} += {step})"):
            for group in range(step // shape.lanes):
                at = f"p_{name} + {group * shape.lanes}" if group else f"p_{name}"
                if shape.masked:
                    product = _masked_product(shape, name, at, dense, str(shape.lanes))
                    out.line(f"sum_{group} += {product};")
                else:
                    out.line(_step(shape, f"sum_{group}", name, at, dense))
    if shape.masked:
        with out.block(f"for (; p_{name} < end_{name}; p_{name} += {shape.lanes})"):
            out.line(f"sum_0 += {_masked_product(shape, name, f'p_{name}', dense, f'end_{name} - p_{name}')};")
    else:
        with out.block(f"for (; p_{name} < end_{name}; p_{name}++)"):
            is_narrow = bool(shape.base.spec.schedule.format.values)
            value = f"widen_f32x1(vals[p_{name}])" if is_narrow else f"vals[p_{name}]"
            out.line(add_product(shape.base.spec, 1, "rest", (value, f"{dense}[{name}_crd[p_{name}]]")))


def _masked_product(shape: GatherShape, name: str, at: str, dense: str, n: str) -> str:
    if shape.base.spec.schedule.format.values:
        shape.base.used.stored.add(shape.lanes)
    return f"product_{shape.vector}(vals + {at}, {name}_crd + {at}, {dense}, {n})"


def _step(shape: GatherShape, to: str, name: str, at: str, dense: str) -> str:
    """Return the statement that adds the products of the next entries to the lanes of `to`."""
    is_narrow = bool(shape.base.spec.schedule.format.values)
    if is_narrow:
        shape.base.used.stored.add(shape.lanes)
    load = "load_stored_" if is_narrow else "load_"
    values, found = f"{load}{shape.vector}(vals + {at})", f"gather_{shape.vector}({dense}, {name}_crd + {at})"
    return add_product(shape.base.spec, shape.lanes, to, (values, found))
