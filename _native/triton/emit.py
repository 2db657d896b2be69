"""Generator of a kernel's Triton source from its spec: one launch for all parts, and the sum of shared rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from autosparse._native.ir.writer import PythonWriter
from autosparse._native.triton import gathered, sampled
from autosparse._native.triton.spec import SIZES, WIDE, DeviceSpec, arguments

from autosparse.gpu.schedule import GpuPart
from autosparse.ops.base import ProductKind

Body = Callable[[PythonWriter, DeviceSpec, int, GpuPart], None]

PRODUCTS: Final[Mapping[str, Body]] = {
    "rows": gathered.write_rows,
    "unrolled": gathered.write_unrolled,
    "ell": gathered.write_ell,
    "segments": gathered.write_segments,
    "windows": gathered.write_dots,
    "blocks": gathered.write_dots,
    "fibers": gathered.write_fibers,
    "fill": gathered.write_fill,
}
"""Functions that write a part whose sums are rows of the result, by layout."""
SAMPLES: Final[Mapping[str, Body]] = {
    "rows": sampled.write_rows,
    "unrolled": sampled.write_unrolled,
    "entries": sampled.write_entries,
    "windows": sampled.write_dots,
    "blocks": sampled.write_dots,
}
"""Functions that write a part of a sampled product, by layout."""
BODIES: Final[Mapping[ProductKind, Mapping[str, Body]]] = {
    "vector": PRODUCTS, "columns": PRODUCTS, "fibers": PRODUCTS, "sampled": SAMPLES
}  # fmt: skip
"""Functions that write a part, by kind of product and layout."""

HEAD: Final = '''"""{schedule}

Operation {operation}, {dtype} values, {index_dtype} indices.
"""

import triton
import triton.language as tl

'''
"""First lines of a generated module."""


def emit(spec: DeviceSpec) -> str:
    """Return the source of a module with ``kernel``, and ``reduce`` where shared rows are summed in two phases."""
    schedule = spec.schedule
    head = HEAD.format(schedule=schedule, operation=schedule.operation, dtype=spec.dtype, index_dtype=spec.index_dtype)
    given = [argument.name for argument in arguments(spec)]
    bodies = [_part(spec, n) for n in range(len(schedule.parts))]
    taken = [[name for name in (*PLACE[schedule.kind], *given) if _uses(body, name)] for body in bodies]
    parts = "".join(_signature(f"part_{n}", taken[n]) + body for n, body in enumerate(bodies))
    text = head + parts + _signature("kernel", given) + _kernel(spec, taken)
    if spec.schedule.shares_rows:
        text += _signature("reduce", REDUCE_ARGUMENTS) + _reduce(spec)
    return text


PLACE: Final[Mapping[ProductKind, tuple[str, ...]]] = {
    "vector": ("unit",), "columns": ("unit", "j", "jm"), "fibers": ("unit", "j", "jm"), "sampled": ("unit", "t")
}  # fmt: skip
"""Variables that locate a part's work, by kind: first unit, columns and their mask, or columns of a step."""


def _uses(body: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", body) is not None


REDUCE_ARGUMENTS: Final = ("rows", "slots", "work", "C", "n_rows", "n_cols", "ldc")
"""Names of the parameters of ``reduce``, in order."""


def _signature(name: str, names: list[str] | tuple[str, ...]) -> str:
    lines = [f"    {one},\n" for one in names]
    sizes = [one for one in names if one.startswith(("n_", "ld"))] if not name.startswith("part") else []
    fixed = f"(do_not_specialize={sizes})" if sizes else ""
    return f"\n\n@triton.jit{fixed}\ndef {name}(\n{''.join(lines)}):\n"


def _part(spec: DeviceSpec, n: int) -> str:
    """Return the body of part `n`, a function that the compiler inlines."""
    w, part = PythonWriter(), spec.schedule.parts[n]
    if part.step > 1 and part.layout in ("rows", "ell", "segments", "fibers"):
        w.line(f"s = tl.arange(0, {part.step})")
    BODIES[spec.schedule.kind][part.layout](w, spec, n, part)
    return w.text()


def _kernel(spec: DeviceSpec, taken: list[list[str]]) -> str:
    """Return the body of ``kernel``: it finds the program's task and calls the part of that task."""
    w, parts = PythonWriter(), spec.schedule.parts
    _write_place(w, spec)
    w.line("unit = tl.load(table + 2 * task + 1)")
    if len(parts) == 1:
        w.line(f"part_0({', '.join(taken[0])})")
        return w.text()
    w.line("part = tl.load(table + 2 * task)")
    for n in range(len(parts)):
        with w.block(f"{'if' if n == 0 else 'elif'} part == {n}"):
            w.line(f"part_{n}({', '.join(taken[n])})")
    return w.text()


def _write_place(w: PythonWriter, spec: DeviceSpec) -> None:
    """Write the code that finds the task and columns of this program."""
    schedule = spec.schedule
    leading = SIZES[schedule.kind][1:]
    w.line("task = tl.program_id(0)")
    if schedule.is_sampled:
        _write_promises(w, spec, leading)
        w.line(f"t = tl.arange(0, {schedule.tile})")
    elif not schedule.is_vector:
        _write_promises(w, spec, leading)
        w.line(f"n_tiles = tl.cdiv(n_cols, {schedule.tile})")
        if schedule.panel:
            w.line(f"panel = task // (n_tasks * {schedule.panel})")
            w.line(f"task = task - panel * (n_tasks * {schedule.panel})")
            w.line(f"width = tl.minimum(n_tiles - panel * {schedule.panel}, {schedule.panel})")
            w.line(f"tile = panel * {schedule.panel} + task % width")
            w.line("task = task // width")
        else:
            w.line("tile = task % n_tiles")
            w.line("task = task // n_tiles")
        w.line(f"j = tile * {schedule.tile} + tl.arange(0, {schedule.tile})")
        w.line("jm = j < n_cols")


def _write_promises(w: PythonWriter, spec: DeviceSpec, names: tuple[str, ...]) -> None:
    if spec.schedule.vector > 1:
        for name in names:
            # The compiler infers a divisor from this; it ignores tl.multiple_of on parameters.
            w.line(f"{name} = {name} // {spec.schedule.vector} * {spec.schedule.vector}")


def _reduce(spec: DeviceSpec) -> str:
    """Return the body of ``reduce``: a row of C is the sum of its slots, in order."""
    w, tile = PythonWriter(), spec.schedule.tile
    w.line("row = tl.program_id(0)")
    columns = bool(tile)
    if columns:
        w.line(f"j = tl.program_id(1) * {tile} + tl.arange(0, {tile})")
        w.line("jm = j < n_cols")
        w.line(f"acc = tl.zeros(({tile},), {spec.accumulator})")
    else:
        w.line(f"acc = tl.zeros((1,), {spec.accumulator})")
        w.line("j = tl.arange(0, 1)")
    w.line("first, last = tl.load(slots + row), tl.load(slots + row + 1)")
    w.line(f"at = work + first.to({WIDE}){' * n_cols' if columns else ''} + j")
    with w.block("for _ in range(first, last)"):
        w.line(f"acc += tl.load(at{', mask=jm, other=0' if columns else ''})")
        w.line(f"at += {'n_cols' if columns else '1'}")
    w.line(f"place = tl.load(rows + row).to({WIDE})" + (" * ldc" if columns else ""))
    w.line(f"tl.store(C + place + j, acc.to(C.dtype.element_ty){', mask=jm' if columns else ''})")
    return w.text()
