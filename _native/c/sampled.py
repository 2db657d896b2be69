"""Emission of results at the stored entries of the sparse operand in C: sums across vectors, several at once, and
stores.

Vectors whose lanes must be summed are folded together. For a and b, one exchange of halves gives a vector with a's
lanes in one half and b's in the other, and so on until one lane per vector remains. Eight sums of eight lanes take
seven such steps; computed one by one they would take twenty-four.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from autosparse._native.c.block import BlockShape, Cell, first_test
from autosparse._native.c.types import C_INDICES, C_VALUES, vector_type
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.ir.writer import Writer

from autosparse.core.formats import Format
from autosparse.scalar import C_SIZE


def emit_sampled_store(out: Writer, shape: BlockShape, node: ir.Workspace) -> None:
    """Sum the accumulators of each cell, fold lanes, multiply by the values, and store at the entries."""
    cells = [(one, cell) for one in shape.entries() for cell in one.cells(output=True)]
    totals = []
    for one, cell in cells:
        total = one.accumulator(one.entry * shape.ways, cell)
        for way in range(1, shape.ways):
            out.line(f"{total} += {one.accumulator(one.entry * shape.ways + way, cell)};")
        totals.append(total)
    at = 0
    while at < len(cells):
        n = 1
        while 2 * n <= min(shape.lanes, len(cells) - at):
            n *= 2
        _emit_group(out, shape, node, cells[at : at + n], totals[at : at + n])
        at += n


def _emit_group(
    out: Writer, shape: BlockShape, node: ir.Workspace, cells: Sequence[tuple[BlockShape, Cell]], totals: Sequence[str]
) -> None:
    """Emit the results of `cells`, at most as many as a vector has lanes, from their accumulators `totals`."""
    n, dtype = len(cells), vector_type(shape.spec, len(cells))
    shape.used.lanes.add(n)
    with out.block():
        if n > 1:
            shape.used.folds.add((shape.lanes, n))
            shape.used.lanes.add(shape.lanes)
            out.line(f"const {dtype} dots = fold_{n}_{shape.vector}({', '.join(totals)}){_rests(shape, node, cells)};")
        else:
            out.line(f"const {dtype} dots = sum_{shape.vector}({totals[0]}){_rests(shape, node, cells)};")
        positions = [one.position(cell) for one, cell in cells]
        padded = shape.spec.schedule.format.has_padding
        fmt = shape.spec.schedule.format
        adjacent = n > 1 and n == shape.n_entries and not padded
        first = first_test(shape, node)
        if adjacent and _keeps_rows(fmt):
            out.line(f"const {C_SIZE} e = origin ? origin[{positions[0]}] : {positions[0]};")
            _emit_vector(out, node, dtype, "e", first)
            return
        if adjacent:
            with nullcontext() if fmt.is_csr else out.block("if (!origin)"):
                _emit_vector(out, node, dtype, positions[0], first)
            if fmt.is_csr:
                return
        with out.block("else") if adjacent else nullcontext():
            for place, position in enumerate(positions):
                value = f"dots[{place}]" if n > 1 else "dots"
                emit_entry(out, shape.spec, position, value, before=_before(node, "O_[e]", "0", first))


def _keeps_rows(fmt: Format) -> bool:
    """Return whether rows are permuted while each row's entries stay contiguous in their own order."""
    return bool(fmt.rows) and str(fmt).startswith(("i1:U,k1:C", "i1:C,k1:C")) and len(fmt.levels) == 2


def _rests(shape: BlockShape, node: ir.Workspace, cells: Sequence[tuple[BlockShape, Cell]]) -> str:
    """Return C text that adds the accumulators of tiles narrower than a vector, or "" if there is no such tile."""
    if not narrow_widths(shape, node):
        return ""
    names = [one.narrow().accumulator(one.entry, cell) for one, cell in cells]
    return f" + {names[0]}" if len(names) == 1 else f" + ({vector_type(shape.spec, len(names))}){{{', '.join(names)}}}"


def narrow_widths(shape: BlockShape, node: ir.Workspace) -> bool:
    """Return whether a tile inside the workspace is narrower than its vectors."""
    tiles = [inner for inner in ir.walk(node.body) if isinstance(inner, ir.ForTiles)]
    return any(width < shape.lanes for tile in tiles for width in (*tile.widths, *tile.partial))


def _before(node: ir.Workspace, held: str, zero: str, first: str) -> str:
    """Return C text of the output's content from outer loops, to be added, or "" if the sum starts from zero."""
    if node.init == "zero":
        return ""
    return f"({first} ? {zero} : {held}) + " if first else f"{held} + "


def _emit_vector(out: Writer, node: ir.Workspace, dtype: str, position: str, first: str) -> None:
    held = _before(node, f"load_{dtype}(O_ + {position})", f"({dtype}){{0}}", first)
    out.line(f"store_{dtype}(O_ + {position}, {held}load_{dtype}(vals + {position}) * dots);")


def emit_entry(out: Writer, spec: KernelSpec, position: str, value: str, *, before: str) -> None:
    """Emit the store of one result: at its position's entry, at all its repeated entries, or nowhere for padding."""
    fmt = spec.schedule.format
    store = f"O_[e] = {before}vals[e] * {value};"
    if fmt.has_padding:
        with out.block(f"for ({C_SIZE} e = origin[{position}]; e >= 0; e = repeats ? repeats[e] : -1)"):
            out.line(store)
        return
    with out.block():
        out.line(f"const {C_SIZE} e = {position if fmt.is_csr else f'origin ? origin[{position}] : {position}'};")
        out.line(store)


def emit_empty_sums(out: Writer, spec: KernelSpec) -> None:
    """Emit the case of no columns: an empty sum is 0, times the value."""
    last = spec.schedule.format.order[-1]
    with out.block("if (n_j == 0)"):
        with out.block(f"for ({C_SIZE} p = 0; p <= last_{last}; p++)"):
            emit_entry(out, spec, "p", f"({C_VALUES[spec.dtype]})0", before="")
        out.line("return 0;")


def sampled_declarations(spec: KernelSpec, position_type: str) -> dict[str, str]:
    """Return the declarations of the values and of the entries' positions."""
    value = C_VALUES[spec.dtype]
    return {
        "vals": f"const {value} *restrict vals = (const {value} *)call->vals;",
        "origin": f"const {position_type} *restrict origin = A->origin;",
        "repeats": f"const {position_type} *restrict repeats = A->repeats;",
    }


def fold_helpers(spec: KernelSpec, lanes: int, n: int) -> str:
    """Return the helper ``fold_n``: the sums across n vectors, as the lanes of one."""
    name, small = vector_type(spec, lanes), vector_type(spec, n)
    vectors, half, body = [f"v{e}" for e in range(n)], lanes, []
    while len(vectors) > 1:
        half //= 2
        middle = len(vectors) // 2
        for e in range(middle):
            a, b = vectors[e], vectors[e + middle]
            keep = [lanes + lane if lane & half else lane for lane in range(lanes)]
            cross = [lanes + lane - half if lane & half else lane + half for lane in range(lanes)]
            body.append(
                f"const {name} s{half}_{e} = {_pick(spec, lanes, a, b, keep)} + {_pick(spec, lanes, a, b, cross)};"
            )
        vectors = [f"s{half}_{e}" for e in range(middle)]
    total = vectors[0]
    while half > 1:
        half //= 2
        swap = [lane ^ half for lane in range(lanes)]
        body.append(f"const {name} s{half} = {total} + {_pick(spec, lanes, total, total, swap)};")
        total = f"s{half}"
    places = ", ".join(f"{total}[{lane}]" for lane in range(0, lanes, lanes // n))
    body.append(f"return {total};" if n == lanes else f"return ({small}){{{places}}};")
    arguments = ", ".join(f"{name} v{e}" for e in range(n))
    lines = "".join(f"    {line}\n" for line in body)
    return f"{_shuffle(spec, lanes)}static inline {small} fold_{n}_{name}({arguments})\n{{\n{lines}}}\n"


def _pick(spec: KernelSpec, lanes: int, a: str, b: str, lanes_wanted: list[int]) -> str:
    return f"shuffle_{vector_type(spec, lanes)}({a}, {b}, {', '.join(map(str, lanes_wanted))})"


def _shuffle(spec: KernelSpec, lanes: int) -> str:
    """Return the definition of a two-source shuffle with constant lanes for gcc or clang."""
    name = vector_type(spec, lanes)
    integer = C_INDICES[8 * spec.value_bytes]
    return f"""\
#ifndef shuffle_{name}
#if defined(__clang__) || __GNUC__ >= 12
#define shuffle_{name}(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef {integer} lanes_{name} __attribute__((vector_size({lanes * spec.value_bytes})));
#define shuffle_{name}(a, b, ...) __builtin_shuffle(a, b, (lanes_{name}){{__VA_ARGS__}})
#endif
#endif
"""
