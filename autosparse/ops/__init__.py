"""The operations that can be planned: one file each, one row in `OPS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosparse.ops.base import Operation
from autosparse.ops.matmul import MATMUL
from autosparse.ops.mttkrp import MTTKRP
from autosparse.ops.sddmm import SDDMM

OPS: Final[Mapping[str, Operation]] = {row.name: row for row in (MATMUL, SDDMM, MTTKRP)}

__all__ = ["OPS", "Operation"]
