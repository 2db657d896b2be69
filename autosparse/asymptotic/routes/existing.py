"""Expressions that the library has tuned kernels for: those run instead of generated programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import scipy.sparse as sps

from autosparse.arrays import construct, sparse_product
from autosparse.arrays.family import csr_array, csr_matrix
from autosparse.arrays.sampled import sddmm
from autosparse.arrays.sparse_tensor import mttkrp
from autosparse.asymptotic.operands import Kind
from autosparse.asymptotic.routes import chain
from autosparse.asymptotic.subscripts import Subscripts

BY_ROWS: Final[dict[type, type]] = {
    csr_array: csr_array,
    csr_matrix: csr_matrix,
    sps.csr_array: csr_array,
    sps.csr_matrix: csr_matrix,
}
"""Classes of matrices by rows, and of products with such a one on the left."""


def _rows(A: Any) -> Any:
    """`A` as a matrix of ours, by rows; itself where it is one."""
    return A if type(A) in (csr_array, csr_matrix) else construct.csr(A, copy=False)


def _product(A: Any, B: Any) -> Any:
    """The library's product, ``A @ B``."""
    if type(A) in BY_ROWS and type(B) in BY_ROWS:
        made = sparse_product.multiply_rows(BY_ROWS[type(A)], A, B)
        if made is not None:
            return made
    left = _rows(A)
    return left @ (left if B is A else _rows(B) if sps.issparse(B) else B)


def _product_of_rows(A: Any, B: Any) -> Any:
    """The library's product, ``A @ B.T``."""
    return _rows(A) @ _rows(B).T.tocsr()


def _product_of_columns(A: Any, B: Any) -> Any:
    """The library's product, ``A.T @ B``."""
    return _rows(A).T.tocsr() @ _rows(B)


def _sampled(A: Any, X: Any, Y: Any) -> Any:
    """The library's sampled product, ``asp.sddmm(A, X, Y)``."""
    return sddmm(_rows(A), X, Y)


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


def tuned_kernel(kinds: Sequence[Kind], subscripts: Subscripts, dtype: np.dtype[Any]) -> Callable[..., Any] | None:
    """The function of operands of these kinds that computes the einsum; its docstring says what runs."""
    kernel = TUNED.get((renamed(subscripts), "".join("s" if kind.is_sparse else "d" for kind in kinds)))
    is_plain = dtype.char in "fd" and all(kind.dtype == dtype for kind in kinds)
    if kernel is None or not is_plain or 0 in subscripts.extents.values() or _is_broadcast(kinds, subscripts):
        return None
    if kinds[0].is_tensor is not (kernel is _factors) or any(kind.is_tensor for kind in kinds[1:]):
        return None
    return kernel


def _is_broadcast(kinds: Sequence[Kind], subscripts: Subscripts) -> bool:
    """Whether an extent of 1 stands for a larger one."""
    return any(
        tuple(subscripts.extents[index] for index in letters) != kind.shape
        for kind, letters in zip(kinds, subscripts.inputs, strict=True)
    )


def renamed(subscripts: Subscripts) -> str:
    """Subscripts with letters in order of appearance."""
    names: dict[str, str] = {}
    return "".join(
        one if one in ",->" else names.setdefault(one, chr(ord("a") + len(names))) for one in str(subscripts)
    )
