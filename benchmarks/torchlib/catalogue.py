"""Catalogue of all programs by name."""

from __future__ import annotations

from typing import Final

from torchlib import iterations, networks
from torchlib.program import TorchProgram

PROGRAMS: Final[dict[str, TorchProgram]] = {one.name: one for one in (*networks.PROGRAMS, *iterations.PROGRAMS)}
