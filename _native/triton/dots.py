"""Generator of windows and blocks for matmul: ``tl.dot`` of `rows` by `step` entries with `step` rows of B.

Missing entries are stored as zeros, and 0 · inf is nan. So the program also sums 0 · B: where that is not 0, a row of B
is not finite, and the window is computed again entry by entry, as in the other layouts.
"""

from __future__ import annotations

from typing import Final

from autosparse._native.ir.writer import PythonWriter
from autosparse._native.triton.axes import BlockAxes
from autosparse._native.triton.gathered import row_of, write_result
from autosparse._native.triton.sampled import precision
from autosparse._native.triton.spec import DeviceSpec

from autosparse.gpu.schedule import GpuPart

NARROW: Final = 8
"""Window height for which the product is transposed, since Tensor Cores take tiles of 16 by 8 by 16."""


def write_dots(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write ``total = A[window] B``."""
    tile, is_narrow = spec.schedule.tile, part.rows == NARROW
    shape = (tile, part.rows) if is_narrow else (part.rows, tile)
    w.line(f"r, c = tl.arange(0, {part.rows}), tl.arange(0, {part.step})")
    w.line(f"group = unit // {part.rows}")
    w.line(f"first, last = tl.load(p{n}_groups + group), tl.load(p{n}_groups + group + 1)")
    w.line(f"acc = tl.zeros({shape}, {spec.accumulator})")
    w.line(f"unbounded = tl.zeros(({part.step}, {tile}), {spec.accumulator})")
    with w.block("for g in range(first, last)"):
        _write_loads(w, spec, n, part)
        w.line(f"unbounded += b.to({spec.accumulator}) * 0")
        sides = "tl.trans(b), tl.trans(a)" if is_narrow else "a, b"
        w.line(f"acc = tl.dot({sides}, acc, {precision(spec)})")
    w.line("total = tl.trans(acc)" if is_narrow else "total = acc")
    with w.block("if tl.sum(tl.sum(unbounded, axis=1), axis=0) != 0"):
        _write_exact(w, spec, n, part)
    w.line(f"dest = tl.load(p{n}_dest + unit + r)")
    write_result(w, spec, BlockAxes.of(r=part.rows, t=tile))


def _write_loads(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    w.line(f"col = tl.load(p{n}_cols + g * {part.step} + c)")
    w.line(f"position = tl.load(p{n}_positions + (g * {part.rows} + r[:, None]) * {part.step} + c[None, :])")
    w.line("a = tl.load(values + position, mask=position >= 0, other=0)")
    w.line(f"at = {row_of(spec, 'tl.where(col >= 0, col, 0)', 'ldb')}")
    w.line("b = tl.load(B + at[:, None] + j[None, :], mask=(col >= 0)[:, None] & jm[None, :], other=0)")


def _write_exact(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write the same sum without products of missing entries."""
    w.line("total = tl.zeros_like(total)")
    with w.block("for g in range(first, last)"), w.block(f"for k in range(0, {part.step})"):
        w.line(f"one = tl.load(p{n}_cols + g * {part.step} + k)")
        w.line(f"place = tl.load(p{n}_positions + (g * {part.rows} + r) * {part.step} + k)")
        w.line("m = place >= 0")
        w.line(f"v = tl.load(values + place, mask=m, other=0).to({spec.accumulator})")
        w.line(f"at = {row_of(spec, 'tl.where(one >= 0, one, 0)', 'ldb')}")
        w.line(f"x = tl.load(B + at + j, mask=jm & (one + 0 * j >= 0), other=0).to({spec.accumulator})")
        w.line("total += tl.where(m[:, None], v[:, None] * x[None, :], 0)")
