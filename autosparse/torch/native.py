"""Calls of the C runtime with PyTorch tensors: products on a structure and dense operands, with results in new tensors.

The functions work on detached memory: without autograd, and with only the checks that memory safety needs. Dense
operands must have rows of adjacent columns and are copied where they do not. Values have a dtype of `VALUE_CODES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from autosparse._native import runtime_api
from autosparse.config import get_options
from autosparse.errors import InputError
from autosparse.scalar import DOUBLE
from autosparse.scalar.tensors import INDEX_TYPES
from autosparse.torch import results, thresholds
from autosparse.torch.structure import CPU, VALUE_CODES, Placed, Transposed, ffi, lib, pointer

_FACTORS: Final = f"{DOUBLE.c}[4]"

cast: Any = ffi.cast if runtime_api.available else None  # Any: cffi objects carry no types

n_modes: Final[Callable[[], int]] = torch._C._len_torch_dispatch_stack
"""Return the number of active modes that see every operator of PyTorch, such as FakeTensorMode."""

TRANSPOSED_BYTES: Final = (4, 8, 16)
"""Sizes of entries that the runtime's transposition in memory takes."""


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return uninitialised memory for a result; large results reuse pooled memory, whose pages are already mapped.

    Raises InputError where a mode of PyTorch makes tensors without memory, into which no kernel can write.
    """
    if n_modes():
        return _in_memory(torch.empty(shape, dtype=dtype, device=CPU))
    if math.prod(shape) * dtype.itemsize >= thresholds.POOLED_BYTES:
        return results.empty(shape, dtype)
    # This form is half a microsecond faster than passing a tuple and a dtype.
    if dtype is torch.get_default_dtype():
        return torch.empty(*shape, device=CPU)
    return torch.empty(shape, dtype=dtype, device=CPU)


def _in_memory(made: torch.Tensor) -> torch.Tensor:
    if made.numel() and not made.data_ptr():
        raise InputError.refused(
            "kernels write into this computer's memory",
            given=f"a mode that makes a {type(made).__name__} without memory",
            hint="call it outside the mode, or multiply by A @ B, which works there",
        )
    return made


def threads() -> int:
    """Return the maximal number of threads for a kernel: the lower of torch's setting and the option `threads`."""
    most = get_options().threads
    here = torch.get_num_threads()
    return here if most is None else min(most, here)


def flags() -> int:
    """Return the kernel flags for the caller's settings: `FLAG_DETERMINISTIC`, or 0."""
    if torch.are_deterministic_algorithms_enabled() or get_options().deterministic:
        return runtime_api.FLAG_DETERMINISTIC
    return 0


def rows_of(dense: torch.Tensor) -> torch.Tensor:
    """Return `dense` (1-D or 2-D) with adjacent columns and non-overlapping rows, copied only where needed.

    Lazy conjugation, negation and zeros of torch are resolved.
    """
    if dense.is_conj() or dense.is_neg() or dense._is_zerotensor():
        dense = resolved(dense)
    strides = dense.stride()
    if len(strides) == 2:
        n = dense.shape[1]
        plain = (strides[1] == 1 and strides[0] >= n) or (n == 1 and strides[0] > 0)
    else:
        plain = strides[0] > 0
    return dense if plain else _by_rows(dense)


def _by_rows(dense: torch.Tensor) -> torch.Tensor:
    """Return a row-major copy: by the threads of the runtime, into pooled memory where it is large."""
    itemsize = dense.element_size()
    if dense.dim() != 2 or itemsize not in TRANSPOSED_BYTES or dense.data_ptr() % itemsize or not dense.numel():
        return dense.contiguous()
    (n, m), copy = dense.shape, empty(tuple(dense.shape), dense.dtype)
    if 0 in dense.stride():  # expanded, as the gradient of a sum: PyTorch writes vectors
        return copy.copy_(dense)
    at, to = cast("void *", dense.data_ptr()), cast("void *", copy.data_ptr())
    runtime_api.raise_for(lib.asp_dense_rows(itemsize, n, m, at, *dense.stride(), to, m, threads()))
    return copy


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor` contiguous, with torch's lazy conjugation, negation and zeros resolved."""
    if tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor():
        tensor = resolved(tensor)
    return tensor.contiguous()


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor` with torch's lazy conjugation, negation and zeros (a tensor without memory) resolved."""
    if tensor._is_zerotensor():
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor.resolve_conj().resolve_neg()


def mm(
    structure: Placed,
    values: torch.Tensor,
    B: torch.Tensor,
    *,
    transposed: bool = False,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute A B, or Aᵀ B, by the default kernel; B (k,) or (k, m) → (n,) or (n, m), into `out` if given."""
    B = rows_of(B)
    shape = B.shape
    n_vecs = shape[1] if len(shape) == 2 else 1
    if out is None:
        n_out = structure.n_cols if transposed else structure.n_rows
        out = empty((n_out, n_vecs) if len(shape) == 2 else (n_out,), B.dtype)
    run = lib.asp_csr_t_mm if transposed else lib.asp_csr_mm
    status = run(
        VALUE_CODES[B.dtype], structure.index_code, structure.n_rows, structure.n_cols, structure.crow, structure.col,
        cast("void *", values.data_ptr()), cast("void *", B.data_ptr()), B.stride(0),
        cast("void *", out.data_ptr()), n_vecs, n_vecs, threads(), flags(),
    )  # fmt: skip
    if status:
        runtime_api.raise_for(status)
    return out


def sddmm(
    structure: Placed,
    X: torch.Tensor,
    Y: torch.Tensor,
    *,
    scale: tuple[complex, complex] = (1.0, 0.0),
    base: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute alpha ⟨X[i], Y[j]⟩ + beta base for each entry (i, j): X (n, K), Y (m, K), base and result (nnz,).

    `scale` is (alpha, beta). X (n, H, K) and Y (m, H, K), real, give (nnz, H).
    """
    heads = X.shape[1] if X.dim() == 3 else 1
    X, Y = (rows_of(X), rows_of(Y)) if X.dim() == 2 else (whole(X), whole(Y))
    out = X.new_empty((structure.nnz, heads) if X.dim() == 3 else (structure.nnz,))
    alpha, beta = (complex(s) for s in scale)
    numbers = ffi.new(_FACTORS, [alpha.real, alpha.imag, beta.real, beta.imag])
    status = lib.asp_sddmm(
        VALUE_CODES[X.dtype], structure.index_code, structure.n_rows, structure.n_cols, structure.crow, structure.col,
        structure.nnz, pointer(X), X.stride(0), pointer(Y), Y.stride(0), X.shape[-1], heads, numbers,
        ffi.NULL if base is None else pointer(base), pointer(out), threads(), 0,
    )  # fmt: skip
    runtime_api.raise_for(status)
    return out


def row_softmax(structure: Placed, scores: torch.Tensor) -> torch.Tensor:
    """Return the softmax of `scores` over each row's entries; scores (nnz,) or (nnz, H)."""
    return _softmax(structure, whole(scores), None)


def row_softmax_backward(structure: Placed, softmax: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the scores: y (dy − Σ y dy), with y the softmax and sums over rows."""
    return _softmax(structure, whole(grad), softmax)


def _softmax(structure: Placed, given: torch.Tensor, softmax: torch.Tensor | None) -> torch.Tensor:
    out = torch.empty_like(given)
    status = lib.asp_row_softmax(
        VALUE_CODES[given.dtype], structure.index_code, structure.n_rows, structure.crow, structure.nnz,
        given.shape[1] if given.dim() == 2 else 1, pointer(given), ffi.NULL if softmax is None else pointer(softmax),
        pointer(out), threads(),
    )  # fmt: skip
    runtime_api.raise_for(status)
    return out


def heads_mm(structure: Placed, weights: torch.Tensor, V: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
    """Compute out[i, h] = scale Σ w[p, h] V[j, h] over the entries p = (i, j) of row i; w (nnz, H), V (m, H, F).

    The result has shape (n, H, F). For a transposed structure, `weights` are in the order of the original's entries.
    """
    V = whole(V)
    return _heads_mm(structure, weights, V, empty((structure.n_rows, *V.shape[1:]), V.dtype), scale)


def sums_of_entries(structure: Placed, weights: torch.Tensor) -> torch.Tensor:
    """Sum w[p, h] over the entries of each row: (nnz, H) → (n, H)."""
    heads = weights.shape[1]
    ones = weights.new_ones((1, heads, 1))
    return _heads_mm(structure, weights, ones, weights.new_empty((structure.n_rows, heads)), 1.0)


def _heads_mm(
    structure: Placed, weights: torch.Tensor, V: torch.Tensor, out: torch.Tensor, scale: float
) -> torch.Tensor:
    """Compute `heads_mm` into `out`; V is contiguous (m, H, F), or (1, H, F) if all entries use the same row."""
    n, heads, features = V.shape
    perm = structure.perm if isinstance(structure, Transposed) else ffi.NULL
    status = lib.asp_heads_mm(
        VALUE_CODES[V.dtype], structure.index_code, structure.n_rows, structure.crow, structure.col, perm,
        structure.nnz, heads, pointer(weights), pointer(V), heads * features if n > 1 else 0, features, scale,
        pointer(out), threads(),
    )  # fmt: skip
    runtime_api.raise_for(status)
    return out


def extreme(
    structure: Placed, values: torch.Tensor | None, B: torch.Tensor, *, least: bool, with_arg: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the max (min if `least`) of A[i, j] · B[j] over the entries of each row i, and the entries attaining it.

    B (m, k) → (n, k). `values` None counts as ones. The second result is None unless `with_arg`.
    """
    B = rows_of(B)
    out = empty((structure.n_rows, B.shape[1]), B.dtype)
    index_dtype = INDEX_TYPES[structure.index_code]
    arg = torch.empty(out.shape, dtype=index_dtype, device=CPU) if with_arg else None
    status = lib.asp_csr_extreme(
        VALUE_CODES[B.dtype], structure.index_code, structure.n_rows, structure.crow, structure.col,
        ffi.NULL if values is None else pointer(values), structure.nnz, pointer(B), B.stride(0), B.shape[1], int(least),
        pointer(out), ffi.NULL if arg is None else pointer(arg), threads(),
    )  # fmt: skip
    runtime_api.raise_for(status)
    return out, arg


def extreme_backward(
    structure: Placed,
    values: torch.Tensor | None,
    B: torch.Tensor,
    grad: torch.Tensor,
    arg: torch.Tensor,
    *,
    wanted: tuple[bool, bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Compute the gradients of `extreme` with respect to values (nnz,) and B (m, k), each where `wanted`."""
    B, grad = rows_of(B), whole(grad)
    d_values = B.new_empty(structure.nnz) if wanted[0] else None
    d_B = B.new_zeros(B.shape) if wanted[1] else None
    status = lib.asp_csr_extreme_backward(
        VALUE_CODES[B.dtype], structure.index_code, structure.n_rows, structure.crow, structure.col,
        ffi.NULL if values is None else pointer(values), structure.nnz, pointer(B), B.stride(0), B.shape[1],
        pointer(grad), pointer(arg), ffi.NULL if d_values is None else pointer(d_values),
        ffi.NULL if d_B is None else pointer(d_B), B.shape[1], threads(),
    )  # fmt: skip
    runtime_api.raise_for(status)
    return d_values, d_B
