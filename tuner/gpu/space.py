"""Candidate schedules for a product on a GPU, from a table of families; the cost model ranks them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from autosparse.tuner.gpu.model import ITEM_BYTES

from autosparse.gpu.schedule import DOT_LAYOUTS, DeviceSchedule, GpuPart, kinds
from autosparse.gpu.target import DeviceTarget
from autosparse.ops.base import ProductKind
from autosparse.scalar import HALF, SCALARS

VECTOR_BYTES: Final = 16
"""Bytes of the widest load."""
WARP: Final = 32
"""Threads of a warp."""
WIDEST: Final = 128
"""Columns of the widest column tile."""
MAX_WIDE_PARTS: Final = 2
"""Number of parts above which float64 column tiles are halved again, since each part takes registers."""
LARGE_BLOCK: Final = 1024
"""Elements of a program's block from which on float64 SpMV needs more registers."""
FEWEST_ROWS: Final = 2
"""Minimum rows of an unrolled part in one program."""
MAX_ROWS: Final = 64
"""Maximum rows of an unrolled part in one program."""
WORD_BYTES: Final = 4
"""Bytes of a register of a thread; wider values take two."""

FILL: Final = GpuPart(layout="fill", rows=64)
"""Part that writes zeros to empty rows of the result."""
SPLIT: Final = 512
"""Maximum entries of a long row in one program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSet:
    """Family of schedules: parts, without the one for empty rows, and the tile widths and warps offered for them.

    `rows` of an unrolled part counts rows per group of lanes that holds one column tile. A program has as many groups
    as its warps have room for. The values below remained after a survey on an H200 (docs/design/gpu.md).
    """

    parts: tuple[GpuPart, ...]
    tiles: tuple[int, ...] = ()  # maximum tile widths; (): all columns, and half of them
    warps: tuple[int, ...] = ()  # (): as many as the block keeps busy
    registers: int = 64
    stages: int = 3
    tiles_by: str = ""  # TENSOR_CORES or CORES must multiply dense tiles of the dtype, for layouts with zeros


TENSOR_CORES: Final = "Tensor Cores"
"""Value of `PartSet.tiles_by` for products in Tensor Cores."""
CORES: Final = "cores"
"""Multiply-adds outside Tensor Cores, where zeros cost as much as entries: only matrices of full blocks gain."""


def _dots(*parts: GpuPart) -> PartSet:
    return PartSet(parts=parts, tiles_by=TENSOR_CORES)


_TAIL: Final = GpuPart(layout="unrolled", rows=2, step=4, split=SPLIT)
"""Rows of which long ones are cut."""
_BESIDE_DOTS: Final = GpuPart(layout="unrolled", rows=1, step=2, split=SPLIT)
"""Part for the entries that Tensor Cores leave; their sums take registers too."""
_SEGMENTS: Final = GpuPart(layout="segments", step=8, split=256)
"""Equal runs of entries."""

MATMUL: Final[Mapping[str, PartSet]] = {
    "unrolled": PartSet(parts=(_TAIL,), tiles=(128, 64), warps=(4,)),
    "unrolled 8": PartSet(parts=(GpuPart(layout="unrolled", rows=1, step=8, split=SPLIT),), tiles=(128,), warps=(4, 2)),
    "csr": PartSet(parts=(GpuPart(layout="rows", rows=1, step=8, split=SPLIT),)),
    "segments": PartSet(parts=(_SEGMENTS,)),
    "hyb": PartSet(
        parts=(
            GpuPart(layout="ell", rows=4, step=4, at_most=4),
            GpuPart(layout="ell", rows=2, step=8, at_most=16),
            GpuPart(layout="ell", rows=1, step=8, at_most=64),
            _SEGMENTS,
        )
    ),
    "windows 16": _dots(GpuPart(layout="windows", rows=16, step=16)),
    "windows 8": _dots(GpuPart(layout="windows", rows=8, step=16)),
    "windows 16 + rows": _dots(GpuPart(layout="windows", rows=16, step=16, at_least=4), _BESIDE_DOTS),
    "windows 16 + segments": _dots(GpuPart(layout="windows", rows=16, step=16, at_least=2), _SEGMENTS),
    "blocks 16": _dots(GpuPart(layout="blocks", rows=16, step=16)),
    "full windows": PartSet(
        parts=(GpuPart(layout="windows", rows=16, step=16),), tiles=(64,), warps=(2,), registers=168, tiles_by=CORES
    ),
    "full blocks": PartSet(
        parts=(GpuPart(layout="blocks", rows=16, step=16, split=128),),
        tiles=(128,), warps=(4,), registers=96, stages=1, tiles_by=CORES,
    ),
}  # fmt: skip
"""Families of schedules for A @ B, by name."""

SPMV: Final[Mapping[str, PartSet]] = {
    "binned": PartSet(
        parts=(
            GpuPart(layout="rows", rows=32, step=8, at_most=32),
            GpuPart(layout="rows", rows=4, step=64, split=4096),
        ),
        warps=(2,),
    ),
    "csr 16": PartSet(parts=(GpuPart(layout="rows", rows=8, step=16, split=4096),), warps=(1,)),
    "csr 32": PartSet(parts=(GpuPart(layout="rows", rows=4, step=32, split=4096),), warps=(1,)),
    "csr 16, 64 rows": PartSet(parts=(GpuPart(layout="rows", rows=64, step=16, split=4096),), warps=(4,)),
    "csr 8": PartSet(parts=(GpuPart(layout="rows", rows=32, step=8, split=2048),), warps=(2,)),
    "csr 4": PartSet(parts=(GpuPart(layout="rows", rows=128, step=4, split=4096),), warps=(4,)),
    "hyb": PartSet(
        parts=(
            GpuPart(layout="ell", rows=128, step=4, at_most=8),
            GpuPart(layout="ell", rows=32, step=16, at_most=32),
            GpuPart(layout="rows", rows=4, step=64, split=4096),
        ),
        warps=(4, 2),
    ),
}
"""Families of schedules for A @ x, by name."""
_ENTRIES: Final = GpuPart(layout="entries", rows=16)
"""Single entries of a sampled product."""

SDDMM: Final[Mapping[str, PartSet]] = {
    "unrolled": PartSet(
        parts=(GpuPart(layout="unrolled", rows=1, step=4, split=128),), tiles=(32,), warps=(1,), registers=96
    ),
    "unrolled 2": PartSet(
        parts=(GpuPart(layout="unrolled", rows=1, step=2, split=128),), tiles=(32,), warps=(4,), registers=64
    ),
    "unrolled 8": PartSet(
        parts=(GpuPart(layout="unrolled", rows=1, step=8, split=128),), tiles=(32,), warps=(4,), registers=168
    ),
    "entries": PartSet(parts=(_ENTRIES,), tiles=(16,), warps=(2,)),
    "entries 128": PartSet(parts=(GpuPart(layout="entries", rows=128),), tiles=(16,), warps=(4,), registers=168),
    "rows": PartSet(
        parts=(GpuPart(layout="rows", rows=1, step=32, split=128),), tiles=(32,), warps=(1,), registers=168
    ),
    "windows 16": _dots(GpuPart(layout="windows", rows=16, step=16)),
    "windows 16 + entries": _dots(
        GpuPart(layout="windows", rows=16, step=16, at_least=2), GpuPart(layout="entries", rows=32)
    ),
}
"""Families of schedules for sampled products, by name."""
MTTKRP: Final[Mapping[str, PartSet]] = {
    "fibers 16": PartSet(parts=(GpuPart(layout="fibers", step=8, split=16),)),
    "fibers 128": PartSet(parts=(GpuPart(layout="fibers", step=8, split=128),)),
}
"""Families of schedules for MTTKRP, by name."""
FAMILIES: Final[Mapping[ProductKind, Mapping[str, PartSet]]] = {
    "columns": MATMUL, "vector": SPMV, "sampled": SDDMM, "fibers": MTTKRP
}  # fmt: skip
"""Families of schedules by kind of product."""


def vector_of(dtype: str, *leading: int) -> int:
    """Return the elements per load: the largest size that divides all of `leading` (columns, row strides)."""
    most = VECTOR_BYTES // ITEM_BYTES[dtype]
    return next(size for size in (8, 4, 2, 1) if size <= most and all(one % size == 0 for one in leading))


def uses_dots(dtype: str, precision: str) -> bool:
    """Return whether Tensor Cores multiply this dtype."""
    return dtype in HALF or (SCALARS[dtype].has_tf32 and precision == "tf32")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSetting:
    """Product for which schedules are offered; `used_bytes`: size of the rows of B that are read."""

    operation: str
    n_dense_cols: int
    dtype: str
    vector: int
    precision: str = "ieee"
    used_bytes: int = 0
    target: DeviceTarget | None = None

    @property
    def kind(self) -> ProductKind:
        """Kind of product of the operation."""
        return kinds()[self.operation]

    @property
    def has_dots(self) -> bool:
        """Return whether layouts of Tensor Cores are offered."""
        return self.tiles_by == TENSOR_CORES

    @property
    def tiles_by(self) -> str:
        """Unit that multiplies dense tiles: TENSOR_CORES, CORES, or "" where neither is fast enough."""
        if (
            SCALARS[self.dtype].has_tf32 and self.kind == "sampled"
        ):  # TF32 spills registers, and multiply-adds are no faster
            return ""
        if uses_dots(self.dtype, self.precision):
            return TENSOR_CORES
        return CORES if SCALARS[self.dtype].has_tf32 else ""


def schedules(
    operation: str, *, n_dense_cols: int, dtype: str, vector: int, precision: str = "ieee"
) -> Iterator[tuple[str, DeviceSchedule]]:
    """Yield (family, schedule) of all candidates for the whole matrix, without a certain GPU in mind."""
    asked = GpuSetting(
        operation=operation, n_dense_cols=n_dense_cols, dtype=dtype, vector=vector, precision=precision
    )  # fmt: skip
    return offered(asked)


def offered(asked: GpuSetting) -> Iterator[tuple[str, DeviceSchedule]]:
    """Yield (family, schedule) of all candidates for the whole matrix."""
    for name, family in FAMILIES[asked.kind].items():
        if family.tiles_by in ("", asked.tiles_by):
            for made in sized(asked, family):
                yield name, made


def sized(asked: GpuSetting, family: PartSet) -> Iterator[DeviceSchedule]:
    """Yield schedules of `family` in all offered tiles and panels."""
    kind, n_cols = asked.kind, asked.n_dense_cols
    for tile, warps in _tiles(asked, family):
        parts = tuple(_fitted(part, tile, warps, asked.vector) for part in family.parts)
        for panel in _panels(tile, n_cols, asked.used_bytes, asked.target):
            yield DeviceSchedule(
                operation=asked.operation,
                parts=parts if kind == "sampled" else (*parts, FILL),
                tile=tile,
                warps=warps,
                registers=_registers(asked, family),
                stages=family.stages,
                vector=min(asked.vector, tile) if tile else 1,
                panel=panel,
                precision=asked.precision if SCALARS[asked.dtype].has_tf32 else "ieee",
            )


def _fitted(part: GpuPart, tile: int, warps: int, vector: int) -> GpuPart:
    """Return an unrolled part with `rows` scaled to the groups of lanes that each hold a column tile."""
    if part.layout != "unrolled":
        return part
    groups = warps * WARP * min(vector, tile) // tile
    return dataclasses.replace(part, rows=min(MAX_ROWS, max(FEWEST_ROWS, part.rows * groups)))


def _registers(asked: GpuSetting, family: PartSet) -> int:
    """Return the maximum registers of a thread, raised for bfloat16 (widening) and float64 (pairs) against spills."""
    is_unrolled = any(part.layout == "unrolled" for part in family.parts)
    is_large = asked.kind == "vector" and any(part.rows * part.step >= LARGE_BLOCK for part in family.parts)
    row = SCALARS[asked.dtype]
    is_short = (is_unrolled and row.is_widened) or (is_large and row.itemsize > WORD_BYTES)
    return max(family.registers, 96) if is_short else family.registers


def _tiles(asked: GpuSetting, family: PartSet) -> Iterator[tuple[int, int]]:
    """Yield (tile, warps) such that every thread loads `vector` elements and no column tile is mostly empty."""
    kind, parts = asked.kind, family.parts
    if kind == "vector":
        yield from ((0, warps) for warps in family.warps or (4, 2))
        return
    fitting, widest = 16, 32 if kind == "sampled" else _widest(parts, asked.dtype)
    while fitting < min(asked.n_dense_cols, widest):
        fitting *= 2
    tiles = {min(fitting, tile) for tile in family.tiles} or {fitting, max(16, fitting // 2)}
    if kind == "sampled" and family.tiles:  # lanes of four float32
        tiles = {max(16, tile * asked.vector // 4) for tile in family.tiles}
    for tile in sorted(tiles, reverse=True):
        if family.warps:
            yield from ((tile, warps) for warps in family.warps)
            continue
        if tall := [part.rows for part in parts if part.layout in DOT_LAYOUTS]:
            least = 2 if len(tall) == len(parts) else 4  # with 2, the loops beside Tensor Cores spill
            yield tile, min(8, max(least, max(tall) * tile // 256))
            continue
        if any(part.layout == "unrolled" for part in parts):
            yield tile, 4
            continue
        work = min(part.rows * part.step if part.layout != "entries" else part.rows for part in parts) * tile
        yield tile, max(1, min(4, work // (asked.vector * WARP)))


def _widest(parts: tuple[GpuPart, ...], dtype: str) -> int:
    """Return the widest tile whose sums fit the registers; float64 takes two each, and many parts take more."""
    if ITEM_BYTES[dtype] <= WORD_BYTES:
        return WIDEST
    return WIDEST // 4 if len(parts) > MAX_WIDE_PARTS else WIDEST // 2


def _panels(tile: int, n_dense_cols: int, used_bytes: int, target: DeviceTarget | None) -> tuple[int, ...]:
    """Return panel widths, in column tiles, to try; 0: all tiles.

    If B's rows exceed half of L2, also the number of tiles that fits into half.
    """
    if target is None or not tile or used_bytes <= target.l2_bytes // 2:
        return (0,)
    n_tiles = -(-n_dense_cols // tile)
    fits = int(n_tiles * target.l2_bytes / 2 / used_bytes)
    return (0, fits) if 0 < fits < n_tiles else (0,) if fits else (0, 1)
