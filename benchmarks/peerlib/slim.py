"""Summaries of result files: the fields that a page or plot reads, with as many digits as it shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

LONG: Final = 60
"""Characters from which a text counts as long."""
T = TypeVar("T")
DIGITS: Final = (4, 6, 9, 17)
"""Significant digits that are tried for the floats of a summary; 17 keep every float as it is."""


class Watched(dict[str, Any]):
    """A dict that remembers which of its keys were read."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__({name: _watched(value) for name, value in fields.items()})
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of `name`, which counts as read."""
        self.read.add(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """Return the value of `name`, which counts as read, and keep it."""
        return self[name] if name in self else super().pop(name, *default)

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self.read.update(super().keys())
        return super().__iter__()

    def keys(self) -> Any:
        """Return the keys, which all count as read."""
        self.read.update(super().keys())
        return super().keys()

    def items(self) -> Any:
        """Return the items, which all count as read."""
        self.read.update(super().keys())
        return super().items()

    def values(self) -> Any:
        """Return the values, which all count as read."""
        self.read.update(super().keys())
        return super().values()

    def kept(self) -> dict[str, Any]:
        """Return the fields that were read."""
        return {name: _kept(dict.__getitem__(self, name)) for name in dict.keys(self) if name in self.read}


def _watched(value: Any) -> Any:
    if isinstance(value, dict):
        return Watched(value)
    return [_watched(one) for one in value] if isinstance(value, list) else value


def _kept(value: Any) -> Any:
    if isinstance(value, Watched):
        return value.kept()
    return [_kept(one) for one in value] if isinstance(value, list) else value


def slim(
    lines: Sequence[dict[str, Any]], render: Callable[[list[dict[str, Any]]], T], *, is_cut: bool = False
) -> list[dict[str, Any]]:
    """Return the lines with the fields that `render` reads, as short as its result stays the same.

    Floats have the fewest of `DIGITS`. With `is_cut`, long texts are cut: `render` must not depend on them.
    """
    watched = [Watched(line) for line in lines]
    wanted = render(list(watched))
    kept = [one for one in (line.kept() for line in watched) if one]
    for digits in DIGITS:
        found: list[dict[str, Any]] = [_shortened(line, digits, LONG if is_cut else None) for line in kept]
        if render(found) == wanted:
            return found
    raise ValueError("a page differs when it is made from the fields that it reads")


def _shortened(value: Any, digits: int, length: int | None) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, str) and length is not None and len(value) > length:
        return "cut"
    if isinstance(value, dict):
        return {name: _shortened(one, digits, length) for name, one in value.items()}
    return [_shortened(one, digits, length) for one in value] if isinstance(value, list) else value


JOINED: Final = " > "
"""Separator of the keys of nested dicts in the name of a column."""


def packed(lines: Sequence[dict[str, Any]]) -> str:
    """Return lines as text, a third of their size as JSON lines: names of columns once, then rows of values.

    The first line declares sets of columns. A row begins with the number of its set. A column with few different texts
    has a list of them in ``texts``, and rows hold places in that list.
    """
    flat = [dict(_flat(line)) for line in lines]
    sets = {columns: number for number, columns in enumerate(dict.fromkeys(map(tuple, flat)))}
    declared = [{"columns": one, "texts": _texts([line for line in flat if tuple(line) == one])} for one in sets]
    found = [_json(declared)]
    for one in flat:
        texts = declared[number := sets[tuple(one)]]["texts"]
        found.append(_json([number, *(texts[name].index(v) if name in texts else v for name, v in one.items())]))
    return "".join(f"{one}\n" for one in found)


def _texts(rows: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    found = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if all(isinstance(value, str) for value in values) and 2 * len(set(values)) < len(values):
            found[name] = sorted(set(values))
    return found


def unpacked(text: str) -> list[dict[str, Any]]:
    """Return the lines that `packed` wrote."""
    declared, *rows = map(json.loads, text.splitlines())
    found: list[dict[str, Any]] = []
    for number, *values in rows:
        texts = declared[number]["texts"]
        found.append(line := {})
        for name, value in zip(declared[number]["columns"], values, strict=True):
            *outer, last = name.split(JOINED)
            place = line
            for key in outer:
                place = place.setdefault(key, {})
            place[last] = texts[name][value] if name in texts else value
    return found


def _flat(value: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, one in value.items():
        if isinstance(one, dict) and one:
            yield from _flat(one, f"{before}{name}{JOINED}")
        else:
            yield before + name, one


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
