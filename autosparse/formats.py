"""Format: how a sparse operand is stored, as an ordered list of levels over split coordinates (WACO §3.1, TACO).

Index ``i`` with split size s has an outer coordinate ``i1 = i // s`` and an inner one ``i0 = i % s``. With s = 1 the
inner coordinate is always 0 and its level is left out. A level is Uncompressed (all coordinates of its extent exist,
position = parent position * extent + coordinate) or Compressed (positions are listed: pos and crd arrays).

====================  ==============================================
CSR                   ``i1:U,k1:C``
CSC                   ``k1:U,i1:C``
DCSR                  ``i1:C,k1:C``
BCSR 4x4              ``i1:U,k1:C,i0:U,k0:U | i=4,k=4``
UCU (dense columns)   ``i1:U,k1:C,i0:U | i=8``
sparse block (UUC)    ``k1:U,i1:U,k0:C | k=16384``
====================  ==============================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from autosparse.errors import ScheduleError


class LevelKind(str, Enum):
    """Level formats of WACO and TACO."""

    UNCOMPRESSED = "U"
    COMPRESSED = "C"


INDEX_BITS: Final = (16, 32, 64)
MAX_SPLIT: Final = 32768


@dataclass(frozen=True, slots=True)
class Level:
    """One storage level: the coordinate it ranges over ("i1", "k0", ...) and how it is stored."""

    coordinate: str
    kind: LevelKind

    def __str__(self) -> str:
        return f"{self.coordinate}:{self.kind.value}"


@dataclass(frozen=True, slots=True)
class Format:
    """Levels from outermost to innermost, split sizes (only those > 1), and the width of stored coordinates in bits."""

    levels: tuple[Level, ...]
    splits: tuple[tuple[str, int], ...] = ()
    index_bits: int = 32

    def __post_init__(self) -> None:
        reason = self._reason_illegal()
        if reason:
            raise ScheduleError.illegal(self, reason)

    def _reason_illegal(self) -> str | None:
        names = [level.coordinate for level in self.levels]
        indices = {name[:-1] for name in names}
        wanted = {f"{index}1" for index in indices} | {f"{index}0" for index, _ in self.splits}
        if sorted(names) != sorted(wanted):
            return f"levels must name each coordinate once: got {sorted(names)}, the splits ask for {sorted(wanted)}"
        bad = [f"{index}={size}" for index, size in self.splits if not 1 < size <= MAX_SPLIT]
        if bad:
            return f"split sizes must lie in 2..{MAX_SPLIT}: {', '.join(bad)}"
        if tuple(sorted(self.splits)) != self.splits:
            return "splits must be sorted by index"
        if self.index_bits not in INDEX_BITS:
            return f"index_bits must be one of {INDEX_BITS}, not {self.index_bits}"
        return None

    def split(self, index: str) -> int:
        """Split size of `index` (1 when it is not split)."""
        return dict(self.splits).get(index, 1)

    @property
    def order(self) -> tuple[str, ...]:
        """Coordinates from the outermost level to the innermost."""
        return tuple(level.coordinate for level in self.levels)

    @property
    def is_csr(self) -> bool:
        """Whether the user's own CSR arrays already are this format (nothing to pack, values read live)."""
        return str(self).startswith("i1:U,k1:C") and len(self.levels) == 2 and self.index_bits != 16

    @property
    def has_padding(self) -> bool:
        """Whether zeros that the pattern does not have are stored and multiplied (the last level is Uncompressed).

        A product with padding equals SciPy's exactly where every result is finite: 0 * inf would be nan. Its kernels
        report non-finite results, and the executor then computes the product by the default kernel.
        """
        return self.levels[-1].kind is LevelKind.UNCOMPRESSED

    def __str__(self) -> str:
        text = ",".join(map(str, self.levels))
        if self.splits:
            text += " | " + ",".join(f"{index}={size}" for index, size in self.splits)
        return text if self.index_bits == 32 else f"{text} | bits={self.index_bits}"

    @classmethod
    def parse(cls, text: str) -> Format:
        """Inverse of str(): ``"i1:U,k1:C,i0:U,k0:U | i=8,k=4 | bits=16"``; split sizes of 1 may be written out."""
        parts = [part.strip() for part in text.split("|")]
        if not re.fullmatch(r"[a-z][01]:[UC](\s*,\s*[a-z][01]:[UC])*", parts[0]):
            raise ScheduleError.unparsable(text, expected="levels like 'i1:U,k1:C' then ' | i=8,k=1'")
        levels = [Level(item.split(":")[0].strip(), LevelKind(item.split(":")[1].strip())) for item in parts[0].split(",")]
        settings: dict[str, int] = {}
        for item in (item for part in parts[1:] for item in part.split(",")):
            match = re.fullmatch(r"\s*([a-z]+)\s*=\s*(\d+)\s*", item)
            if match is None:
                raise ScheduleError.unparsable(text, expected="settings like 'i=8' or 'bits=16' after '|'")
            settings[match[1]] = int(match[2])
        bits = settings.pop("bits", 32)
        return cls.of(levels, settings, index_bits=bits)

    @classmethod
    def of(cls, levels: list[Level], splits: Mapping[str, int], *, index_bits: int = 32) -> Format:
        """A format in normal form: splits of size 1 and their inner levels dropped, splits sorted."""
        kept = {index: size for index, size in splits.items() if size != 1}
        dropped = {f"{index}0" for index, size in splits.items() if size == 1}
        return cls(
            tuple(level for level in levels if level.coordinate not in dropped),
            tuple(sorted(kept.items())),
            index_bits,
        )


CSR: Final = Format.parse("i1:U,k1:C")
