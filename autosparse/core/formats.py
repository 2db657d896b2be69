"""Format: the storage of a sparse operand as an ordered list of levels over split coordinates (WACO §3.1, TACO).

Index ``i`` with split size s has an outer coordinate ``i1 = i // s`` and an inner one ``i0 = i % s``. With s = 1 the
inner coordinate is always 0 and its level is left out. Kinds of levels:

- Uncompressed: all coordinates of the extent exist; position = parent position * extent + coordinate.
- Compressed: positions are listed, by pos and crd arrays.
- Sliced: the listed positions are slots. The Uncompressed level inside holds the lanes of a slice, and every lane has a
  coordinate of its own (Chou et al. 2018: a singleton below a sliced level). The blocks of lanes are numbered after
  rows were sorted by length within windows of `sigma` rows (1: not sorted).
- Diagonal: Sliced, but a slice whose entries fill few diagonals stores one coordinate per slot, which grows by one from
  lane to lane.
- Nonunique: every entry has a position, also where coordinates repeat. The levels inside are Singletons: one coordinate
  for each of these positions (Chou et al. 2018).

Formats without slices can store rows in one of `ROW_ORDERS`, in which rows that share columns are neighbours. Results
are in the user's order in every case. `PRESETS` lists the formats that the literature names.
"""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Mapping
from enum import Enum
from typing import Final

from autosparse.core.values import dataclass, field
from autosparse.errors import ScheduleError
from autosparse.scalar import DICTIONARY as ENCODED
from autosparse.scalar import HALF


class LevelKind(str, Enum):
    """Kind of a storage level: WACO's and TACO's level formats, slots of sliced formats, and entries one by one."""

    UNCOMPRESSED = "U"
    COMPRESSED = "C"
    SLICED = "S"
    DIAGONAL = "D"
    NONUNIQUE = "N"
    SINGLETON = "Q"


SLICED_KINDS: Final = frozenset({LevelKind.SLICED, LevelKind.DIAGONAL})
"""Kinds of levels whose positions are slots of lanes."""


INDEX_BITS: Final = (16, 32, 64)
MAX_SPLIT: Final = 32768
MAX_SIGMA: Final = 1 << 20
ROW_ORDERS: Final = ("first", "rcm", "degree", "listed")
"""Row orders of a format: by smallest column, reverse Cuthill-McKee, longest rows first, or an explicit list.

"listed" is for parts of a matrix, whose rows are not contiguous in C.
"""
DICTIONARY: Final = ENCODED
"""Value of `Format.values` for dictionary-encoded values (CSR-VI): exact, see `_native.storage.numbered`."""
STORED_VALUES: Final = HALF
"""16-bit types that values can be rounded to for storage, only if the user asks for it (see `_native.halves`)."""


@dataclass(frozen=True, slots=True)
class Level:
    """Storage level: a coordinate ("i1", "k0", ...) and the way in which it is stored."""

    coordinate: str
    kind: LevelKind

    def __str__(self) -> str:
        return f"{self.coordinate}:{self.kind.value}"


CSR_LEVELS: Final = (Level("i1", LevelKind.UNCOMPRESSED), Level("k1", LevelKind.COMPRESSED))


@dataclass(frozen=True, slots=True)
class Format:
    """Levels from outermost to innermost, split sizes (only those > 1), and the width of stored coordinates in bits.

    In sliced formats 16-bit coordinates are relative to the slice's smallest coordinate. A slice where 16 bits do not
    suffice stores 32.
    """

    levels: tuple[Level, ...]
    splits: tuple[tuple[str, int], ...] = ()
    index_bits: int = 32
    sigma: int = 1  # sliced formats only: rows per window that is sorted by length; 1: not sorted
    rows: str = ""  # one of ROW_ORDERS, in which i counts rows (results: in the user's order); "": user's order
    values: str = ""  # type that values are rounded to (STORED_VALUES), DICTIONARY, or "": the type that is computed in
    _text: str = field(default="", init=False, repr=False, compare=False)  # result of str(), cached

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
        if self.values and self.values not in (*STORED_VALUES, DICTIONARY):
            return f"values must be one of {', '.join((*STORED_VALUES, DICTIONARY))}, not {self.values!r}"
        if self.values and self.is_sliced != (self.values == DICTIONARY):
            return f"values={self.values}: slices store values as they are or numbered, no other format numbers them"
        return self._reason_illegal_order(names) or self._reason_illegal_slices() or self._reason_illegal_singletons()

    def _reason_illegal_order(self, names: list[str]) -> str | None:
        if self.rows and self.rows not in ROW_ORDERS:
            return f"rows must be one of {', '.join(ROW_ORDERS)}, not {self.rows!r}"
        if self.rows and "i1" not in names:
            return f"rows={self.rows} orders the index i, which no level has"
        return None

    def _reason_illegal_singletons(self) -> str | None:
        kinds = [level.kind for level in self.levels]
        first = kinds.index(LevelKind.NONUNIQUE) if LevelKind.NONUNIQUE in kinds else len(kinds)
        inside = kinds[first + 1 :]
        if LevelKind.SINGLETON in kinds[:first]:
            return "a singleton level must lie inside a nonunique one"
        if first < len(kinds) and (not inside or any(kind is not LevelKind.SINGLETON for kind in inside)):
            return "a nonunique level must be followed by singletons, and by nothing else"
        return None

    def _reason_illegal_slices(self) -> str | None:
        sliced = [depth for depth, level in enumerate(self.levels) if level.kind in SLICED_KINDS]
        if not sliced:
            return None if self.sigma == 1 else f"sigma={self.sigma} sorts the rows of slices: no level is sliced"
        if self.rows:
            return f"rows={self.rows} is not allowed with slices, which permute rows by sigma"
        slots, lanes = self.levels[sliced[0]], self.levels[sliced[0] + 1 :]
        is_inner = len(lanes) == 1 and lanes[0].coordinate.endswith("0") and lanes[0].kind is LevelKind.UNCOMPRESSED
        if not is_inner or lanes[0].coordinate[0] == slots.coordinate[0]:
            return "one uncompressed level of another index's inner coordinate must follow a sliced one: its lanes"
        size = self.split(lanes[0].coordinate[0])
        if self.sigma != 1 and (self.sigma % size or not size <= self.sigma <= MAX_SIGMA):
            return f"sigma={self.sigma} must be 1 or a multiple of the {size} rows of a slice, at most {MAX_SIGMA}"
        return None

    def split(self, index: str) -> int:
        """Return the split size of `index`, 1 when it is not split."""
        return dict(self.splits).get(index, 1)

    @property
    def order(self) -> tuple[str, ...]:
        """Coordinates from the outermost level to the innermost."""
        return tuple(level.coordinate for level in self.levels)

    def extents(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return each coordinate's extent, given the index extents `sizes`: blocks (outer) or split size (inner)."""
        return {
            name: -(-sizes[name[:-1]] // self.split(name[:-1])) if name.endswith("1") else self.split(name[:-1])
            for name in self.order
        }

    def too_long(self, sizes: Mapping[str, int], limit: int) -> str | None:
        """Return the first listed coordinate with more than `limit` values, or None; always None for sliced formats.

        Slices store coordinates relative to their own first one, so the limit does not apply to them.
        """
        if self.is_sliced:
            return None
        extents = self.extents(sizes)
        listed = (level.coordinate for level in self.levels if level.kind is not LevelKind.UNCOMPRESSED)
        return next((name for name in listed if extents[name] > limit), None)

    @property
    def is_csr(self) -> bool:
        """Return whether the user's CSR arrays are already in this format, so that values are read without packing."""
        return self.levels == CSR_LEVELS and self.index_bits != 16 and not (self.rows or self.values)

    @property
    def is_sliced(self) -> bool:
        """Return whether some level's positions are slots of lanes (SELL)."""
        return any(level.kind in SLICED_KINDS for level in self.levels)

    @property
    def has_padding(self) -> bool:
        """Return whether the format stores and multiplies zeros that the pattern does not have (last level
        Uncompressed).

        A product with padding equals SciPy's exactly where every result is finite: 0 * inf would be nan. Its kernels
        report non-finite results, and the executor then computes the product by the default kernel.
        """
        return self.levels[-1].kind is LevelKind.UNCOMPRESSED

    def as_compiled(self) -> Format:
        """Return the format with normalised row order and window size, on which generated code does not depend."""
        if self.rows:
            return dataclasses.replace(self, rows=ROW_ORDERS[0])
        return self if self.sigma == 1 else dataclasses.replace(self, sigma=self.split(self.order[-1][0]))

    def __str__(self) -> str:
        if not self._text:
            object.__setattr__(self, "_text", self._written())
        return self._text

    def _written(self) -> str:
        text = ",".join(map(str, self.levels))
        if self.splits:
            text += " | " + ",".join(f"{index}={size}" for index, size in self.splits)
        if self.sigma != 1:
            text += f" | sigma={self.sigma}"
        if self.rows:
            text += f" | rows={self.rows}"
        if self.values:
            text += f" | values={self.values}"
        return text if self.index_bits == 32 else f"{text} | bits={self.index_bits}"

    @classmethod
    def parse(cls, text: str) -> Format:
        """Parse text such as ``"i1:U,k1:C,i0:U,k0:U | i=8,k=4 | bits=16"``, the inverse of str().

        Split sizes of 1 may be written out.
        """
        parts = [part.strip() for part in text.split("|")]
        levels = [_parsed_level(item.strip(), text) for item in parts[0].split(",")]
        settings: dict[str, int] = {}
        words = {"rows": "", "values": ""}
        for item in (item for part in parts[1:] for item in part.split(",")):
            name, _, value = (one.strip() for one in item.partition("="))
            if name in words and _is_word(value.rstrip(string.digits)):
                words[name] = value
            elif _is_word(name) and value.isdecimal():
                settings[name] = int(value)
            else:
                raise ScheduleError.unparsable(text, expected="settings like 'i=8', 'bits=16' or 'rows=rcm' after '|'")
        bits, sigma = settings.pop("bits", 32), settings.pop("sigma", 1)
        if unknown := sorted(settings.keys() - {level.coordinate[:-1] for level in levels}):
            raise ScheduleError.unparsable(text, expected=f"a split of a level's index, not of {', '.join(unknown)}")
        return cls.of(levels, settings, index_bits=bits, sigma=sigma, **words)

    @classmethod
    def of(
        cls,
        levels: list[Level],
        splits: Mapping[str, int],
        *,
        index_bits: int = 32,
        sigma: int = 1,
        rows: str = "",
        values: str = "",
    ) -> Format:
        """Return a format in normal form: splits of size 1 and their inner levels dropped, splits sorted."""
        kept = {index: size for index, size in splits.items() if size != 1}
        dropped = {f"{index}0" for index, size in splits.items() if size == 1}
        return cls(
            tuple(level for level in levels if level.coordinate not in dropped),
            tuple(sorted(kept.items())),
            index_bits,
            sigma,
            rows,
            values,
        )


# Texts of formats are parsed without `re`, because compiling the patterns would take 1 ms of a process.
_KINDS: Final = {kind.value: kind for kind in LevelKind}


def _parsed_level(item: str, text: str) -> Level:
    """Return the level that `item` of the format `text` means, such as "i1:U"."""
    coordinate, _, kind = item.partition(":")
    if len(coordinate) != 2 or not _is_word(coordinate[0]) or coordinate[1] not in "01" or kind not in _KINDS:
        raise ScheduleError.unparsable(text, expected="levels like 'i1:U,k1:C' then ' | i=8,k=1'")
    return Level(coordinate, _KINDS[kind])


def _is_word(text: str) -> bool:
    """Return whether the text consists of lowercase letters only."""
    return text.isascii() and text.isalpha() and text.islower()


@dataclass(frozen=True, slots=True)
class Preset:
    """Format that the literature names: its levels, its usual split sizes, and its source."""

    levels: str
    settings: str
    source: str

    @property
    def format(self) -> Format:
        """Format with the split sizes of `settings`."""
        return Format.parse(f"{self.levels} | {self.settings}" if self.settings else self.levels)


PRESETS: Final[Mapping[str, Preset]] = {
    "CSR": Preset("i1:U,k1:C", "", "UC in WACO, Fig. 3 (a)"),
    "CSC": Preset("k1:U,i1:C", "", "CSR of the transpose"),
    "DCSR": Preset("i1:C,k1:C", "", "Buluç and Gilbert 2008: hypersparse, rows without entries left out"),
    "DCSC": Preset("k1:C,i1:C", "", "Buluç and Gilbert 2008"),
    "dense": Preset("i1:U,k1:U", "", "UU"),
    "BCSR": Preset("i1:U,k1:C,i0:U,k0:U", "i=4,k=4", "Im and Yelick 2001; UCUU in WACO, Fig. 3 (b)"),
    "BCSR 1 x c": Preset("i1:U,k1:C,k0:U", "k=4", "Vuduc 2003: blocks along rows"),
    "BCSC": Preset("k1:U,i1:C,k0:U,i0:U", "i=4,k=4", "BCSR of the transpose"),
    "UCU": Preset("i1:U,k1:C,i0:U", "i=8", "WACO §5.2.1, Fig. 14: blocks along columns"),
    "sparse block": Preset("k1:U,i1:U,k0:C", "k=16384", "UUC in WACO §5.2.1: panels of columns"),
    "CSB": Preset("i1:U,k1:U,i0:N,k0:Q", "i=256,k=256", "Buluç et al. 2009: a list of entries for each block"),
    "COO": Preset("i1:N,k1:Q", "", "Chou et al. 2018"),
    "SELL": Preset("i1:U,k1:S,i0:U", "i=16 | sigma=512", "Kreutzer et al. 2014: SELL-C-sigma, here SELL-16-512"),
    "SELL with diagonals": Preset("i1:U,k1:D,i0:U", "i=16 | sigma=512", "SELL, and DIA in slices that it suits"),
    "CSR by RCM": Preset("i1:U,k1:C", "rows=rcm", "Cuthill and McKee 1969"),
    "CSF": Preset("i1:C,k1:C,l1:C", "", "Smith and Karypis 2015; CCC in WACO §5.1"),
    "CSF, dense roots": Preset("i1:U,k1:C,l1:C", "", "UCC: every row has a place, as in CSR"),
    "CSF, flat": Preset("i1:U,k1:N,l1:Q", "", "the entries of a row one by one: no fibers"),
    "COO of order 3": Preset("i1:N,k1:Q,l1:Q", "", "Chou et al. 2018"),
}
"""Formats by their names in the literature: of matrices, then of tensors of order 3."""

CSR: Final = PRESETS["CSR"].format
