"""Schedule properties that the traffic model reads, as arrays; they are extracted once per list, for any pattern."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, WideIndex
from autosparse.core.formats import DICTIONARY, SLICED_KINDS, LevelKind
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass, field

Numbers = NDArray[WideIndex]
Flags = NDArray[Flag]

MAX_KNOWN: Final = 64
VALUE_BITS: Final = {"": 0, DICTIONARY: 8}
SHARED_ORDERS: Final = ("first", "rcm")
"""Row orders in which consecutive rows share columns."""


@dataclass(frozen=True, eq=False)
class Traits:
    """Properties of a list of schedules, as arrays with one element each; the default kernel (None) is CSR, tile 0."""

    r: Numbers  # rows of a block or slice
    c: Numbers  # columns of a block
    panel: Numbers  # columns of a panel; 0: no panels
    sigma: Numbers
    unroll: Numbers
    tile: Numbers  # columns of the result computed in one pass; 0: as many as the runtime chooses
    index_bits: Numbers  # 0: the width of the user's arrays
    value_bits: Numbers  # 0: the width of the user's arrays
    is_default: Flags
    is_sliced: Flags
    is_diagonal: Flags
    is_shared: Flags  # rows are in one of SHARED_ORDERS
    blocks: tuple[tuple[int, int], ...]  # distinct pairs (r, c)
    block_of: Numbers
    slices: tuple[tuple[int, int], ...]  # distinct (r, sigma)
    slice_of: Numbers
    kept: dict[Hashable, Any] = field(default_factory=dict)  # values that a model derived from the traits

    @classmethod
    def of(cls, schedules: Sequence[SuperSchedule | None]) -> Traits:
        """Return the traits of `schedules`; those of the last MAX_KNOWN tuples are cached."""
        known = _known.get(id(schedules))
        if known is not None and known[0] is schedules:
            return known[1]
        found = cls._of(schedules)
        if isinstance(schedules, tuple):
            while len(_known) >= MAX_KNOWN:
                _known.pop(next(iter(_known)), None)
            _known[id(schedules)] = schedules, found
        return found

    @classmethod
    def _of(cls, schedules: Sequence[SuperSchedule | None]) -> Traits:
        rows = [_row(one) for one in schedules]
        columns = np.array(rows, WideIndex).reshape(len(rows), 12).T
        r, c, panel, sigma, unroll, tile, index_bits, value_bits = columns[:8]
        is_default, is_sliced, is_diagonal, is_shared = columns[8:].astype(bool)
        blocks, block_of = _numbered(r, c)
        slices, slice_of = _numbered(r, sigma)
        return cls(
            r, c, panel, sigma, unroll, tile, index_bits, value_bits, is_default, is_sliced, is_diagonal, is_shared,
            blocks, block_of, slices, slice_of,
        )  # fmt: skip


_known: dict[int, tuple[Any, Traits]] = {}


def _row(one: SuperSchedule | None) -> tuple[int, ...]:
    if one is None:
        return 1, 1, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0
    fmt, kind = one.format, one.format.levels[1].kind
    r, c = fmt.split("i"), fmt.split("k")
    is_sliced, is_paneled = kind in SLICED_KINDS, fmt.order[0] == "k1" and kind not in SLICED_KINDS
    return (
        *((1, 1, c) if is_paneled else (r, 1 if is_sliced else c, 0)),
        *(fmt.sigma, one.unroll, one.dense_split("j"), 0 if fmt.is_csr else fmt.index_bits),
        *(VALUE_BITS.get(fmt.values, 16), 0, int(is_sliced), int(kind is LevelKind.DIAGONAL)),
        int(fmt.rows in SHARED_ORDERS),
    )


def _numbered(one: Numbers, other: Numbers) -> tuple[tuple[tuple[int, int], ...], Numbers]:
    """Return the distinct pairs ``(one[n], other[n])``, and for each n the position of its pair among them."""
    pairs = list(zip(one.tolist(), other.tolist(), strict=True))
    distinct = list(dict.fromkeys(pairs))
    numbers = {pair: at for at, pair in enumerate(distinct)}
    return tuple(distinct), np.array([numbers[pair] for pair in pairs], WideIndex)
