"""Generators of sampled products: alpha ⟨X[i], Y[j]⟩ + beta A[i, j] at the entries (i, j) of A."""

from __future__ import annotations

from autosparse._native.ir.writer import PythonWriter
from autosparse._native.triton.spec import DeviceSpec

from autosparse.gpu.schedule import GpuPart
from autosparse.scalar import SCALARS, SINGLE


def write_entries(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code that computes `rows` sampled entries in one program; rows -1 are padding."""
    tile = spec.schedule.tile
    w.line(f"e = unit + tl.arange(0, {part.rows})")
    w.line(f"row = tl.load(p{n}_rows + e)")
    w.line("m = row >= 0")
    w.line("row = tl.where(m, row, 0)")
    w.line(f"col = tl.load({f'p{n}_cols' if spec.reads_positions(n) else 'cols'} + e, mask=m, other=0)")
    w.line(f"acc = tl.zeros(({part.rows}, {tile}), {spec.accumulator})")
    _write_offsets(w, spec)
    with w.block(f"for k in range(0, n_cols, {tile})"):
        w.line("j = k + t")
        w.line("jm = m[:, None] & (j < n_cols)[None, :]")
        w.line("x = tl.load(X + x_at[:, None] + j[None, :], mask=jm, other=0)")
        w.line("y = tl.load(Y + y_at[:, None] + j[None, :], mask=jm, other=0)")
        w.line(f"acc += x.to({spec.accumulator}) * y.to({spec.accumulator})")
    w.line("dots = tl.sum(acc, axis=1)")
    _write_dots(w, spec, f"tl.load(p{n}_positions + e, mask=m, other=0)" if spec.reads_positions(n) else "e")


def write_rows(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code that samples pieces of rows, `step` entries at a time, for which X's row is loaded once."""
    tile, own = spec.schedule.tile, spec.reads_positions(n)
    with w.block(f"for u in range(unit, unit + {part.rows})"):
        w.line(f"start, end = tl.load(p{n}_starts + u), tl.load(p{n}_ends + u)")
        w.line(f"row = tl.load(p{n}_dest + u)")
        with w.block(f"for p in range(start, end, {part.step})"):
            w.line(f"e = p + tl.arange(0, {part.step})")
            w.line("m = e < end")
            w.line(f"col = tl.load({f'p{n}_cols' if own else 'cols'} + e, mask=m, other=0)")
            w.line(f"acc = tl.zeros(({part.step}, {tile}), {spec.accumulator})")
            _write_offsets(w, spec)
            with w.block(f"for k in range(0, n_cols, {tile})"):
                w.line("j = k + t")
                w.line("jm = j < n_cols")
                w.line("x = tl.load(X + x_at + j, mask=jm, other=0)")
                w.line("y = tl.load(Y + y_at[:, None] + j[None, :], mask=m[:, None] & jm[None, :], other=0)")
                w.line(f"acc += x.to({spec.accumulator})[None, :] * y.to({spec.accumulator})")
            w.line("dots = tl.sum(acc, axis=1)")
            _write_dots(w, spec, f"tl.load(p{n}_positions + e, mask=m, other=0)" if own else "e")


def write_unrolled(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code that samples `rows` pieces of rows in lock-step, `step` entries of each per load of X's rows."""
    tile, own, steps = spec.schedule.tile, spec.reads_positions(n), range(part.step)
    w.line(f"u = unit + tl.arange(0, {part.rows})")
    w.line(f"start, end = tl.load(p{n}_starts + u), tl.load(p{n}_ends + u)")
    w.line(f"row = tl.load(p{n}_dest + u)")
    w.line("row = tl.where(row >= 0, row, 0)")
    with w.block(f"for p in range(0, tl.max(end - start, axis=0), {part.step})"):
        for i in steps:
            w.line(f"e{i} = start + p + {i}")
            w.line(f"m{i} = e{i} < end")
            w.line(f"col = tl.load({f'p{n}_cols' if own else 'cols'} + e{i}, mask=m{i}, other=0)")
            _write_offsets(w, spec)
            w.line(f"y_at{i} = y_at")
            w.line(f"acc{i} = tl.zeros(({part.rows}, {tile}), {spec.accumulator})")
        with w.block(f"for k in range(0, n_cols, {tile})"):
            w.line("j = k + t")
            w.line("jm = (j < n_cols)[None, :]")
            w.line("x = tl.load(X + x_at[:, None] + j[None, :], mask=jm, other=0)")
            for i in steps:
                w.line(f"y{i} = tl.load(Y + y_at{i}[:, None] + j[None, :], mask=m{i}[:, None] & jm, other=0)")
            for i in steps:
                w.line(f"acc{i} += x.to({spec.accumulator}) * y{i}.to({spec.accumulator})")
        for i in steps:
            w.line(f"dots, m = tl.sum(acc{i}, axis=1), m{i}")
            _write_dots(w, spec, f"tl.load(p{n}_positions + e{i}, mask=m, other=0)" if own else f"e{i}")


def write_dots(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code of windows and blocks: X Yᵀ of `rows` by `step` in Tensor Cores, stored at entries of A only."""
    tile = spec.schedule.tile
    w.line(f"r, c = tl.arange(0, {part.rows}), tl.arange(0, {part.step})")
    w.line(f"row = tl.load(p{n}_dest + unit + r)")
    w.line("rm = row >= 0")
    w.line("row = tl.where(rm, row, 0)")
    w.line(f"group = unit // {part.rows}")
    with w.block(f"for g in range(tl.load(p{n}_groups + group), tl.load(p{n}_groups + group + 1))"):
        w.line(f"col = tl.load(p{n}_cols + g * {part.step} + c)")
        w.line(f"position = tl.load(p{n}_positions + (g * {part.rows} + r[:, None]) * {part.step} + c[None, :])")
        w.line("cm, m = col >= 0, position >= 0")
        w.line("col = tl.where(cm, col, 0)")
        w.line(f"dots = tl.zeros(({part.rows}, {part.step}), {spec.accumulator})")
        _write_offsets(w, spec)
        with w.block(f"for k in range(0, n_cols, {tile})"):
            w.line("j = k + t")
            w.line("jm = j < n_cols")
            w.line("x = tl.load(X + x_at[:, None] + j[None, :], mask=rm[:, None] & jm[None, :], other=0)")
            w.line("y = tl.load(Y + y_at[:, None] + j[None, :], mask=cm[:, None] & jm[None, :], other=0)")
            w.line(f"dots = tl.dot(x, tl.trans(y), dots, {precision(spec)})")
        _write_dots(w, spec, "position")


def _write_offsets(w: PythonWriter, spec: DeviceSpec) -> None:
    bits = 64 if spec.is_wide else 32
    w.line(f"x_at, y_at = row.to(tl.int{bits}) * ldx, col.to(tl.int{bits}) * ldy")


def _write_dots(w: PythonWriter, spec: DeviceSpec, place: str) -> None:
    """Write ``C[place] = alpha dots + beta values[place]`` where `m` holds; values are not read when beta is 0."""
    w.line(f"at = {place}")
    w.line(f"old = tl.load(values + at, mask=m & (beta != 0), other=0).to({spec.accumulator})")
    w.line("tl.store(C + at, (alpha * dots + tl.where(beta != 0, beta * old, 0)).to(C.dtype.element_ty), mask=m)")


def precision(spec: DeviceSpec) -> str:
    """Return keyword arguments of ``tl.dot``."""
    sums = "" if SCALARS[spec.dtype].compute == SINGLE.name else f", out_dtype={spec.accumulator}"
    return f"input_precision='{spec.schedule.precision}'{sums}"
