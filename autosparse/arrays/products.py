"""Matrix products of autosparse matrices: by the executor where the dtypes have kernels, else by SciPy."""

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

AnyArray = NDArray[Any]  # Any: any dtype that SciPy takes
ndarray = np.ndarray  # a global of this module: saves one look-up per product


MANY: Final = 1 << 17
"""Minimum multiplications (entries x columns) of a product of two dtypes for which converting A's values pays."""
MANY_COLUMNS: Final = 4
"""Minimum columns of B for which converting A's values pays; with a vector it takes as long as the product itself.

With one column a converted product is 0.84 to 1.12 times as fast as SciPy's.
"""


@functools.cache
def _takes(dtype: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return whether a product of operands of `dtype` and `other` has the result dtype `dtype`."""
    return bool(upcast_char(dtype.char, other.char) == dtype)


def _converted(B: AnyArray, dtype: np.dtype[Any]) -> AnyArray | None:
    """Return `B` converted to `dtype` if a product of `dtype` and B's dtype has `dtype`, else None."""
    if B.dtype == dtype:
        return B
    return B.astype(dtype, order="C") if _takes(dtype, B.dtype) else None


class Products:
    """Mixin with ``A @ B`` and ``B @ A``, placed before SciPy's class, whose hooks call back."""

    __slots__ = ()

    _cell: Operand
    _shape: tuple[int, ...]
    _plain_class: ClassVar[type]  # SciPy's class under this one
    _transposed: ClassVar[bool]  # whether A is the transpose of the matrix in _cell

    def __matmul__(self, other: Any) -> Any:
        if type(other) is ndarray:
            cell = self._cell
            rows = cell.rows
            if rows is None:
                values, shape = cell._arrays[DATA], other.shape
                if type(values) is ndarray and values.dtype.char not in NATIVE:  # no kernel: validate nothing
                    if 0 < len(shape) <= 2 and shape[0] == self._shape[-1]:
                        return self._product_of_scipy(other)
                    return super().__matmul__(other)  # type: ignore[misc]
                del values  # a further reference would count as an exported array, to be checked for ever
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
            return NotImplemented  # Python calls the subclass first; SciPy's product of the left operand must run
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
            from autosparse.arrays import sparse_product  # most programs never multiply two sparse matrices
        except (ImportError, OSError):  # no file descriptor left, or another root directory: SciPy needs no import
            return super()._matmul_sparse(other)  # type: ignore[misc]
        product = sparse_product.multiply(self, other)
        return super()._matmul_sparse(other) if product is None else product  # type: ignore[misc]

    def _as_native(self, other: Any) -> AnyArray | None:
        """Return the ndarray `other` in A's dtype if A @ other has that dtype and a kernel; else None."""
        cell = self._cell
        dtype = (cell.rows or cell.validate()).dtype
        return None if dtype is None or not isinstance(other, ndarray) else _converted(np.asarray(other), dtype)

    def _product_of_mixed(self, rows: NativeRows, other: AnyArray) -> Any:
        """Return A @ B for an ndarray (k,) or (k, n) of another dtype, by the executor if B converts to A's dtype."""
        B = None if rows.dtype is None else _converted(other, rows.dtype)
        if B is None:
            return self._product_of_scipy(other)
        return executor.matmul(self._cell, B, transposed=self._transposed)

    def _product_of_scipy(self, other: AnyArray) -> Any:
        """Return A @ B for an ndarray (k,) or (k, n) where neither dtype is the product's, or where A's dtype has no
        kernels.

        SciPy computes it without checking the operands again. Large products whose dtype has kernels are computed with
        A's values converted to that dtype.
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
        """Return A @ B in SciPy's result dtype, with A's values converted; None where that dtype has no kernel."""
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
