"""Schedules that are offered for a product on a GPU, from a table of families; the model ranks them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from autosparse.tuner.gpu.model import ITEM_BYTES

from autosparse.gpu.schedule import DOT_LAYOUTS, DeviceSchedule, Part, kinds
from autosparse.gpu.target import DeviceTarget
from autosparse.ops.base import ProductKind

VECTOR_BYTES: Final = 16
"""Of the widest load."""
WARP: Final = 32
WIDEST: Final = 128
"""Columns of the widest column tile."""
MOST_WIDE_PARTS: Final = 2
ATOMIC: Final = ("float32", "float64")
"""Dtypes whose shared rows may be added up atomically: of half precision each part would be rounded."""

FILL: Final = Part(layout="fill", rows=64)
SPLIT: Final = 512
"""Entries of a long row in one program."""

Family = Callable[[bool], tuple[Part, ...]]


def _rows(*parts: Part) -> Family:
    return lambda uses_dots: parts


def _dots(*parts: Part) -> Family:
    """Only where Tensor Cores take the dtype: their layouts hold zeros."""
    return lambda uses_dots: parts if uses_dots else ()


_TAIL: Final = Part(layout="rows", rows=1, step=8, split=SPLIT)
_SEGMENTS: Final = Part(layout="segments", step=8, split=256)
_SHORT: Final = Part(layout="rows", rows=4, step=4, at_most=8)

MATMUL: Final[Mapping[str, Family]] = {
    "csr": _rows(_TAIL),
    "binned": _rows(_SHORT, _TAIL),
    "segments": _rows(_SEGMENTS),
    "hyb": _rows(
        Part(layout="ell", rows=4, step=4, at_most=4),
        Part(layout="ell", rows=2, step=8, at_most=16),
        Part(layout="ell", rows=1, step=8, at_most=64),
        _SEGMENTS,
    ),
    "windows 16": _dots(Part(layout="windows", rows=16, step=16)),
    "windows 8": _dots(Part(layout="windows", rows=8, step=16)),
    "windows 16 + rows": _dots(Part(layout="windows", rows=16, step=16, at_least=4), _TAIL),
    "windows 16 + segments": _dots(Part(layout="windows", rows=16, step=16, at_least=2), _SEGMENTS),
    "blocks 16": _dots(Part(layout="blocks", rows=16, step=16)),
}
"""Name -> parts for A @ B, without the one for empty rows."""

SPMV: Final[Mapping[str, Family]] = {
    "binned": _rows(
        Part(layout="rows", rows=128, step=4, at_most=8),
        Part(layout="rows", rows=16, step=16, at_most=128),
        Part(layout="rows", rows=1, step=256, split=4096),
    ),
    "csr 16": _rows(Part(layout="rows", rows=32, step=8, split=2048)),
    "csr 64": _rows(Part(layout="rows", rows=8, step=32, split=4096)),
    "hyb": _rows(
        Part(layout="ell", rows=128, step=4, at_most=8),
        Part(layout="ell", rows=32, step=16, at_most=32),
        Part(layout="rows", rows=4, step=64, split=4096),
    ),
}
SDDMM: Final[Mapping[str, Family]] = {
    "entries": _rows(Part(layout="entries", rows=16)),
    "rows": _rows(Part(layout="rows", rows=1, step=16, split=128)),
    "windows 16": _dots(Part(layout="windows", rows=16, step=16)),
    "windows 16 + entries": _dots(
        Part(layout="windows", rows=16, step=16, at_least=2), Part(layout="entries", rows=16)
    ),
}
MTTKRP: Final[Mapping[str, Family]] = {
    "fibers 16": _rows(Part(layout="fibers", step=8, split=16)),
    "fibers 128": _rows(Part(layout="fibers", step=8, split=128)),
}
FAMILIES: Final[Mapping[ProductKind, Mapping[str, Family]]] = {
    "columns": MATMUL, "vector": SPMV, "sampled": SDDMM, "fibers": MTTKRP
}  # fmt: skip
"""What kernels compute -> families of schedules."""


def vector_of(dtype: str, *leading: int) -> int:
    """Elements that one load takes, where all of `leading` (columns, elements from row to row) are multiples of it."""
    most = VECTOR_BYTES // ITEM_BYTES[dtype]
    return next(size for size in (8, 4, 2, 1) if size <= most and all(one % size == 0 for one in leading))


def uses_dots(dtype: str, precision: str) -> bool:
    """Whether Tensor Cores multiply this dtype."""
    return dtype in ("float16", "bfloat16") or (dtype == "float32" and precision == "tf32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What schedules are offered for. `used_bytes`: of the rows of B that are read; `target`: where that matters."""

    operation: str
    n_dense_cols: int
    dtype: str
    vector: int
    precision: str = "ieee"
    used_bytes: int = 0
    target: DeviceTarget | None = None

    @property
    def kind(self) -> ProductKind:
        """What is computed."""
        return kinds()[self.operation]

    @property
    def has_dots(self) -> bool:
        """Whether layouts of Tensor Cores are offered."""
        is_spilling = self.kind == "sampled" and self.dtype == "float32"  # in TF32
        return uses_dots(self.dtype, self.precision) and not is_spilling


def schedules(
    operation: str, *, n_dense_cols: int, dtype: str, vector: int, precision: str = "ieee"
) -> Iterator[tuple[str, DeviceSchedule]]:
    """(family, schedule) of everything without rules that is offered on any device."""
    asked = Setting(
        operation=operation, n_dense_cols=n_dense_cols, dtype=dtype, vector=vector, precision=precision
    )  # fmt: skip
    return offered(asked)


def offered(asked: Setting) -> Iterator[tuple[str, DeviceSchedule]]:
    """(family, schedule) of everything without rules that is offered."""
    for name, family in FAMILIES[asked.kind].items():
        for made in sized(asked, family(asked.has_dots)):
            yield name, made


def sized(asked: Setting, parts: tuple[Part, ...]) -> Iterator[DeviceSchedule]:
    """Schedules of `parts` with the tiles, panels and reductions that are offered; none of no parts."""
    kind, n_cols = asked.kind, asked.n_dense_cols
    for tile, warps in _tiles(kind, parts, n_cols, asked.vector, asked.dtype) if parts else ():
        for panel in _panels(tile, n_cols, asked.used_bytes, asked.target):
            made = DeviceSchedule(
                operation=asked.operation,
                parts=parts if kind == "sampled" else (*parts, FILL),
                tile=tile,
                warps=warps,
                vector=min(asked.vector, tile) if tile else 1,
                panel=panel,
                precision=asked.precision if asked.dtype == "float32" else "ieee",
            )
            yield made
            if made.shares_rows and asked.dtype in ATOMIC:
                yield dataclasses.replace(made, reduction="atomic")


def _tiles(
    kind: ProductKind, parts: tuple[Part, ...], n_dense_cols: int, vector: int, dtype: str
) -> Iterator[tuple[int, int]]:  # fmt: skip
    """(tile, warps): every thread has a load of `vector` elements to do, and no column tile is mostly empty."""
    if kind == "vector":
        yield from ((0, 4), (0, 2))
        return
    fitting, widest = 16, 32 if kind == "sampled" else _widest(parts, dtype)
    while fitting < min(n_dense_cols, widest):
        fitting *= 2
    for tile in sorted({fitting, max(16, fitting // 2)}, reverse=True):
        if tall := [part.rows for part in parts if part.layout in DOT_LAYOUTS]:
            least = 2 if len(tall) == len(parts) else 4  # with 2 the loops beside Tensor Cores spill
            yield tile, min(8, max(least, max(tall) * tile // 256))
            continue
        work = min(part.rows * part.step if part.layout != "entries" else part.rows for part in parts) * tile
        yield tile, max(1, min(4, work // (vector * WARP)))


def _widest(parts: tuple[Part, ...], dtype: str) -> int:
    """Columns of the widest tile whose sums fit the registers: float64 takes two, and many parts take some too."""
    if dtype != "float64":
        return WIDEST
    return WIDEST // 4 if len(parts) > MOST_WIDE_PARTS else WIDEST // 2


def _panels(tile: int, n_dense_cols: int, used_bytes: int, target: DeviceTarget | None) -> tuple[int, ...]:
    """All columns at once; or where B's rows exceed the second cache, so many column tiles as fit into half of it."""
    if target is None or not tile or used_bytes <= target.l2_bytes // 2:
        return (0,)
    n_tiles = -(-n_dense_cols // tile)
    fits = int(n_tiles * target.l2_bytes / 2 / used_bytes)
    return (0, fits) if 0 < fits < n_tiles else (0,) if fits else (0, 1)
