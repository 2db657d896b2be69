"""Storage: formats as levels, and the packing of an operand into them."""

from __future__ import annotations
