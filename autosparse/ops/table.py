"""`OPS`, the table of operations, and how a row is added to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from autosparse.ops.base import Operation
from autosparse.ops.einsum import EINSUM
from autosparse.ops.matmul import MATMUL
from autosparse.ops.mttkrp import MTTKRP
from autosparse.ops.sddmm import SDDMM
from autosparse.ops.spgemm import SPGEMM

_rows: Final = {row.name: row for row in (MATMUL, SDDMM, MTTKRP, SPGEMM, EINSUM)}
OPS: Final[Mapping[str, Operation]] = MappingProxyType(_rows)


def register(row: Operation) -> None:
    """Add an operation while the program runs. ValueError when its name is taken."""
    if row.name in _rows:
        raise ValueError(f"there is an operation {row.name!r} already")
    _rows[row.name] = row


def unregister(name: str) -> None:
    """Take an operation that was registered out of the table again."""
    del _rows[name]
