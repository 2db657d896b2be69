"""Python emitter: loop IR to functions that numba compiles, where there is no C compiler (`emit`).

The text has one function per task (the body of the parallel loop) and one for the kernel, with the C kernel's
arguments. Each IR node has a rule (`RULES`). The functions that the text calls are in `intrinsics`. Unrolling,
prefetching and vector lanes of the schedule are left to LLVM, which may reorder sums to vectorise them.

Slices are loops over slots and lanes, for each way in which they store columns; ``runtime/pack/pack_slices.c``
describes the arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from autosparse._native.c.parallel import PARTS_PER_THREAD
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.lower import lower
from autosparse._native.ir.rough_times import COLUMN_NS, entry_ns
from autosparse._native.ir.slice_layout import BASE_SHIFT, DIAGONAL, IN_ORDER, KIND_MASK, NARROW, WIDE
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.ir.writer import PythonWriter
from autosparse._native.numba.block import emit_block, emit_workspace
from autosparse._native.numba.emitting import INTEGERS, OPERAND_WORDS, NumbaEmitter, NumbaScope

from autosparse.core.expression import Access


def emit_slice(emitter: NumbaEmitter, node: ir.SumSlots, scope: NumbaScope) -> None:
    """Emit the code of one slice: accumulators, the sum over its slots, and the store by rows."""
    out, lanes = scope.out, node.lanes.split
    value = emitter.value
    load = f"load_{emitter.positions}({node.level.name}_pos"
    kinds = [DIAGONAL] * node.diagonals + [WIDE] + [NARROW] * node.narrow
    out.line(f"slot = {load}, i1)")
    out.line(f"n_slots = {load}, i1 + 1) - slot")
    out.line(f"cells = slot * {lanes}")
    if len(kinds) > 1 or node.is_permuted:
        out.line("what = load_i64(slice_what, i1)")
    out.line(f"acc0 = stack_{value}({lanes})")
    with out.block(f"for lane in range({lanes})"):
        out.line(f"store_{value}(acc0, lane, ZERO)")
    for at, kind in enumerate(kinds):
        test = f"if what & {KIND_MASK} == {kind}"
        head = "if True" if len(kinds) == 1 else test if at == 0 else "else" if at + 1 == len(kinds) else f"el{test}"
        with out.block(head):
            _emit_slots(emitter, node, scope, kind)
    _emit_store(emitter, node, scope)


def _emit_slots(emitter: NumbaEmitter, node: ir.SumSlots, scope: NumbaScope, kind: int) -> None:
    out, lanes, tensor = scope.out, node.lanes.split, node.expression.dense[0].tensor
    value = emitter.value
    stored, item_bytes = (INTEGERS[16], 2) if kind == NARROW else (INTEGERS[32], 4)
    # `slice_begin` counts units of the format's width; `crd` begins there.
    unit_bytes = emitter.spec.schedule.format.index_bits // 8
    begin = "load_i64(slice_begin, i1)" if node.diagonals or node.narrow else "cells"
    out.line(f"crd = {node.level.name}_crd + {begin} * {unit_bytes if kind != NARROW else item_bytes}")
    if kind == NARROW:
        out.line(f"base = what >> {BASE_SHIFT}")
    with out.block("for s in range(n_slots)"):
        if kind == DIAGONAL:
            out.line(f"first_column = load_{stored}(crd, s)")
        with out.block(f"for lane in range({lanes})"):
            column = {
                DIAGONAL: "first_column + lane",
                WIDE: f"load_{stored}(crd, s * {lanes} + lane)",
                NARROW: f"base + load_{stored}(crd, s * {lanes} + lane)",
            }[kind]
            cell = f"cells + s * {lanes} + lane"
            stored_value = (
                f"load_{value}(slice_table, load_u8(vals, {cell}))" if node.numbered else f"load_{value}(vals, {cell})"
            )
            product = f"{stored_value} * load_{value}({tensor}, {column})"
            out.line(f"store_{value}(acc0, lane, load_{value}(acc0, lane) + {product})")


def _emit_store(emitter: NumbaEmitter, node: ir.SumSlots, scope: NumbaScope) -> None:
    out, lanes = scope.out, node.lanes.split
    value = emitter.value
    output, n = node.expression.output.tensor, f"n_{node.expression.output.indices[0]}"
    if node.is_permuted:
        out.line("first_row = load_i32(slice_first, i1)")
        out.line(f"in_order = what & {IN_ORDER}")
    with out.block(f"for lane in range({lanes})"):
        if node.is_permuted:
            listed = f"load_i32(slice_rows, first_row * {lanes} + lane)"
            out.line(f"row = first_row + lane if in_order != 0 else {listed}")
        else:
            out.line(f"row = i1 * {lanes} + lane")
        out.line(f"total = load_{value}(acc0, lane)")
        with out.block(f"if not {emitter.finite_text}"):
            out.line("bad = 1")
        with out.block(f"if row < {n}"):
            out.line(f"store_{value}({output}, row, total)")


def _for_dense(emitter: NumbaEmitter, node: ir.ForDense, scope: NumbaScope) -> None:
    name, count = node.coordinate.name, emitter.extent_text(node.extent)
    if node.parallel:
        weights = "0"
        if node.weights:
            parent = emitter.program.levels[node.weights.depth - 1].parent_position
            whole = emitter.extent_text(ir.Extent(node.coordinate, partner_bound=False))
            weights = _moved(emitter, f"{node.weights.name}_pos", "" if parent == "0" else f"{parent} * {whole}")

        def write(inside: NumbaScope) -> None:
            with inside.out.block(f"for {name} in range(begin, end)"):
                emitter.run(node.body, inside.binding(name))

        _emit_parallel(emitter, scope, count=count, weights=weights, write=write)
        return
    with scope.out.block(f"for {name} in range({count})"):
        emitter.run(node.body, replace(scope.binding(name), extents=(*scope.extents, count)))


def _moved(emitter: NumbaEmitter, array: str, by: str) -> str:
    """Return the expression of the address of the element `by` places further in a pos array."""
    return f"{array} + {emitter.spec.positions_bits // 8} * ({by})" if by else array


def _for_tiles(emitter: NumbaEmitter, node: ir.ForTiles, scope: NumbaScope) -> None:
    index, tile, count = node.coordinate.index, node.coordinate.split, f"n_{node.coordinate.name}"
    if node.parallel:

        def write(inside: NumbaScope) -> None:
            inside.out.line(f"{index} = begin * {tile}")
            _widths(emitter, node, inside, end=f"min(n_{index}, end * {tile})")

        _emit_parallel(emitter, scope, count=count, weights="0", write=write)
        return
    scope.out.line(f"{index} = 0")
    _widths(emitter, node, replace(scope, extents=(*scope.extents, count)), end=f"n_{index}")


def _widths(emitter: NumbaEmitter, node: ir.ForTiles, scope: NumbaScope, *, end: str) -> None:
    """Emit whole tiles, whose width is a constant inside, then the rest."""
    index, tile, out = node.coordinate.index, node.coordinate.split, scope.out
    inner = replace(scope.binding(index), tile=index)
    out.line(f"end_{index} = {end}")
    with out.block(f"while {index} + {tile} <= end_{index}"):
        emitter.run(node.body, replace(inner, width=str(tile)))
        out.line(f"{index} += {tile}")
    if tile > 1:
        out.line(f"width = end_{index} - {index}")
        with out.block("if width > 0"):
            emitter.run(node.body, replace(inner.binding("width"), width="width"))


def _fiber(emitter: NumbaEmitter, level: ir.StoredLevel) -> tuple[str, str]:
    """Return expressions of the first position of a compressed level's fiber below its parent, and of its end."""
    parent, load = level.parent_position, f"load_{emitter.positions}"
    after = "1" if parent == "0" else f"{parent} + 1"
    return f"{load}({level.name}_pos, {parent})", f"{load}({level.name}_pos, {after})"


def _for_stored(emitter: NumbaEmitter, node: ir.ForStored, scope: NumbaScope) -> None:
    name, out = node.level.name, scope.out
    low, high = _fiber(emitter, node.level)
    coordinate = f"{name} = load_{INTEGERS[emitter.spec.coordinate_bits]}({name}_crd, p_{name})"
    if not node.parallel:
        with out.block(f"for p_{name} in range({low}, {high})"):
            out.line(coordinate)
            emitter.run(node.body, scope.binding(f"p_{name}", name))
        return
    out.line(f"low_{name} = {low}")

    def write(inside: NumbaScope) -> None:
        with inside.out.block(f"for p_{name} in range(low_{name} + begin, low_{name} + end)"):
            inside.out.line(coordinate)
            emitter.run(node.body, inside.binding(f"p_{name}", name))

    weights = _moved(emitter, f"{node.weights.name}_pos", f"low_{name}") if node.weights else "0"
    outer = scope.binding(f"low_{name}")
    _emit_parallel(emitter, outer, count=f"{high} - low_{name}", weights=weights, write=write)


def _locate(emitter: NumbaEmitter, node: ir.Locate, scope: NumbaScope) -> None:
    name, parent = node.level.name, node.level.parent_position
    at = name if parent == "0" else f"{parent} * {emitter.extent_text(node.extent)} + {name}"
    scope.out.line(f"p_{name} = {at}")


def _fetch(emitter: NumbaEmitter, node: ir.Fetch, scope: NumbaScope) -> None:
    name, kind = node.level.name, INTEGERS[emitter.spec.coordinate_bits]
    scope.out.line(f"p_{name} = {node.level.parent_position}")
    scope.out.line(f"{name} = load_{kind}({name}_crd, p_{name})")


def _search(emitter: NumbaEmitter, node: ir.CoordinateSearch, scope: NumbaScope) -> None:
    name, out = node.level.name, scope.out
    low, high = _fiber(emitter, node.level)
    kind = INTEGERS[emitter.spec.coordinate_bits]
    out.line(f"end_{name} = {high}")
    out.line(f"sorted_{name} = sorted_levels >> {node.level.depth} & 1")
    start = f"first_{kind}({name}_crd, {low}, end_{name}, {name}, sorted_{name})"
    with out.block(f"for p_{name} in range({start}, end_{name})"):
        with out.block(f"if load_{kind}({name}_crd, p_{name}) != {name}"):
            with out.block(f"if sorted_{name}"):
                out.line("break")
            out.line("continue")
        emitter.run(node.body, scope.binding(f"p_{name}"))


def _guard(emitter: NumbaEmitter, node: ir.Guard, scope: NumbaScope) -> None:
    c = node.coordinate
    with scope.out.block(f"if {c.index}1 * {c.split} + {c.index}0 >= n_{c.index}"):
        scope.out.line("continue")


def _zero(emitter: NumbaEmitter, node: ir.Zero, scope: NumbaScope) -> None:
    zero_output(emitter, node.output, scope.out)


def zero_output(emitter: NumbaEmitter, output: Access, out: PythonWriter) -> None:
    """Emit loops that clear the output."""
    value = emitter.value
    with out.block(f"for row in range(n_{output.indices[0]})"):
        if len(output.indices) == 1:
            out.line(f"store_{value}({output.tensor}, row, ZERO)")
        else:
            with out.block(f"for column in range(n_{output.indices[1]})"):
                out.line(f"store_{value}({output.tensor}, row * ld{output.tensor} + column, ZERO)")


def _emit_parallel(
    emitter: NumbaEmitter, scope: NumbaScope, *, count: str, weights: str, write: Callable[[NumbaScope], None]
) -> None:
    """Emit the loop's body as a task over parts of `count` iterations (see `c.parallel`), and its call."""
    number, out, slots = len(emitter.tasks), scope.out, emitter.slots
    emitter.tasks.append("")
    emitter.tasks[number] = _task(emitter, scope, number, write)
    out.line(f"n = {count}")
    out.line(f"weights = {weights}")
    out.line(
        f"n_parts = (n + chunk - 1) // chunk if chunk > 0 else {PARTS_PER_THREAD} * n_threads if n_threads > 1 else 1"
    )
    out.line(f"task = task_{number}_address()")
    out.line(f"x = stack_i64({len(slots) + len(scope.variables)})")
    for slot, name in enumerate((*slots, *scope.variables)):
        out.line(f"store_i64(x, {slot}, {name})")
    serial = "run_task(task, x, 0, n_parts)"
    if emitter.program.private:  # every part adds to the same results
        out.line(serial)
    else:
        with out.block("if pool == 0 or n_threads <= 1"):
            out.line(serial)
        with out.block("else"):
            entries = f"load_i64(A, {OPERAND_WORDS['n_positions'] + len(emitter.program.levels) - 1})"
            rounds = "".join(f" / float({extent})" for extent in scope.extents)
            each_ns = f"({entry_ns(emitter.spec.schedule.format)} + {COLUMN_NS} * float(n_j))"
            out.line(f"serial_ns = float({entries}) * {each_ns}{rounds}")
            most = "1 + n_parts // (4 * n_threads)"
            out.line(f"run_parallel(pool, task, x, n_parts, {most}, n_threads, serial_ns)")
    out.line(f"bad |= load_i64(x, {slots.index('bad')})")


def _task(emitter: NumbaEmitter, scope: NumbaScope, number: int, write: Callable[[NumbaScope], None]) -> str:
    """Return the text of the task function."""
    inside = replace(scope, out=PythonWriter(), extents=())
    write(inside)
    body, boundary = inside.out.text(), f"boundary_{emitter.positions}"
    head = (
        f"    begin = {boundary}(weights, n, chunk, part, n_parts)\n"
        f"    end = {boundary}(weights, n, chunk, end_part, n_parts)\n"
    )
    variables = "".join(
        f"    {name} = load_i64(x, {len(emitter.slots) + at})\n"
        for at, name in enumerate(scope.variables)
        if re.search(rf"\b{name}\b", body)
    )
    tail = ""
    if re.search(r"\bbad = 1", body):
        body = f"    bad = 0\n{body}"
        tail = f"    if bad != 0:\n        store_i64(x, {emitter.slots.index('bad')}, 1)\n"
    declared = emitter.declare(head + body, ("bad", *scope.variables), in_task=True)
    return f"def task_{number}(x, part, end_part):\n{declared}{variables}{head}{body}{tail}\n\n"


RULES: Final[Mapping[type, Callable[[NumbaEmitter, Any, NumbaScope], None]]] = {
    ir.ForDense: _for_dense,
    ir.ForTiles: _for_tiles,
    ir.ForStored: _for_stored,
    ir.Locate: _locate,
    ir.Fetch: _fetch,
    ir.CoordinateSearch: _search,
    ir.Guard: _guard,
    ir.Block: emit_block,
    ir.Workspace: emit_workspace,
    ir.SumSlots: emit_slice,
    ir.Zero: _zero,
}
"""Functions that emit each kind of node; to support a new node, add a row."""


def emit(spec: KernelSpec) -> str:
    """Return the Python source of `spec`: header comment (schedule, IR), tasks, kernel."""
    program = lower(spec)
    emitter = NumbaEmitter(spec, program, RULES)
    out = PythonWriter()
    empty = " or ".join(f"n_{index} == 0" for index in program.expression.sparse.indices)
    with out.block(f"if {empty}"):
        if not spec.adds:
            zero_output(emitter, program.expression.output, out)
        out.line("return 0")
    out.line("bad = 0")
    emitter.run(program.body, NumbaScope(out))
    out.line("return bad")
    known = (*emitter.parameters, "n", "n_parts", "weights", "bad")
    head = emitter.declare(out.text(), known, in_task=False)
    kernel = f"def kernel({', '.join(emitter.parameters)}):\n{head}{out.text()}"
    return _header(spec, program) + "".join(emitter.tasks) + kernel


def _header(spec: KernelSpec, program: ir.Program) -> str:
    schedule = spec.schedule
    lines = [
        "autosparse kernel",
        f"{schedule.format}; loops {' '.join(schedule.loop_order)}, parallel {schedule.parallel}",
        f"{spec.dtype}, indices {spec.index_dtype}",
        "",
        *str(program).splitlines(),
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + "\n\n"
