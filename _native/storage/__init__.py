"""Storage formats as levels, and the packing of operands into them."""

from __future__ import annotations
