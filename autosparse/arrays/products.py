"""Products of our matrices: the executor's where an operand is one of its dtypes, else SciPy's."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse._sputils import upcast_char

from autosparse.arrays import plain
from autosparse.dispatch import executor
from autosparse.errors import ShapeError
from autosparse.operands.csr import DATA, NOT_SMALL_NS, Operand
from autosparse.operands.native_rows import NATIVE, NativeRows

AnyArray = NDArray[Any]  # any dtype that SciPy takes
ndarray = np.ndarray  # a global of this module: one look-up less per product


MANY: Final = 1 << 17
"""Multiplications of a product of two dtypes from which converting the values of A pays ..."""
MANY_COLUMNS: Final = 4
"""... and columns: with a vector, converting takes as long as the product (0.84 to 1.12 times as fast as SciPy's)."""


@functools.cache
def _takes(dtype: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return whether products of the two dtypes have the first."""
    return bool(upcast_char(dtype.char, other.char) == dtype)


def _converted(B: AnyArray, dtype: np.dtype[Any]) -> AnyArray | None:
    """`B` in this dtype where products of the two have it; else None."""
    if B.dtype == dtype:
        return B
    return B.astype(dtype, order="C") if _takes(dtype, B.dtype) else None


class Products:
    """``A @ B`` and ``B @ A``; mixed in before SciPy's class, whose hooks call back."""

    __slots__ = ()

    _cell: Operand
    _shape: tuple[int, ...]
    _plain_class: ClassVar[type]  # of SciPy's, under this one
    _transposed: ClassVar[bool]  # whether A is the transpose of the matrix in _cell

    def __matmul__(self, other: Any) -> Any:
        if type(other) is ndarray:
            cell = self._cell
            rows = cell.rows
            if rows is None:
                values, shape = cell._arrays[DATA], other.shape
                if type(values) is ndarray and values.dtype.char not in NATIVE:  # SciPy's, whatever its arrays are like
                    if 0 < len(shape) <= 2 and shape[0] == self._shape[-1]:
                        return self._product_of_scipy(other)
                    return super().__matmul__(other)  # type: ignore[misc]
                del values  # one reference more would be somebody who keeps an array of ours, to be checked for ever
                if cell.small_product_ns < NOT_SMALL_NS and cell.dispatcher is None:
                    C = executor.few(cell, other, transposed=self._transposed)
                    if C is not None:
                        return C
                rows = cell.validate()
            shape = other.shape
            if rows.dtype is other.dtype and shape and shape[0] == self._shape[-1] and len(shape) <= 2:
                return executor.matmul(cell, other, transposed=self._transposed)
            if 0 < len(shape) <= 2 and shape[0] == self._shape[-1]:
                return self._product_of_mixed(rows, other)
        return super().__matmul__(other)  # type: ignore[misc]

    def __rmatmul__(self, other: Any) -> Any:
        if type(other) is ndarray:
            cell = self._cell
            if (
                cell.rows is None
                and cell.small_product_ns < NOT_SMALL_NS
                and cell.dispatcher is None
                and other.ndim == 1
            ):
                C = executor.few(cell, other, transposed=not self._transposed)
                if C is not None:
                    return C
            rows = cell.rows or cell.validate()
            if rows.dtype is other.dtype and other.shape == self._shape[:1]:
                return executor.matmul(cell, other, transposed=not self._transposed)
        elif sps.issparse(other):
            return NotImplemented  # Python asks subclasses first; SciPy's own product of the left operand is meant
        return super().__rmatmul__(other)  # type: ignore[misc]

    def _matmul_vector(self, other: Any) -> Any:
        B = self._as_native(other)
        if B is None:
            return super()._matmul_vector(other)  # type: ignore[misc]
        return executor.matmul(self._cell, B, transposed=self._transposed)

    def _matmul_multivector(self, other: Any) -> Any:
        B = self._as_native(other)
        if B is None:
            return super()._matmul_multivector(other)  # type: ignore[misc]
        return executor.matmul(self._cell, B, transposed=self._transposed)

    def _matmul_sparse(self, other: Any) -> Any:
        try:
            from autosparse.arrays import sparse_product  # most programs never multiply two
        except (ImportError, OSError):  # no descriptor is left, or the process has another root: SciPy needs no import
            return super()._matmul_sparse(other)  # type: ignore[misc]
        product = sparse_product.multiply(self, other)
        return super()._matmul_sparse(other) if product is None else product  # type: ignore[misc]

    def _as_native(self, other: Any) -> AnyArray | None:
        """`other` in A's dtype when that is also the dtype of the product and one of ours; else None: SciPy's turn."""
        cell = self._cell
        dtype = (cell.rows or cell.validate()).dtype
        return None if dtype is None or not isinstance(other, ndarray) else _converted(np.asarray(other), dtype)

    def _product_of_mixed(self, rows: NativeRows, other: AnyArray) -> Any:
        """A @ B of an ndarray (k,) or (k, n) of another dtype: ours where B converts to A's, else SciPy's."""
        B = None if rows.dtype is None else _converted(other, rows.dtype)
        if B is None:
            return self._product_of_scipy(other)
        return executor.matmul(self._cell, B, transposed=self._transposed)

    def _product_of_scipy(self, other: AnyArray) -> Any:
        """A @ B of an ndarray (k,) or (k, n) in the dtype of neither, or one that is not ours.

        SciPy's, which need not look again whether it fits; ours in the dtype of the product, where A is large and that
        dtype has a kernel.
        """
        columns = other.shape[1] if other.ndim == 2 else 1
        if columns >= MANY_COLUMNS and self._cell.nnz * columns >= MANY:
            C = self._product_in_promoted(other)
            if C is not None:
                return C
        as_scipys = plain.over(self._plain_class, self._shape, self._cell._arrays)
        is_vector = other.ndim == 1 and len(self._shape) == 2
        return as_scipys._matmul_vector(other) if is_vector else as_scipys._matmul_dispatch(other)

    def _product_in_promoted(self, other: AnyArray) -> AnyArray | None:
        """A @ B in the dtype that SciPy gives it, with A's values converted; None where that has no kernel of ours."""
        cell = self._cell
        indptr, indices, values = cell._arrays
        if len(self._shape) != 2 or type(values) is not ndarray or values.ndim != 1 or other.dtype.kind not in "biufc":
            return None
        dtype = np.dtype(upcast_char(values.dtype.char, other.dtype.char))
        if dtype.char not in NATIVE:
            return None
        promoted = Operand.over(cell.n_major, cell.n_minor, [indptr, indices, values.astype(dtype)], is_valid=False)
        if promoted.validate().dtype is None:
            return None
        B = np.ascontiguousarray(other, dtype=dtype)
        return executor.once(promoted, B, transposed=self._transposed)

    def _matmul_dispatch(self, other: Any, *args: Any) -> Any:
        try:
            return super()._matmul_dispatch(other, *args)  # type: ignore[misc]
        except ValueError as err:
            if type(err) is ValueError and "dimension mismatch" in str(err):
                raise ShapeError.mismatch(str(err), left=self._shape, right=np.shape(other)) from None
            raise

    def _rmatmul_dispatch(self, other: Any, *args: Any) -> Any:
        try:
            return super()._rmatmul_dispatch(other, *args)  # type: ignore[misc]
        except ShapeError as err:
            raise ShapeError.mismatch(err.first_line, left=np.shape(other), right=self._shape) from None
