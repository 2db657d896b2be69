"""Table `OPS` of operations, and functions that add rows to it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from autosparse.ops import names

if TYPE_CHECKING:
    from autosparse.ops.base import Operation

_MODULES: Final = (names.MATMUL, names.SDDMM, names.MTTKRP, names.SPGEMM, names.EINSUM)
"""Names of the library's operations; each is also the name of the module that holds its row."""
_registered: Final[dict[str, Operation]] = {}


class _LazyTable(Mapping[str, "Operation"]):
    """Mapping of rows by name. A row of the library is imported when it is first requested."""

    def __init__(self) -> None:
        self._rows: dict[str, Operation] = {}

    def __getitem__(self, name: str) -> Operation:
        found = self._rows.get(name) or _registered.get(name)
        if found is None:
            if name not in _MODULES:
                raise KeyError(name)
            found = self._rows[name] = getattr(importlib.import_module(f"autosparse.ops.{name}"), name.upper())
        return found

    def __contains__(self, name: object) -> bool:
        return name in _MODULES or name in _registered

    def __iter__(self) -> Iterator[str]:
        return iter((*_MODULES, *_registered))

    def __len__(self) -> int:
        return len(_MODULES) + len(_registered)


OPS: Final[Mapping[str, Operation]] = _LazyTable()


def register(row: Operation) -> None:
    """Add an operation at run time; raise ValueError when its name is taken."""
    if row.name in OPS:
        raise ValueError(f"there is an operation {row.name!r} already")
    _registered[row.name] = row


def unregister(name: str) -> None:
    """Remove a registered operation from the table."""
    del _registered[name]
