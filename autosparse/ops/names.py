"""Names of the operations: until tuning begins, dispatch needs no more of them."""

from __future__ import annotations

from typing import Final

MATMUL: Final = "matmul"
SDDMM: Final = "sddmm"
MTTKRP: Final = "mttkrp"
SPGEMM: Final = "spgemm"
EINSUM: Final = "einsum"
