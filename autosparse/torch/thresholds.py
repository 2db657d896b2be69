"""Who computes a product of PyTorch tensors that is too small to be planned: the table of all limits.

Above these limits `autosparse.tuning.planner` chooses; no other module of this folder decides by size.

| multiplications | who computes |
|---|---|
| below `BUILTIN_PRODUCT` | one builtin that reads the tensors (`small_operands`), where it knows this PyTorch |
| below `PYTORCH_PRODUCT` | otherwise PyTorch's own kernel, of CSR and COO matrices (`fallback`) |
| below `DIRECT_PRODUCT` | the default kernel, called directly (`direct`, `native`) |
| below `DIRECT_SAMPLE` | the same for products that are sampled at a matrix's entries |
| from there on | the executor, so that the planner may choose another kernel (`products`) |
"""

from __future__ import annotations

from typing import Final

import torch

BUILTIN_PRODUCT: Final = 1 << 13
"""Multiplications, and entries of a result, below which the builtin computes: asking from Python takes longer."""
PYTORCH_PRODUCT = 1 << 13 if torch._C.has_mkl else 0  # without MKL PyTorch refuses some of these products
"""Multiplications below which nothing is gained over PyTorch's own kernel, and what our Python costs is lost."""
DIRECT_PRODUCT = 1 << 18
"""Multiplications below which nothing could be gained by a plan, and the executor costs 10 µs."""
DIRECT_SAMPLE = 1 << 24
"""The same for sampled products: the executor costs 20 µs where a large kernel has emptied the caches, 1.1 to 1.7 % of
this size and 4 % of half of it (two threads, float32, 32 columns).
"""
ROW_BY_ROW_PRODUCT: Final = 1 << 13
"""Multiplications below which a dense operand is not copied into a better order."""
COPIED_ENTRIES: Final = 1 << 12
"""Entries below which one thread copies or scales a result sooner than several would."""
UNPREPARED_PRODUCTS: Final = 2
"""Products of one structure, from `DIRECT_PRODUCT` multiplications on, that the default kernel computes before the
executor prepares anything: a matrix that is made anew for each product never pays for preparations.
"""
ENTRIES_CHECKED: Final = 1 << 11
"""Entries below which the builtin checks the indices at each product, in less than a microsecond."""
REMEMBERED_PRODUCTS: Final = 4
"""Products after which the builtin remembers that a larger structure was checked, which takes 3 µs."""
POOLED_BYTES: Final = 1 << 17
"""Results from here on take memory that earlier results gave back; below, malloc does that itself."""
TRANSPOSE_NS_PER_ENTRY: Final = 12.0
"""Time of building a transpose, before one was measured."""
TRANSPOSE_GAIN: Final = 0.4
"""Share of a product with the transpose that a built transpose saves, at least."""
