"""Size limits that decide which code computes a product of PyTorch tensors that is too small to be planned.

Above these limits `autosparse.tuning.planner` chooses; no other module of this folder decides by size.

| multiplications | computed by |
|---|---|
| below `BUILTIN_PRODUCT` | the C++ module (`dispatcher.extension`), where it is built and reads the operands |
| below `PYTORCH_PRODUCT` | PyTorch's own kernel, for operands that the module does not read |
| below `PYTORCH_REDUCTION`, `PYTORCH_GRADIENTS`, `PYTORCH_ROWS` | PyTorch's own kernel, called by the module |
| below `DIRECT_PRODUCT` | the default kernel, called directly (`direct`, `native`); without the module all of these |
| below `DIRECT_SAMPLE` | the same for products that are sampled at a matrix's entries |
| above | the executor, so that the planner may choose another kernel (`products`) |
"""

from __future__ import annotations

from typing import Final

import torch

BUILTIN_PRODUCT: Final = 1 << 13
"""Multiplications, and result entries, below which the C++ module computes; reading tensors in Python takes longer."""
PYTORCH_PRODUCT = 1 << 13 if torch._C.has_mkl else 0  # without MKL PyTorch refuses some of these products
"""Multiplications below which PyTorch computes a product whose operands the C++ module does not read.

Without the module the default kernel computes it. Called from Python, both take 8 µs for a CSR matrix of 8 entries. For
a COO matrix the default kernel takes 9 µs with 8 entries and 10 µs with 1,000, PyTorch 6 and 24 µs.
"""
PYTORCH_REDUCTION: Final = 1 << 18
"""Multiplications below which PyTorch computes a mean or an extreme of rows; the kernel in Python takes 35 µs more."""
PYTORCH_GRADIENTS: Final = 1 << 9
"""Entries below which PyTorch computes the gradients of an extreme; twice as many for a sum or mean.

PyTorch sorts the entries: 19 µs for 300 of them, 37 µs for 1,700; the kernel in Python takes 23 µs (means: 38 µs).
"""
PYTORCH_ROWS: Final = 1 << 17
"""Multiplications below which PyTorch computes ``X @ A`` for dense X, unless the C++ module computes it."""
DIRECT_PRODUCT = 1 << 18
"""Multiplications below which a plan gains nothing, and the executor adds 10 µs."""
KEPT_COORDINATES = 1 << 20
"""Multiplications from which on the rows of a COO matrix are kept for later products.

Below, the C++ module sorts the entries again at each product (1 to 5 ns per entry); finding kept rows in Python takes
40 µs.
"""
DIRECT_SAMPLE = 1 << 24
"""Multiplications below which a sampled product (SDDMM) calls the default kernel directly.

The executor costs 20 µs when a large kernel has evicted it from the caches: 1.1 to 1.7 % of a product of this size and
4 % of one of half the size (two threads, float32, 32 columns).
"""
ROW_BY_ROW_PRODUCT: Final = 1 << 13
"""Multiplications below which a dense operand is not copied into a better memory order."""
COPIED_ENTRIES: Final = 1 << 12
"""Entries below which a single thread copies or scales a result faster than several threads."""
UNPREPARED_PRODUCTS: Final = 2
"""Products of one structure that the default kernel computes before the executor prepares anything.

Counts products of `DIRECT_PRODUCT` multiplications or more. A matrix that is made anew for each product never repays
the preparation.
"""
UNPREPARED_MULTIPLICATIONS: Final = 1 << 26
"""Multiplications of one structure that the default kernel computes before the executor prepares anything.

They take 10 to 20 ms on one thread. The executor's first product takes 1 to 2 ms more than the kernel, each later one
15 µs, or 50 µs where operators of PyTorch in between evict it from the caches.
"""
ENTRIES_CHECKED: Final = 1 << 11
"""Entries below which the C++ module checks the indices at each product, in less than a microsecond."""
REMEMBERED_PRODUCTS: Final = 4
"""Products of a larger structure after which the builtin records that its indices were checked, which takes 3 µs."""
POOLED_BYTES: Final = 1 << 17
"""Bytes from which on a result takes pooled memory of earlier results; below, malloc reuses memory itself."""
TRANSPOSE_NS_PER_ENTRY: Final = 12.0
"""Default time to build a transpose in ns per entry, until one was measured."""
TRANSPOSE_GAIN: Final = 0.4
"""Minimum fraction of the time of a transposed product that a built transpose saves."""
