"""Emission of the parallel loop in C: its body as a task function, its iterations divided into parts.

A part is either `chunk` iterations, or an equal share of the stored entries (plus iterations) below the loop, found by
bisection in the pos array of the next level. There are many more parts than threads, and idle threads take the next
part, so a descheduled thread delays only its own part. Without a pool, or with one thread, the task runs in place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from autosparse._native.c.complex_values import is_complex
from autosparse._native.c.emitting import CEmitter, CScope
from autosparse._native.c.types import C_INDICES, vector_type
from autosparse._native.ir.rough_times import COLUMN_NS, entry_ns
from autosparse._native.ir.writer import Writer

from autosparse.scalar import C_REAL, C_SIZE

PARTS_PER_THREAD: Final = 16


def emit_parallel(
    emitter: CEmitter, scope: CScope, *, count: str, weights: str | None, write: Callable[[CScope], None]
) -> None:
    """Emit a task that `write` fills, over ``begin .. end`` of `count` iterations, and its parallel call."""
    number = len(emitter.tasks)
    name = "task" + (
        f"_{scope.width}{'_part' if scope.least else ''}" if scope.width else f"_{number}" if number else ""
    )
    emitter.tasks.append("")  # reserves the position in order of occurrence
    emitter.tasks[number] = _task(emitter, scope, name, write)
    out = scope.out
    with out.block():
        out.line(f"{name}_context x = {{.call = call, .n = {count}, .weights = {weights or 'NULL'}}};")
        for variable in scope.variables:
            out.line(f"x.{variable} = {variable};")
        out.line(
            f"x.n_parts = chunk > 0 ? (x.n + chunk - 1) / chunk : n_threads > 1 ? {PARTS_PER_THREAD} * n_threads : 1;"
        )
        out.line("if (!A->parallel || n_threads <= 1)")
        out.line(f"    {name}(&x, 0, x.n_parts);")
        with out.block("else"):
            entries = f"({C_REAL})A->n_positions[{len(emitter.program.levels) - 1}]"
            rounds = "".join(f" / ({C_REAL})({extent})" for extent in scope.extents)
            each_ns = f"({entry_ns(emitter.spec.schedule.format)} + {COLUMN_NS} * ({C_REAL})n_j)"
            out.line(f"const {C_REAL} serial_ns = {entries} * {each_ns}{rounds};")
            out.line(
                f"A->parallel({name}, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);"
            )
        out.line("bad |= x.bad;")


def _task(emitter: CEmitter, scope: CScope, name: str, write: Callable[[CScope], None]) -> str:
    """Return C text of the struct of a task's context and of the task function, whose body `write` emits."""
    inside = replace(scope, out=Writer(), extents=())
    write(inside)
    body = inside.out.text()
    head, tail = Writer(), Writer()
    head.line(f"{name}_context *x = context;")
    head.line("const asp_call *call = x->call;")
    head.line(f"const {C_SIZE} begin = asp_boundary(x->weights, x->n, call->chunk, part, x->n_parts);")
    head.line(f"const {C_SIZE} end = asp_boundary(x->weights, x->n, call->chunk, end_part, x->n_parts);")
    for variable in scope.variables:
        if re.search(rf"\b{variable}\b", body):
            head.line(f"const {C_SIZE} {variable} = x->{variable};")
    checks, reports = finite_checks(emitter, body)
    for line in checks:
        head.line(line)
    for line in reports:
        tail.line(line)
    if completes_rows(emitter, scope):
        split = emitter.spec.schedule.format.split("i")
        rows = "begin, end" if split == 1 else f"begin * {split}, end * {split}"
        tail.line(f"if (A->done) A->done(A->observer, {rows});")
    fields = "".join(f"    {C_SIZE} {variable};\n" for variable in scope.variables)
    context = (
        f"typedef struct {{\n    const asp_call *call;\n    {C_SIZE} n, n_parts;\n"
        f"    const {C_INDICES[emitter.spec.positions_bits]} *weights;\n{fields}    int bad;\n}} {name}_context;\n"
    )
    text = head.text() + emitter.declare(head.text() + body + tail.text()) + body + tail.text()
    return f"{context}\nstatic void {name}(void *context, {C_SIZE} part, {C_SIZE} end_part)\n{{\n{text}}}\n\n"


def completes_rows(emitter: CEmitter, scope: CScope) -> bool:
    """Return whether each part of the task computes whole rows of a product with one column, in order of windows."""
    spec = emitter.spec
    is_product = emitter.program.expression.is_plain_product and not (emitter.program.private or spec.adds)
    is_outermost = spec.schedule.parallel == spec.schedule.loop_order[0] == "i1" and not scope.variables
    return is_product and is_outermost and not (spec.schedule.format.rows or spec.schedule.dense_splits)


def finite_checks(emitter: CEmitter, body: str) -> tuple[list[str], list[str]]:
    """Return the lines before and after a task's body that check for values that are not finite."""
    checks, reports = [], []
    for lanes in sorted({int(found) for found in re.findall(r"\bcheck_(\d+) \+=", body)}):
        kind = vector_type(emitter.spec, lanes)
        checks.append(f"{kind} check_{lanes} = {{0}};")
        total = f"sum_{kind}(check_{lanes})"
        test = f"is_nonzero_{vector_type(emitter.spec, 1)}({total})" if is_complex(emitter.spec) else f"{total} != 0"
        reports.append(f"if ({test}) /* nan: a result was not finite */")
        reports.append("    x->bad = 1;")
    return checks, reports
