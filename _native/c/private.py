"""Emission of a parallel loop over a summed index in C: its iterations are divided into parts with private outputs.

The first part adds to the user's output, which is cleared before. The outputs of the others are added to it
afterwards, row by row, in the order of the parts. There are as many parts as threads, or FIXED_PARTS if results must
not depend on the number of threads. There are fewer parts if private outputs would exceed PRIVATE_LIMIT_BYTES, so the
memory is bounded in advance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from autosparse._native.c.emitting import CEmitter, CScope
from autosparse._native.c.parallel import finite_checks
from autosparse._native.c.types import C_INDICES, C_VALUES
from autosparse._native.ir.rough_times import COLUMN_NS, entry_ns
from autosparse._native.ir.writer import Writer

from autosparse.scalar import C_REAL, C_SIZE

PRIVATE_LIMIT_BYTES: Final = 256 << 20
"""Maximum total size of private outputs."""

OWN_BYTES: Final = 128
"""Granularity of private outputs in bytes: two outputs in one (pair of) cache lines would cause false sharing."""

FIXED_PARTS: Final = 8
"""Number of parts of kernels whose results do not depend on the number of threads."""


def emit_private(
    emitter: CEmitter, scope: CScope, *, count: str, weights: str | None, write: Callable[[CScope], None]
) -> None:
    """Emit the loop's body as a task over parts, the sum of their outputs as another task, and the calls."""
    name = f"task{f'_{len(emitter.tasks)}' if emitter.tasks else ''}"
    emitter.tasks.append(_task(emitter, scope, name, write))
    emitter.tasks.append(_merge(emitter, name))
    out, spec = scope.out, emitter.spec
    value, parts = C_VALUES[spec.dtype], FIXED_PARTS if spec.deterministic else "n_threads"
    each = OWN_BYTES // spec.value_bytes
    with out.block():
        out.line(f"{name}_context x = {{.call = call, .n = {count}, .weights = {weights or 'NULL'}}};")
        for variable in scope.variables:
            out.line(f"x.{variable} = {variable};")
        out.line(f"x.step = (n_i * {_columns(emitter)} + {each - 1}) / {each} * {each};")
        out.line(f"const {C_SIZE} most = 1 + {PRIVATE_LIMIT_BYTES} / (x.step * ({C_SIZE})sizeof({value}) + 1);")
        out.line(f"const {C_SIZE} wanted = asp_min(asp_min({parts}, most), x.n);")
        out.line(f"const size_t own_bytes = wanted > 1 ? (size_t)((wanted - 1) * x.step) * sizeof({value}) : 0;")
        out.line("x.own = own_bytes ? A->take(own_bytes) : NULL;")
        out.line("x.n_parts = x.own ? wanted : 1;")
        out.line(f"const {C_REAL} entries = ({C_REAL})A->n_positions[{len(emitter.program.levels) - 1}];")
        out.line(
            f"const {C_REAL} serial_ns = entries * ({entry_ns(spec.schedule.format)} + {COLUMN_NS} * ({C_REAL})n_j);"
        )
        with out.block("if (!A->parallel || n_threads <= 1)"):
            out.line(f"{name}(&x, 0, x.n_parts);")
            out.line(f"{name}_merge(&x, 0, n_i);")
        with out.block("else"):
            out.line(f"A->parallel({name}, &x, x.n_parts, 1, 1, (int)n_threads, serial_ns);")
            out.line(f"const {C_REAL} merge_ns = 0.2 * ({C_REAL})(x.step * x.n_parts);")
            out.line(f"A->parallel({name}_merge, &x, x.n_parts > 1 ? n_i : 0, 64, n_i, (int)n_threads, merge_ns);")
        out.line("if (x.own)")
        out.line("    A->give(x.own, own_bytes);")
        out.line("bad |= x.bad;")


def _columns(emitter: CEmitter) -> str:
    return "n_j" if len(emitter.program.expression.output.indices) > 1 else "1"


def _task(emitter: CEmitter, scope: CScope, name: str, write: Callable[[CScope], None]) -> str:
    """Return C text of the struct of a task's context and of the task function over parts, whose body `write` emits."""
    value, output = C_VALUES[emitter.spec.dtype], emitter.program.expression.output.tensor
    inside = replace(scope, out=Writer(depth=3), extents=())
    write(inside)
    checks, reports = finite_checks(emitter, inside.out.text())
    head, out = Writer(), Writer()
    head.line(f"{name}_context *x = context;")
    head.line("const asp_call *call = x->call;")
    head.line(f"const {C_SIZE} chunk = call->chunk, n_parts = x->n_parts;")
    for variable in scope.variables:
        head.line(f"const {C_SIZE} {variable} = x->{variable};")
    out.lines += [f"    {line}" for line in checks]
    with out.block("for (; part < end_part; part++)"):
        own = f"({value} *)x->own + (part - 1) * x->step"
        out.line(f"{value} *restrict {output}_ = part ? {own} : ({value} *)call->{output};")
        out.line(f"const {C_SIZE} ld{output} = part ? {_columns(emitter)} : call->ld{output};")
        out.line("if (part)")
        out.line(f"    __builtin_memset({output}_, 0, (size_t)x->step * sizeof({value}));")
        out.line(f"const {C_SIZE} n_rounds = chunk > 0 ? (x->n + chunk * n_parts - 1) / (chunk * n_parts) : 1;")
        with out.block(f"for ({C_SIZE} round = 0; round < n_rounds; round++)"):
            out.line(f"const {C_SIZE} at = round * n_parts + part, n_shares = n_rounds * n_parts;")
            for end, share in (("begin", "at"), ("end", "at + 1")):
                out.line(
                    f"const {C_SIZE} {end} = asp_min(x->n, asp_boundary(x->weights, x->n, chunk, {share}, n_shares));"
                )
            out.lines += inside.out.lines
    out.lines += [f"    {line}" for line in reports]
    fields = "".join(f"    {C_SIZE} {variable};\n" for variable in scope.variables)
    context = (
        f"typedef struct {{\n    const asp_call *call;\n    {C_SIZE} n, n_parts, step;\n    void *own;\n"
        f"    const {C_INDICES[emitter.spec.positions_bits]} *weights;\n{fields}    int bad;\n}} {name}_context;\n"
    )
    declared = emitter.declare(out.text(), known=(f"{output}_", f"ld{output}", "chunk"))
    text = head.text() + declared + out.text()
    return f"{context}\nstatic void {name}(void *context, {C_SIZE} part, {C_SIZE} end_part)\n{{\n{text}}}\n\n"


def _merge(emitter: CEmitter, name: str) -> str:
    """Return the task function that sums all parts' outputs for the rows ``begin .. end``."""
    value, output = C_VALUES[emitter.spec.dtype], emitter.program.expression.output.tensor
    is_wide = len(emitter.program.expression.output.indices) > 1
    n_columns, leading = ("call->n_j", f"call->ld{output}") if is_wide else ("1", "1")
    return f"""\
static void {name}_merge(void *context, {C_SIZE} begin, {C_SIZE} end)
{{
    {name}_context *x = context;
    const asp_call *call = x->call;
    const {C_SIZE} n_columns = {n_columns};
    for ({C_SIZE} row = begin; row < end; row++)
        for ({C_SIZE} part = 1; part < x->n_parts; part++) {{
            {value} *restrict to = ({value} *)call->{output} + row * {leading};
            const {value} *restrict from = ({value} *)x->own + (part - 1) * x->step + row * n_columns;
            for ({C_SIZE} column = 0; column < n_columns; column++)
                to[column] += from[column];
        }}
}}

"""
