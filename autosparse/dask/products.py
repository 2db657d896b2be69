"""Products `sddmm` and `einsum` of Dask arrays, block by block, where no block needs the result of another one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np

import autosparse as asp
from autosparse.contraction.expressions.semirings import PLUS_TIMES, named
from autosparse.contraction.subscripts import interleaved, read
from autosparse.dask.blocks import block, csr_block
from autosparse.errors import EinsumError, InputTypeError, ShapeError


def sddmm(A: da.Array, X: Any, Y: Any) -> da.Array:
    """Compute A ∘ (X @ Y) at A's stored entries, cut as A is: `autosparse.sddmm` of each block.

    A: Dask array (m, n) of blocks; X (m, k), Y (k, n): NumPy or Dask arrays. X and Y are cut along m and n as A is, and
    not along k. Raises ShapeError (ValueError) for shapes that do not fit, InputTypeError (TypeError) for another A.

    >>> A = asp.dask.from_csr(sps.eye_array(4, format="csr"), n_blocks=2)
    >>> float(asp.dask.sddmm(A, np.ones((4, 3)), np.ones((3, 4))).sum().compute())
    12.0
    """
    if not isinstance(A, da.Array):
        raise InputTypeError.refused(
            "sddmm by blocks needs a Dask array", given=type(A).__name__, hint="pass from_csr(A), or use asp.sddmm"
        )
    X, Y = _dense(X), _dense(Y)
    if X.ndim != 2 or Y.ndim != 2 or A.shape != (X.shape[0], Y.shape[1]) or X.shape[1] != Y.shape[0]:
        raise ShapeError.mismatch("sddmm: A (m, n) needs X (m, k) and Y (k, n)", left=A.shape, right=(X.shape, Y.shape))
    X, Y = X.rechunk((A.chunks[0], -1)), Y.rechunk((-1, A.chunks[1]))
    dtype = np.result_type(A.dtype, X.dtype, Y.dtype)
    meta = csr_block((0, 0), dtype=dtype)
    return da.blockwise(_sampled, "ij", A, "ij", X, "ik", Y, "kj", dtype=dtype, meta=meta, concatenate=True)


def _sampled(A: Any, X: Any, Y: Any) -> Any:
    return block(asp.sddmm(A, X, Y))


def einsum(*arguments: Any, format: str | None = None, semiring: str = PLUS_TIMES) -> da.Array:
    """Compute `autosparse.einsum` block by block; operands are Dask arrays of blocks or ndarrays, and NumPy arrays.

    `arguments` are the subscripts and the operands, as in `autosparse.einsum`. Each Dask operand must have a single
    block along every summed index, so that a block of the result depends on one block of each operand. Otherwise
    EinsumError (ValueError) names the index and ``rechunk``. `format` is the format of the result's blocks, and
    `semiring` replaces addition and multiplication, as in `autosparse.einsum`.

    >>> A = asp.dask.from_csr(sps.eye_array(4, format="csr"), n_blocks=2)
    >>> asp.dask.einsum("ij,jk->ik", A, np.ones((4, 2))).compute().shape
    (4, 2)
    """
    text, given = interleaved(arguments)
    subscripts = read(text, [tuple(one.shape) for one in given])
    chunks = _chunks(subscripts.inputs, given)
    for index, cuts in chunks.items():
        if index not in subscripts.output and len(cuts) > 1:
            raise EinsumError.refused(
                f"einsum by blocks cannot sum over {index!r}, which is cut into {len(cuts)} blocks",
                f"Subscripts: {text}, blocks of {cuts[:6]}{'...' if len(cuts) > 6 else ''}",
                f"Hint: pass A.rechunk({{axis of {index!r}: -1}}), or add up the einsums of its parts",
            )
    dense = [_cut_as(one, indices, chunks) for one, indices in zip(given, subscripts.inputs, strict=True)]
    pairs = [part for one, indices in zip(dense, subscripts.inputs, strict=True) for part in (one, tuple(indices))]
    dtype = named(semiring).dtype(np.result_type(*(one.dtype for one in dense)))
    contract = functools.partial(_contracted, text=str(text), output_format=format, semiring=semiring)
    return da.blockwise(
        contract, tuple(subscripts.output), *pairs, dtype=dtype, meta=_meta(contract, dense, dtype), concatenate=True,
        align_arrays=False,
    )  # fmt: skip


def _contracted(*blocks: Any, text: str, output_format: str | None, semiring: str) -> Any:
    return block(asp.einsum(text, *blocks, format=output_format, semiring=semiring))


def _chunks(inputs: tuple[Any, ...], given: tuple[Any, ...]) -> dict[Any, tuple[int, ...]]:
    """Return {index: chunks}: the chunks of the operand with the most blocks along that index."""
    found: dict[Any, tuple[int, ...]] = {}
    for one, indices in zip(given, inputs, strict=True):
        for axis, index in enumerate(indices):
            cuts = one.chunks[axis] if isinstance(one, da.Array) else (one.shape[axis],)
            if len(cuts) > len(found.get(index, ())):
                found[index] = cuts
    return found


def _cut_as(one: Any, indices: Any, chunks: dict[Any, tuple[int, ...]]) -> da.Array:
    wanted = tuple(chunks[index] for index in indices)
    return _dense(one).rechunk(wanted)


def _dense(one: Any) -> da.Array:
    return one if isinstance(one, da.Array) else da.from_array(one, chunks=-1)


def _meta(contract: Callable[..., Any], operands: list[da.Array], dtype: Any) -> Any:
    """Return an empty array or block of the result's type and `dtype`, found by an einsum of operands of extent one."""
    tiny = [
        csr_block((1, 1), dtype=one.dtype) if isinstance(one._meta, csr_block) else np.zeros((1,) * one.ndim, one.dtype)
        for one in operands
    ]
    found = contract(*tiny)
    return found.astype(dtype)[tuple(slice(0, 0) for _ in range(found.ndim))]
