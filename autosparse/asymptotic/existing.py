"""Expressions that the library has tuned kernels for: those run instead of generated programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from autosparse.arrays import construct
from autosparse.arrays.sampled import sddmm
from autosparse.arrays.sparse_tensor import AutoSparseTensor, mttkrp
from autosparse.asymptotic import chain
from autosparse.asymptotic.operands import is_sparse
from autosparse.asymptotic.subscripts import Subscripts


def _product(A: Any, B: Any) -> Any:
    """The library's product, ``A @ B``."""
    left = construct.csr(A)
    return left @ (left if B is A else construct.csr(B) if is_sparse(B) else B)


def _product_of_rows(A: Any, B: Any) -> Any:
    """The library's product, ``A @ B.T``."""
    return construct.csr(A) @ construct.csr(B).T.tocsr()


def _product_of_columns(A: Any, B: Any) -> Any:
    """The library's product, ``A.T @ B``."""
    return construct.csr(A).T.tocsr() @ construct.csr(B)


def _sampled(A: Any, X: Any, Y: Any) -> Any:
    """The library's sampled product, ``asp.sddmm(A, X, Y)``."""
    return sddmm(construct.csr(A), X, Y)


def _factors(T: Any, B: Any, C: Any) -> Any:
    """The library's product of a tensor with factors, ``asp.mttkrp(T, [None, B, C], 0)``."""
    return mttkrp(T, [None, B, C], 0)


TUNED: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    ("ab,bc->ac", "ss"): _product,
    ("ab,cb->ac", "ss"): _product_of_rows,
    ("ab,ac->bc", "ss"): _product_of_columns,
    ("ab,bc->ac", "sd"): _product,
    ("ab,b->a", "sd"): _product,
    ("ab,bc,cd->ad", "sss"): chain.product,
    ("ab,ac,cb->ab", "sdd"): _sampled,
    ("abc,bd,cd->ad", "sdd"): _factors,
}
"""By subscripts with letters in order of appearance, and which operands are sparse."""


def tuned_kernel(operands: Sequence[Any], subscripts: Subscripts, dtype: np.dtype[Any]) -> Callable[..., Any] | None:
    """The function of these operands that computes the einsum; its docstring says what runs."""
    kinds = "".join("s" if is_sparse(operand) else "d" for operand in operands)
    kernel = TUNED.get((renamed(subscripts), kinds))
    is_plain = dtype.char in "fd" and all(np.dtype(operand.dtype) == dtype for operand in operands)
    if kernel is None or not is_plain or 0 in subscripts.extents.values() or _is_broadcast(operands, subscripts):
        return None
    if isinstance(operands[0], AutoSparseTensor) is not (kernel is _factors):
        return None
    if any(isinstance(operand, AutoSparseTensor) for operand in operands[1:]):
        return None
    return kernel


def _is_broadcast(operands: Sequence[Any], subscripts: Subscripts) -> bool:
    """Whether an extent of 1 stands for a larger one."""
    return any(
        tuple(subscripts.extents[index] for index in letters) != tuple(operand.shape)
        for operand, letters in zip(operands, subscripts.inputs, strict=True)
    )


def renamed(subscripts: Subscripts) -> str:
    """Subscripts with letters in order of appearance."""
    names: dict[str, str] = {}
    return "".join(
        one if one in ",->" else names.setdefault(one, chr(ord("a") + len(names))) for one in str(subscripts)
    )
