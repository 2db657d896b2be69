"""Names of the operations, the only part of `autosparse.ops` that dispatch needs before tuning begins."""

from __future__ import annotations

from typing import Final

MATMUL: Final = "matmul"
SDDMM: Final = "sddmm"
MTTKRP: Final = "mttkrp"
SPGEMM: Final = "spgemm"
EINSUM: Final = "einsum"
