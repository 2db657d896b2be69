"""Compute Gram matrices and linear combinations of tall blocks (n, k) with few columns in one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import config
from autosparse._native import runtime_api
from autosparse.core.dtypes import Real
from autosparse.scalar import DOUBLE, WIDE_INDEX

Block = NDArray[Any]  # (n, k), C order; float32, float64, complex64 or complex128
_CODES: Final = {"f": 0, "d": 1}
"""dtype character -> code in the runtime."""
_MAX_COLUMNS: Final = 256
"""Maximum number of columns of a block in the runtime's kernels; NumPy computes wider blocks."""
_MAX_PAIRS: Final = 16
"""Maximum number of Gram matrices that one call of the runtime computes."""


def _threads() -> int:
    return config.get_options().threads or runtime_api.max_threads()


def gram(U: Block, V: Block) -> NDArray[Any]:
    """Return U^H V of shape (a, b), summed in float64 or complex128 and converted to the dtype of U."""
    return grams([(U, V)])[0]


def grams(pairs: Sequence[tuple[Block, Block]]) -> list[NDArray[Any]]:
    """Return U^H V for each pair (U, V) of blocks of one dtype and length, in one pass over the rows."""
    first = pairs[0][0]
    code = _CODES.get(first.dtype.char)
    widths = [(U.shape[1], V.shape[1]) for U, V in pairs]
    if code is None or len(pairs) > _MAX_PAIRS or not all(a > 0 and 0 < b <= _MAX_COLUMNS for a, b in widths):
        return [U.T.conj() @ V for U, V in pairs]
    ffi = runtime_api.ffi
    kept = [np.ascontiguousarray(block) for pair in pairs for block in pair]
    pointers = [runtime_api.pointer(block) for block in kept]
    sizes = [a * b for a, b in widths]
    found = np.empty(sum(sizes))
    runtime_api.raise_for(
        runtime_api.lib.asp_tall_grams(
            code, len(first), len(pairs),
            ffi.new("void *[]", pointers[::2]), ffi.new(WIDE_INDEX.array, [a for a, _ in widths]),
            ffi.new("void *[]", pointers[1::2]), ffi.new(WIDE_INDEX.array, [b for _, b in widths]),
            ffi.cast(DOUBLE.pointer, runtime_api.address_of(found)), _threads(),
        )
    )  # fmt: skip
    found = found.astype(first.dtype, copy=False)
    parts = np.split(found, np.cumsum(sizes)[:-1]) if len(sizes) > 1 else [found]
    return [part.reshape(shape) for part, shape in zip(parts, widths, strict=True)]


def combine(out: Block, *terms: tuple[Block, NDArray[Any] | None]) -> Block:
    """Write the sum of block @ factor to `out` and return it; a factor None is the identity.

    `out` may be one of the blocks.
    """
    code = _CODES.get(out.dtype.char)
    if code is None or not 0 < out.shape[1] <= _MAX_COLUMNS or not all(block.shape[1] for block, _ in terms):
        found = [block if factor is None else block @ factor for block, factor in terms]
        out[...] = sum(found[1:], start=found[0])
        return out
    _combine(code, out, [(np.ascontiguousarray(block), factor) for block, factor in terms])
    return out


def _combine(code: int, out: Block, terms: Sequence[tuple[Block, NDArray[Any] | None]]) -> None:
    ffi = runtime_api.ffi
    factors = [None if one is None else np.ascontiguousarray(one, Real) for _, one in terms]
    addresses = [0 if one is None else runtime_api.address_of(one) for one in factors]
    runtime_api.raise_for(
        runtime_api.lib.asp_tall_combine(
            code, len(out), out.shape[1], len(terms),
            ffi.new("void *[]", [runtime_api.pointer(block) for block, _ in terms]),
            ffi.new(WIDE_INDEX.array, [block.shape[1] for block, _ in terms]),
            ffi.new(f"{DOUBLE.pointer}[]", [ffi.cast(DOUBLE.pointer, address) for address in addresses]),
            runtime_api.pointer(out), _threads(),
        )
    )  # fmt: skip
