"""Compute Gram matrices and linear combinations of tall blocks (n, k) with few columns in one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import config
from autosparse._native import runtime_api

Block = NDArray[Any]  # (n, k), C order; float32, float64, complex64 or complex128
_CODES: Final = {"f": 0, "d": 1}
"""dtype character -> code in the runtime."""
_MAX_COLUMNS: Final = 256
"""Maximum number of columns of `out` in the runtime's kernel; NumPy computes wider blocks."""


def _threads() -> int:
    return config.get_options().threads or runtime_api.max_threads()


def gram(U: Block, V: Block) -> NDArray[Any]:
    """Return U^H V of shape (a, b), summed in float64 or complex128 and converted to the dtype of U."""
    code = _CODES.get(U.dtype.char)
    if code is None or not (U.shape[1] and V.shape[1]):
        return U.T.conj() @ V  # type: ignore[no-any-return]
    G = np.empty((U.shape[1], V.shape[1]))
    doubles = runtime_api.ffi.cast("double *", runtime_api.address_of(G))
    U, V = np.ascontiguousarray(U), np.ascontiguousarray(V)
    pointers = runtime_api.pointer(U), runtime_api.pointer(V)
    runtime_api.raise_for(runtime_api.lib.asp_tall_gram(code, len(U), *G.shape, *pointers, doubles, _threads()))
    return G.astype(U.dtype, copy=False)


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
    factors = [None if one is None else np.ascontiguousarray(one, np.float64) for _, one in terms]
    addresses = [0 if one is None else runtime_api.address_of(one) for one in factors]
    runtime_api.raise_for(
        runtime_api.lib.asp_tall_combine(
            code, len(out), out.shape[1], len(terms),
            ffi.new("void *[]", [runtime_api.pointer(block) for block, _ in terms]),
            ffi.new("int64_t[]", [block.shape[1] for block, _ in terms]),
            ffi.new("double *[]", [ffi.cast("double *", address) for address in addresses]),
            runtime_api.pointer(out), _threads(),
        )
    )  # fmt: skip
