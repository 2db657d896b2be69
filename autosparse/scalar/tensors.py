"""Torch's dtypes: of tensors with a fixed purpose, and of the types that products support."""

from __future__ import annotations

from typing import Final

import torch

from autosparse.scalar import BYTE, DOUBLE, HALF, INDICES, NARROW_INDEX, REAL, SCALARS, SINGLE, VALUE_CODES, WIDE_INDEX

narrow_index: Final = NARROW_INDEX.torch
wide_index: Final = WIDE_INDEX.torch
narrow_real: Final = SINGLE.torch
wide_real: Final = DOUBLE.torch
byte: Final = BYTE.torch

VALUE_TYPES: Final = {name: SCALARS[name].torch for name in VALUE_CODES}
"""Dtypes of values that the C runtime supports, by name."""
INDEX_TYPES: Final = tuple(SCALARS[name].torch for name in INDICES)
"""Dtypes of index tensors by the runtime's code."""
REAL_TYPES: Final = tuple(SCALARS[name].torch for name in REAL)
"""Real dtypes that the C runtime supports."""
COMPUTED: Final = {SCALARS[name].torch: SCALARS[SCALARS[name].compute].torch for name in HALF}
"""Dtype in which half-precision values are multiplied and summed."""
coarse_half: Final = max(COMPUTED, key=lambda dtype: torch.finfo(dtype).eps)
"""The half-precision dtype with the fewer digits."""
WITH_NUMPY: Final = tuple(
    getattr(torch, row.name)
    for row in sorted(SCALARS.values(), key=lambda row: row.kind != "real")
    if hasattr(torch, row.name) and row.has_numpy
)
"""Dtypes that NumPy has, too, real ones first."""
