"""Emission of loops in C: one rule per IR node (`RULES`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from autosparse._native.c.block import emit_block, emit_heads, emit_init, emit_store
from autosparse._native.c.complex_values import zero_of
from autosparse._native.c.emitting import CEmitter, CScope
from autosparse._native.c.gather import GatherShape, emit_gather_init, emit_gather_loop, emit_gather_store
from autosparse._native.c.parallel import emit_parallel
from autosparse._native.c.prefetch import emit_prefetch
from autosparse._native.c.private import emit_private
from autosparse._native.c.rows import emit_whole_row
from autosparse._native.c.sampled import emit_sampled_store, narrow_widths
from autosparse._native.c.slices import emit_slice
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.spec import KernelSpec

from autosparse.core.expression import Access
from autosparse.scalar import C_SIZE


def _parallel(
    emitter: CEmitter, scope: CScope, *, count: str, weights: str | None, write: Callable[[CScope], None]
) -> None:  # fmt: skip
    """Emit a parallel loop over `count` iterations; `write` emits the loop over one part, ``begin .. end``.

    `weights` is the C text of a pos array by which parts get equal shares of stored entries, or None.
    """
    emit = emit_private if emitter.program.private else emit_parallel
    emit(emitter, scope, count=count, weights=weights, write=write)


def extent_text(extent: ir.Extent) -> str:
    """Return the C text of a dense loop's number of iterations."""
    c = extent.coordinate
    if not extent.partner_bound:
        return f"n_{c.name}" if c.is_outer else str(c.split)
    if c.is_outer:
        return f"(n_{c.index} - {c.partner} + {c.split - 1}) / {c.split}"
    return f"asp_min({c.split}, n_{c.index} - {c.partner} * {c.split})"


def _for_dense(emitter: CEmitter, node: ir.ForDense, scope: CScope) -> None:
    name, count = node.coordinate.name, extent_text(node.extent)
    if node.parallel:
        weights = None
        if node.weights:
            parent = emitter.program.levels[node.weights.depth - 1].parent_position
            whole = extent_text(ir.Extent(node.coordinate, partner_bound=False))
            weights = f"{node.weights.name}_pos" + (f" + {parent} * {whole}" if parent != "0" else "")

        def write(inside: CScope) -> None:
            with inside.out.block(f"for ({C_SIZE} {name} = begin; {name} < end; {name}++)"):
                emitter.run(node.body, inside.binding(name))

        _parallel(emitter, scope, count=count, weights=weights, write=write)
        return
    inner = replace(scope.binding(name), extents=(*scope.extents, count))
    with scope.out.block(f"for ({C_SIZE} {name} = 0, end_{name} = {count}; {name} < end_{name}; {name}++)"):
        emitter.run(node.body, inner)


def _for_tiles(emitter: CEmitter, node: ir.ForTiles, scope: CScope) -> None:
    index, tile, count = node.coordinate.index, node.coordinate.split, f"n_{node.coordinate.name}"
    if node.parallel:

        def write(inside: CScope) -> None:
            inside.out.line(f"const {C_SIZE} end_{index} = asp_min(n_{index}, end * {tile});")
            with inside.out.block(f"for ({C_SIZE} {index} = begin * {tile}; {index} < end_{index};)"):
                _widths(emitter, node, inside)

        _parallel(emitter, scope, count=count, weights=None, write=write)
        return
    scope.out.line(f"const {C_SIZE} end_{index} = n_{index};")
    with scope.out.block(f"for ({C_SIZE} {index} = 0; {index} < end_{index};)"):
        _widths(emitter, node, replace(scope, extents=(*scope.extents, count)))


def _widths(emitter: CEmitter, node: ir.ForTiles, scope: CScope) -> None:
    """Emit the body at every width: the widest that fits, else the narrowest masked one that holds the rest."""
    index = node.coordinate.index
    inner = replace(scope.binding(index, f"end_{index}"), tile_index=index)
    blocks = [each for each in ir.walk(node.body) if isinstance(each, ir.Block)] if scope.lanes else []
    for width in node.widths:
        test = f"if (end_{index} - {index} >= {width})"
        head = test if width == node.widths[0] else f"else {test}" if width > 1 else "else"
        with scope.out.block(head):
            emitter.run(node.body, replace(inner, width=width))
            scope.out.line(f"{index} += {width};")
    for width, below in reversed(tuple(zip(node.partial, (0, *node.partial), strict=False))):
        with scope.out.block(f"else if (end_{index} - {index} > {below})" if below else "else"):
            masked = replace(inner, width=width, least=below + 1)
            for block in blocks:  # of a workspace around the tiles, which declares no masks
                emit_heads(scope.out, emitter.shape(block, masked))
            emitter.run(node.body, masked)
            scope.out.line(f"{index} = end_{index};")


def _for_stored(emitter: CEmitter, node: ir.ForStored, scope: CScope) -> None:
    name, out = node.level.name, scope.out
    low, high = fiber_text(node.level)
    if node.parallel:
        _parallel_stored(emitter, node, scope)
        return
    if node.jam:
        _jammed(emitter, node, scope)
        return
    if node.vector:
        emit_gather_loop(out, gather_shape(emitter, node, scope), node)
        return
    out.line(f"{C_SIZE} p_{name} = {low};")
    out.line(f"const {C_SIZE} end_{name} = {high};")
    inner = scope.binding(f"p_{name}", name)
    if node.unroll > 1:
        with out.block(f"for (; p_{name} + {node.unroll} <= end_{name}; p_{name} += {node.unroll})"):
            out.line(f"const {C_SIZE} step_{name} = p_{name};")
            for copy in range(node.unroll):
                with out.block():
                    out.line(f"const {C_SIZE} p_{name} = step_{name} + {copy}, {name} = {name}_crd[p_{name}];")
                    _entry(emitter, node, inner, copy)
    with out.block(f"for (; p_{name} < end_{name}; p_{name}++)"):
        out.line(f"const {C_SIZE} {name} = {name}_crd[p_{name}];")
        _entry(emitter, node, inner, 0)


def _jammed(emitter: CEmitter, node: ir.ForStored, scope: CScope) -> None:
    """Emit steps of `unroll` entries that are computed together, then the rest by halves."""
    name, out = node.level.name, scope.out
    low, high = fiber_text(node.level)
    out.line(f"{C_SIZE} p_{name} = {low};")
    out.line(f"const {C_SIZE} end_{name} = {high};")
    emit_whole_row(emitter, node, scope)
    step = node.unroll
    while step:
        text = f"p_{name} + {step} <= end_{name}"
        with out.block(f"for (; {text}; p_{name} += {step})" if step == node.unroll else f"if ({text})"):
            for entry in range(step):
                p, at = f"p_{name}_{entry}", f"p_{name} + {entry}" if entry else f"p_{name}"
                out.line(f"const {C_SIZE} {p} = {at}, {name}_{entry} = {name}_crd[{p}];")
            fetched = [inside.level.name for inside in node.body if isinstance(inside, ir.Fetch)]
            inner = replace(scope.binding(), jam=(name, *fetched), n_entries=step)
            for entry in range(step if node.prefetch else 0):
                emit_prefetch(emitter, node, inner, entry)
            emitter.run(node.body, inner)
            if step < node.unroll:
                out.line(f"p_{name} += {step};")
        step = (1 << (step - 1).bit_length()) // 2


def fiber_text(level: ir.StoredLevel) -> tuple[str, str]:
    """Return C text of the first position of a compressed level's fiber below its parent, and of its end."""
    parent = level.parent_position
    after = "1" if parent == "0" else f"{parent} + 1"
    return f"{level.name}_pos[{parent}]", f"{level.name}_pos[{after}]"


def _parallel_stored(emitter: CEmitter, node: ir.ForStored, scope: CScope) -> None:
    name = node.level.name
    low, high = fiber_text(node.level)
    scope.out.line(f"const {C_SIZE} low_{name} = {low};")

    def write(inside: CScope) -> None:
        with inside.out.block(f"for ({C_SIZE} p_{name} = low_{name} + begin; p_{name} < low_{name} + end; p_{name}++)"):
            inside.out.line(f"const {C_SIZE} {name} = {name}_crd[p_{name}];")
            emitter.run(node.body, inside.binding(f"p_{name}", name))

    weights = f"{node.weights.name}_pos + low_{name}" if node.weights else None
    outer = scope.binding(f"low_{name}")
    _parallel(emitter, outer, count=f"{high} - low_{name}", weights=weights, write=write)


def _entry(emitter: CEmitter, node: ir.ForStored, scope: CScope, copy: int) -> None:
    """Emit one stored entry: prefetch, then the body."""
    if node.prefetch:
        emit_prefetch(emitter, node, scope)
    emitter.run(node.body, replace(scope, copy=copy))


def gather_shape(emitter: CEmitter, node: ir.ForStored, scope: CScope) -> GatherShape:
    """Return the shape of a loop whose entries are lanes."""
    return GatherShape(emitter.shape(node.body[0], scope), node.unroll)  # type: ignore[arg-type]  # a lone block


def _locate(emitter: CEmitter, node: ir.Locate, scope: CScope) -> None:
    name, parent = node.level.name, node.level.parent_position
    at = name if parent == "0" else f"{parent} * {extent_text(node.extent)} + {name}"
    scope.out.line(f"const {C_SIZE} p_{name} = {at};")


def _fetch(emitter: CEmitter, node: ir.Fetch, scope: CScope) -> None:
    name, parent = node.level.name, node.level.parent_position
    ends = [f"_{entry}" for entry in range(scope.n_entries)] if name in scope.jam else [""]
    for end in ends:
        scope.out.line(f"const {C_SIZE} p_{name}{end} = {parent}{end}, {name}{end} = {name}_crd[p_{name}{end}];")


def _search(emitter: CEmitter, node: ir.CoordinateSearch, scope: CScope) -> None:
    name, out = node.level.name, scope.out
    low, high = fiber_text(node.level)
    out.line(f"const {C_SIZE} end_{name} = {high};")
    out.line(f"const int sorted_{name} = (int)(A->sorted >> {node.level.depth} & 1);")
    start = f"asp_first({name}_crd, {low}, end_{name}, {name}, sorted_{name})"
    with out.block(f"for ({C_SIZE} p_{name} = {start}; p_{name} < end_{name}; p_{name}++)"):
        with out.block(f"if (({C_SIZE}){name}_crd[p_{name}] != {name})"):
            out.line(f"if (sorted_{name})")
            out.line("    break;")
            out.line("continue;")
        emitter.run(node.body, scope.binding(f"p_{name}"))


def _guard(emitter: CEmitter, node: ir.Guard, scope: CScope) -> None:
    c = node.coordinate
    scope.out.line(f"if ({c.index}1 * {c.split} + {c.index}0 >= n_{c.index})")
    scope.out.line("    continue;")


def _block(emitter: CEmitter, node: ir.Block, scope: CScope) -> None:
    shape = emitter.shape(node, scope)
    emit_block(scope.out, shape if scope.lanes == shape.lanes else shape.narrow(), scope.copy)


def _workspace(emitter: CEmitter, node: ir.Workspace, scope: CScope) -> None:
    with scope.out.block():
        loop = next((n for n in ir.walk(node.body) if isinstance(n, ir.ForStored) and n.vector), None)
        if loop is not None:
            gather = gather_shape(emitter, loop, scope)
            emit_gather_init(scope.out, gather, node)
            emitter.run(node.body, scope)
            emit_gather_store(scope.out, gather)
            return
        inside = replace(scope, depth=node.depth, ways=node.ways, copy=0)
        shape = emitter.shape(node.block, inside)
        emit_init(scope.out, shape, node)
        if narrow_widths(shape, node):
            emit_init(scope.out, shape.narrow(), node)
        emitter.run(node.body, replace(inside, lanes=shape.lanes))
        if node.block.expression.sampled:
            emit_sampled_store(scope.out, shape, node)
        else:
            emit_store(scope.out, shape, node)


def _sum_slots(emitter: CEmitter, node: ir.SumSlots, scope: CScope) -> None:
    emit_slice(scope.out, emitter.spec, node, emitter.used)


def zero_text(output: Access, spec: KernelSpec) -> str:
    """Return C text that clears the output."""
    name, row, zero = f"{output.tensor}_", output.indices[0], zero_of(spec)
    if len(output.indices) == 1:
        return f"for ({C_SIZE} at = 0; at < n_{row}; at++) {name}[at] = {zero};"
    column = output.indices[1]
    inner = f"for ({C_SIZE} to = 0; to < n_{column}; to++) {name}[at * ld{output.tensor} + to] = {zero};"
    return f"for ({C_SIZE} at = 0; at < n_{row}; at++) {inner}"


def _zero(emitter: CEmitter, node: ir.Zero, scope: CScope) -> None:
    scope.out.line(zero_text(node.output, emitter.spec))


RULES: Final[Mapping[type, Callable[[CEmitter, Any, CScope], None]]] = {
    ir.ForDense: _for_dense,
    ir.ForTiles: _for_tiles,
    ir.ForStored: _for_stored,
    ir.Locate: _locate,
    ir.Fetch: _fetch,
    ir.CoordinateSearch: _search,
    ir.Guard: _guard,
    ir.Block: _block,
    ir.Workspace: _workspace,
    ir.SumSlots: _sum_slots,
    ir.Zero: _zero,
}
"""Functions that emit each kind of node; to support a new node, add a row."""
