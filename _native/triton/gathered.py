"""Generators of the layouts of matrix products: rows, ell, segments and CSF's fibers entry by entry, and windows.

One program keeps `step` partial sums of a row in registers and adds them at the end: the loop has no reduction. Loads
of B run along its rows. Windows and blocks use ``tl.dot`` of `rows` by `step` entries with `step` rows of B. Missing
entries are stored as zeros, and 0 · inf is nan. So the program also sums 0 · B: where that is not 0, a row of B is not
finite, and the window is computed again entry by entry, as in the other layouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from autosparse._native.ir.writer import PythonWriter
from autosparse._native.triton.sampled import precision
from autosparse._native.triton.spec import NARROW, WIDE, DeviceSpec

from autosparse.gpu.schedule import GpuPart


@dataclass(frozen=True)
class BlockAxes:
    """Axes of a block with names and extents, outermost first; axes of extent 1 are omitted (a scalar has none)."""

    extents: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, **extents: int) -> BlockAxes:
        """Return the axes of more than one element, in the order given."""
        return cls(tuple((name, extent) for name, extent in extents.items() if extent > 1))

    @property
    def names(self) -> str:
        """Letters of the axes."""
        return "".join(name for name, _ in self.extents)

    def beside(self, variable: str, axes: str) -> str:
        """Return an expression that broadcasts `variable`, which has only `axes`, to all of these axes."""
        kept = [name for name in self.names if name in axes]
        if not kept or len(self.names) == 1:
            return variable
        return f"{variable}[{', '.join(':' if name in axes else 'None' for name in self.names)}]"

    def shape(self) -> str:
        """Return the tuple of extents as source text."""
        return "(" + "".join(f"{extent}, " for _, extent in self.extents) + ")"

    def zeros(self, dtype: str) -> str:
        """Return an expression for a block of zeros, or a scalar zero where there are no axes."""
        if self.extents:
            return f"tl.zeros({self.shape()}, {dtype})"
        return f"tl.zeros((1,), {dtype}).sum()"

    def index(self, name: str) -> int:
        """Return the position of axis `name`."""
        return self.names.index(name)

    def without(self, name: str) -> BlockAxes:
        """Return the axes that remain after a sum over `name`."""
        return BlockAxes(tuple(item for item in self.extents if item[0] != name))

    def summed(self, variable: str, name: str) -> str:
        """Return an expression for the sum of `variable` over axis `name`; `variable` itself without such an axis."""
        return f"tl.sum({variable}, axis={self.index(name)})" if name in self.names else variable


def row_of(spec: DeviceSpec, row: str, leading: str) -> str:
    """Return an expression for the offset of row `row` in a dense operand, in elements."""
    wide = f"{row}.to(tl.int{64 if spec.is_wide else 32})"
    return wide if spec.schedule.is_vector else f"{wide} * {leading}"


def tile_of(spec: DeviceSpec, axes: BlockAxes, row_axes: str, base: str = "B", row: str = "at") -> str:
    """Return pointers to the program's columns in rows of a dense operand; `row` is the rows' offset in elements."""
    rows = axes.beside(row, row_axes)
    return f"{base} + {rows}" if spec.schedule.is_vector else f"{base} + {rows} + {axes.beside('j', 't')}"


def mask_of(spec: DeviceSpec, axes: BlockAxes, mask: str, mask_axes: str) -> str:
    """Return `mask` over `mask_axes`, combined with the mask of valid columns."""
    rows = axes.beside(mask, mask_axes)
    if spec.schedule.is_vector:
        return rows
    if not set(mask_axes) & set(axes.names):  # a scalar: Triton's interpreter has no blocks of one boolean
        rows = f"(tl.where({mask}, 1, 0) + 0 * {axes.beside('j', 't')} > 0)"
    return f"{rows} & {axes.beside('jm', 't')}"


def write_entries(w: PythonWriter, spec: DeviceSpec, n: int, axes: BlockAxes) -> None:
    """Write code of ``acc += values · B[columns]`` for the entries `e` where the mask `m` holds."""
    own = spec.reads_positions(n)
    w.line(f"col = tl.load({f'p{n}_cols' if own else 'cols'} + e, mask=m, other=0)")
    w.line(
        f"val = tl.load(values + {f'tl.load(p{n}_positions + e, mask=m, other=0)' if own else 'e'}, mask=m, other=0)"
    )
    write_products(w, spec, axes)


def write_products(w: PythonWriter, spec: DeviceSpec, axes: BlockAxes) -> None:
    """Write code of ``acc += val · B[col]`` for the entries where the mask `m` holds."""
    w.line(f"at = {row_of(spec, 'col', 'ldb')}")
    w.line(f"b = tl.load({tile_of(spec, axes, 'rs')}, mask={mask_of(spec, axes, 'm', 'rs')}, other=0)")
    w.line(f"acc += {axes.beside(f'val.to({spec.accumulator})', 'rs')} * b.to({spec.accumulator})")


def write_result(w: PythonWriter, spec: DeviceSpec, axes: BlockAxes) -> None:
    """Write code that stores `total` in the rows `dest` of the result, or in slots of shared rows (`dest` ≤ -2)."""
    rows = axes.beside("row", "r")
    place = rows if spec.schedule.is_vector else f"{rows} * ldc + {axes.beside('j', 't')}"
    w.line(f"row = dest.to({WIDE if spec.is_wide else NARROW})")
    w.line(f"tl.store(C + {place}, total.to(C.dtype.element_ty), mask={mask_of(spec, axes, '(row >= 0)', 'r')})")
    if not spec.schedule.shares_rows:
        return
    w.line("row = -2 - row")
    mask = mask_of(spec, axes, "(row >= 0)", "r")
    slot = rows if spec.schedule.is_vector else f"{rows} * n_cols + {axes.beside('j', 't')}"
    w.line(f"tl.store(work + {slot}, total, mask={mask})")


def write_rows(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code that sums `rows` rows per program in lock-step, up to the length of the longest of them."""
    axes = BlockAxes.of(r=part.rows, s=part.step, t=spec.schedule.tile or 1)
    inner = axes.without("t")
    w.line(f"u = unit{_range(part.rows)}")
    w.line(f"start, end = tl.load(p{n}_starts + u), tl.load(p{n}_ends + u)")
    w.line(f"acc = {axes.zeros(spec.accumulator)}")
    w.line("most = " + ("tl.max(end - start, axis=0)" if part.rows > 1 else "end - start"))
    with w.block(f"for k in range(0, most, {part.step})"):
        w.line(f"e = {inner.beside('start', 'r')} + k" + (f" + {inner.beside('s', 's')}" if part.step > 1 else ""))
        w.line(f"m = e < {inner.beside('end', 'r')}")
        write_entries(w, spec, n, axes)
    w.line(f"total = {axes.summed('acc', 's')}")
    w.line(f"dest = tl.load(p{n}_dest + u)")
    write_result(w, spec, axes.without("s"))


def write_unrolled(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code that sums `rows` rows in lock-step, entry by entry; each lane sums columns of its own."""
    axes = BlockAxes.of(r=part.rows, t=spec.schedule.tile)
    inner, own, steps = axes.without("t"), spec.reads_positions(n), range(part.step)
    w.line(f"u = unit{_range(part.rows)}")
    w.line(f"start, end = tl.load(p{n}_starts + u), tl.load(p{n}_ends + u)")
    w.line(f"acc = {axes.zeros(spec.accumulator)}")
    w.line("most = " + ("tl.max(end - start, axis=0)" if part.rows > 1 else "end - start"))
    with w.block(f"for k in range(0, most, {part.step})"):
        for i in steps:  # independent loads first, so that all are in flight at once
            w.line(f"e{i} = start + k + {i}")
            w.line(f"m{i} = e{i} < end")
            w.line(f"col{i} = tl.load({f'p{n}_cols' if own else 'cols'} + e{i}, mask=m{i}, other=0)")
            place = f"tl.load(p{n}_positions + e{i}, mask=m{i}, other=0)" if own else f"e{i}"
            w.line(f"val{i} = tl.load(values + {place}, mask=m{i}, other=0)")
        for i in steps:
            w.line(f"at = {row_of(spec, f'col{i}', 'ldb')}")
            mask = mask_of(spec, axes, f"m{i}", inner.names)
            w.line(f"b{i} = tl.load({tile_of(spec, axes, inner.names)}, mask={mask}, other=0)")
        for i in steps:
            value = axes.beside(f"val{i}.to({spec.accumulator})", inner.names)
            w.line(f"acc += {value} * b{i}.to({spec.accumulator})")
    w.line("total = acc")
    w.line(f"dest = tl.load(p{n}_dest + u)")
    write_result(w, spec, axes)


def write_ell(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code that sums rows padded to one compile-time length; columns -1 are padding."""
    axes = BlockAxes.of(r=part.rows, s=part.step, t=spec.schedule.tile or 1)
    inner = axes.without("t")
    w.line(f"u = unit{_range(part.rows)}")
    w.line(f"acc = {axes.zeros(spec.accumulator)}")
    w.line(f"start = tl.load(p{n}_starts + u)")
    with w.block(f"for k in tl.static_range(0, {part.at_most}, {part.step})"):
        step = f" + {inner.beside('s', 's')}" if part.step > 1 else ""
        w.line(f"e = {inner.beside('u', 'r')} * {part.at_most} + k{step}")
        w.line(f"col = tl.load(p{n}_cols + e)")
        w.line("m = col >= 0")
        if spec.reads_positions(n):
            w.line(f"val = tl.load(values + tl.load(p{n}_positions + e, mask=m, other=0), mask=m, other=0)")
        else:
            w.line(f"val = tl.load(values + {inner.beside('start', 'r')} + k{step}, mask=m, other=0)")
        w.line("col = tl.where(m, col, 0)")
        write_products(w, spec, axes)
    w.line(f"total = {axes.summed('acc', 's')}")
    w.line(f"dest = tl.load(p{n}_dest + u)")
    write_result(w, spec, axes.without("s"))


def write_segments(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code that sums a sequence of pieces of rows, with about equally many entries in every program."""
    axes = BlockAxes.of(s=part.step, t=spec.schedule.tile or 1)
    with w.block(f"for u in range(tl.load(p{n}_pieces + unit), tl.load(p{n}_pieces + unit + 1))"):
        w.line(f"start, end = tl.load(p{n}_starts + u), tl.load(p{n}_ends + u)")
        w.line(f"acc = {axes.zeros(spec.accumulator)}")
        with w.block(f"for k in range(start, end, {part.step})"):
            w.line("e = k + s" if part.step > 1 else "e = k")
            w.line("m = e < end")
            write_entries(w, spec, n, axes)
        w.line(f"total = {axes.summed('acc', 's')}")
        w.line(f"dest = tl.load(p{n}_dest + u)")
        write_result(w, spec, axes.without("s"))


def write_fibers(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code of MTTKRP over CSF: Σ_k B[k] ∘ (Σ_l A[i, k, l] D[l]) over the fibers of a piece of root i."""
    axes = BlockAxes.of(s=part.step, t=spec.schedule.tile)
    out = axes.without("s")
    w.line(f"first, last = tl.load(p{n}_starts + unit), tl.load(p{n}_ends + unit)")
    w.line(f"total = {out.zeros(spec.accumulator)}")
    with w.block("for f in range(first, last)"):
        w.line("start, end = tl.load(fiber_ends + f), tl.load(fiber_ends + f + 1)")
        w.line(f"acc = {axes.zeros(spec.accumulator)}")
        with w.block(f"for k in range(start, end, {part.step})"):
            w.line("e = k + s" if part.step > 1 else "e = k")
            w.line("m = e < end")
            w.line("val = tl.load(values + e, mask=m, other=0)")
            w.line("col = tl.load(leaf_cols + e, mask=m, other=0)")
            w.line(f"at = {row_of(spec, 'col', 'ldd')}")
            w.line(f"d = tl.load({tile_of(spec, axes, 's', 'D')}, mask={mask_of(spec, axes, 'm', 's')}, other=0)")
            w.line(f"acc += {axes.beside(f'val.to({spec.accumulator})', 's')} * d.to({spec.accumulator})")
        w.line("col = tl.load(fiber_cols + f)")
        w.line(f"at = {row_of(spec, 'col', 'ldb')}")
        w.line(f"b = tl.load({tile_of(spec, out, '')}, mask=jm, other=0)")
        w.line(f"total += b.to({spec.accumulator}) * {axes.summed('acc', 's')}")
    w.line(f"dest = tl.load(p{n}_dest + unit)")
    write_result(w, spec, out)


def write_fill(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code that stores zeros in the rows that no other part writes."""
    axes = BlockAxes.of(r=part.rows, t=spec.schedule.tile or 1)
    w.line(f"dest = tl.load(p{n}_dest + unit{_range(part.rows)})")
    w.line(f"total = {axes.zeros(spec.accumulator)}")
    write_result(w, spec, axes)


def _range(extent: int) -> str:
    """Return ``+ arange`` where `extent` exceeds 1."""
    return f" + tl.arange(0, {extent})" if extent > 1 else ""


NARROW_WINDOW: Final = 8
"""Window height for which the product is transposed, since Tensor Cores take tiles of 16 by 8 by 16."""


def write_dots(w: PythonWriter, spec: DeviceSpec, n: int, part: GpuPart) -> None:
    """Write code of ``total = A[window] B`` by matrix instructions; of `_write_exact` where B is not finite."""
    tile, is_narrow = spec.schedule.tile, part.rows == NARROW_WINDOW
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
    """Write code that computes the same `total` without products of missing entries, for B that is not finite."""
    w.line("total = tl.zeros_like(total)")
    with w.block("for g in range(first, last)"), w.block(f"for k in range(0, {part.step})"):
        w.line(f"one = tl.load(p{n}_cols + g * {part.step} + k)")
        w.line(f"place = tl.load(p{n}_positions + (g * {part.rows} + r) * {part.step} + k)")
        w.line("m = place >= 0")
        w.line(f"v = tl.load(values + place, mask=m, other=0).to({spec.accumulator})")
        w.line(f"at = {row_of(spec, 'tl.where(one >= 0, one, 0)', 'ldb')}")
        w.line(f"x = tl.load(B + at + j, mask=jm & (one + 0 * j >= 0), other=0).to({spec.accumulator})")
        w.line("total += tl.where(m[:, None], v[:, None] * x[None, :], 0)")
