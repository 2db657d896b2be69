"""Python emitter: loop IR to functions that numba compiles, where there is no C compiler (`emit`).

The text has one function per task (the body of the parallel loop) and one for the kernel, with the C kernel's
arguments. The functions it calls are in `intrinsics`. Unrolling, prefetching and vector lanes of the schedule are left
to LLVM, which may reorder sums to vectorise them.
"""

from __future__ import annotations

from autosparse._native.ir import nodes as ir
from autosparse._native.ir.lower import lower
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.ir.writer import PythonWriter
from autosparse._native.numba.emitting import NumbaEmitter, NumbaScope
from autosparse._native.numba.loops import RULES, zero_output


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
