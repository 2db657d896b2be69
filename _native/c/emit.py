"""C emitter: loop IR to one self-contained C file (`emit`), readable and compilable on its own.

The body of the parallel loop becomes a task function, which the runtime's thread pool runs on ranges, or which runs in
place; see `parallel`. Bodies of column-tile loops are emitted once per width; see `loops`.
"""

from __future__ import annotations

import re

from autosparse._native.c.emitting import CEmitter, CScope
from autosparse._native.c.loops import RULES, zero_text
from autosparse._native.c.rows import folds_of, row_helpers
from autosparse._native.c.sampled import emit_empty_sums, fold_helpers
from autosparse._native.c.slices import slice_helpers
from autosparse._native.c.types import (
    C_INDICES,
    HELPERS,
    INCLUDES,
    OPERAND_STRUCT,
    call_of,
    call_struct,
    gather_helpers,
    head_helpers,
    partial_helpers,
    stored_helpers,
    vector_helpers,
)
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.lower import lower
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.ir.writer import Writer

from autosparse.core.formats import STORED_VALUES


def emit(spec: KernelSpec) -> str:
    """Return the C source of `spec`: header comment (schedule, IR), types, helpers, tasks, kernel."""
    program = lower(spec)
    emitter = CEmitter(spec, program, RULES)
    expression = program.expression
    prototype, call, known = call_of(expression)
    out = Writer()
    empty = " || ".join(f"n_{index} == 0" for index in expression.sparse.indices)
    with out.block(f"if ({empty})"):
        if not expression.sampled and not spec.adds:
            out.line(zero_text(expression.output, spec))
        out.line("return 0;")
    if expression.sampled and "j" in expression.dense_indices:
        emit_empty_sums(out, spec)
    emitter.run(program.body, CScope(out))
    out.line("return bad;")
    head = Writer()
    head.line(f"const asp_call arguments = {{{call}}}, *call = &arguments;")
    head.line("int bad = 0;")
    text = head.text() + emitter.declare(out.text(), known=known) + out.text()
    code = "".join(emitter.tasks) + f"{prototype}\n{{\n{text}}}\n"
    return _header(spec, program) + _preamble(emitter, code) + code


def _header(spec: KernelSpec, program: ir.Program) -> str:
    schedule = spec.schedule
    lines = [
        f"{schedule.format}; loops {' '.join(schedule.loop_order)}, parallel {schedule.parallel}",
        f"{spec.dtype}, indices {spec.index_dtype}, {spec.isa}; unroll {schedule.unroll}, prefetch {schedule.prefetch}",
        "",
        *str(program).splitlines(),
    ]
    return "/* autosparse kernel\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def _preamble(emitter: CEmitter, code: str) -> str:
    """Return C text of the types and helpers that `code` calls."""
    spec = emitter.spec
    for jam in emitter.used.rows:
        emitter.used.lanes.add(spec.max_lanes)
        emitter.used.heads.add(spec.max_lanes)
        emitter.used.folds.update((spec.max_lanes, n) for n in folds_of(jam))
    types = {"POS": C_INDICES[spec.positions_bits], "CRD": C_INDICES[spec.coordinate_bits]}
    parts = [
        INCLUDES,
        OPERAND_STRUCT,
        call_struct(emitter.program.expression),
        vector_helpers(spec, emitter.used.lanes),
    ]
    if spec.schedule.format.values in STORED_VALUES:
        parts.append(stored_helpers(spec, emitter.used.stored))
    parts += [head_helpers(spec, lanes) for lanes in sorted(emitter.used.heads)]
    parts += [partial_helpers(spec, lanes) for lanes in sorted(emitter.used.partial)]
    parts += [gather_helpers(spec, lanes) for lanes in sorted(emitter.used.gather)]
    parts += [slice_helpers(spec, lanes) for lanes in sorted(emitter.used.slices)]
    parts += [fold_helpers(spec, lanes, n) for lanes, n in sorted(emitter.used.folds)]
    rows = [row_helpers(spec, jam) for jam in sorted(emitter.used.rows)]
    code += "".join(rows)
    for name, text in HELPERS.items():
        if re.search(rf"\b{name}\b", code):
            parts.append(re.sub(r"\b(POS|CRD)\b", lambda match: types[match[1]], text))
    return "".join((*parts, *rows)) + "\n"
