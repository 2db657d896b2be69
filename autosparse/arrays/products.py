"""Matrix products of autosparse matrices, by the executor where the dtypes have kernels, else by SciPy; dense results.

Dense results are `toarray`, `diagonal` and `sum`.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Final, cast

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse._sparsetools import csr_diagonal, csr_has_canonical_format, csr_todense
from scipy.sparse._sputils import upcast_char

from autosparse import light
from autosparse.arrays import plain
from autosparse.dispatch import executor
from autosparse.errors import ShapeError
from autosparse.operands.csr import DATA, INDPTR, NOT_SMALL_NS, Operand
from autosparse.operands.native_rows import NATIVE, NativeRows

AnyArray = NDArray[Any]  # Any: any dtype that SciPy takes
ndarray = np.ndarray  # a global of this module: saves one look-up per product


_LARGE: Final = 1 << 14
"""Minimum entries of a dense operand that `dispatch.pairs` converts, on several threads."""


_SUM_ADDS_UP_DUPLICATES: Final = light.VERSION_OF_SCIPY >= (1, 16)
"""True if SciPy's `sum` over all entries sorts them and adds up duplicates, in place."""


@functools.cache
def _takes(dtype: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return whether a product of operands of `dtype` and `other` has the result dtype `dtype`."""
    return bool(upcast_char(dtype.char, other.char) == dtype)


def _converted(B: AnyArray, dtype: np.dtype[Any]) -> AnyArray | None:
    """Return `B` converted to `dtype` if a product of `dtype` and B's dtype has `dtype`, else None."""
    if B.dtype == dtype:
        return B
    if not _takes(dtype, B.dtype):
        return None
    if B.size < _LARGE:
        return B.astype(dtype, order="C")
    try:
        return cast("AnyArray", _pairs().widened(B, dtype))
    except (ImportError, OSError):  # no file descriptor left, or another root directory
        return B.astype(dtype, order="C")


def _is_native(values: Any) -> bool:  # Any: what the user assigned
    """Return whether these are values that kernels read, in the machine's byte order."""
    return type(values) is ndarray and values.dtype.char in NATIVE and values.dtype.isnative


@functools.cache
def _pairs() -> Any:
    """Return the module of products of two dtypes, which most programs do not need."""
    from autosparse.dispatch import pairs

    return pairs


@functools.cache
def _sums() -> Any:
    """Return the module of sums of two matrices."""
    from autosparse.arrays import sums

    return sums


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
                        del values  # a further reference would count as an exported array
                        return self._product_of_pair(other)
                    return super().__matmul__(other)  # type: ignore[misc]
                is_mixed = type(values) is ndarray and values.dtype is not other.dtype
                if is_mixed and 0 < len(shape) <= 2 and shape[0] == self._shape[-1]:
                    converted = _converted(other, values.dtype)
                    other = other if converted is None else converted
                del values  # a further reference would count as an exported array, to be checked for ever
                if cell.small_product_ns < NOT_SMALL_NS and cell.dispatcher is None:
                    C = executor.small_product(cell, other, transposed=self._transposed)
                    if C is not None:
                        return C
                rows = cell.validate()
            shape = other.shape
            if rows.dtype is other.dtype and shape and shape[0] == self._shape[-1] and len(shape) <= 2:
                return executor.matmul(cell, other, transposed=self._transposed, rows=rows)
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
                C = executor.small_product(cell, other, transposed=not self._transposed)
                if C is not None:
                    return C
            rows = (cell.rows or cell.validate()) if other.shape == self._shape[:1] else None
            if rows is not None and rows.dtype is other.dtype:
                return executor.matmul(cell, other, transposed=not self._transposed, rows=rows)
        elif sps.issparse(other):
            return NotImplemented  # Python calls the subclass first; SciPy's product of the left operand must run
        return super().__rmatmul__(other)  # type: ignore[misc]

    def _matmul_vector(self, other: Any) -> Any:
        C = self._product_by_us(other)
        return super()._matmul_vector(other) if C is None else C  # type: ignore[misc]

    def _matmul_multivector(self, other: Any) -> Any:
        C = self._product_by_us(other)
        return super()._matmul_multivector(other) if C is None else C  # type: ignore[misc]

    def _binopt(self, other: Any, op: str) -> Any:
        for one in (self, other):
            if isinstance(one, Products):
                one._cell.check_bounds()  # SciPy's loop writes to the places that indices name
        try:  # most programs add no matrices
            made = None if light.summer(self) is None else _sums().merged(self, other, op)
        except (ImportError, OSError):  # no file descriptor left, or another root directory: SciPy needs no import
            made = None
        return super()._binopt(other, op) if made is None else made  # type: ignore[misc]

    def _matmul_sparse(self, other: Any) -> Any:
        try:
            from autosparse.arrays import sparse_product  # most programs never multiply two sparse matrices
        except (ImportError, OSError):  # no file descriptor left, or another root directory: SciPy needs no import
            return super()._matmul_sparse(other)  # type: ignore[misc]
        product = sparse_product.multiply(self, other)
        return super()._matmul_sparse(other) if product is None else product  # type: ignore[misc]

    def _product_by_us(self, other: Any) -> AnyArray | None:
        """Return A @ B for an ndarray (k,) or (k, n) by kernels of ours; None leaves it to SciPy."""
        if not isinstance(other, ndarray):
            return None
        rows, B = self._cell.rows or self._cell.validate(), np.asarray(other)
        native = None if rows.dtype is None else _converted(B, rows.dtype)
        if native is not None:
            return executor.matmul(self._cell, native, transposed=self._transposed, rows=rows)
        return self._by_pair(B, rows)

    def _product_of_mixed(self, rows: NativeRows, other: AnyArray) -> Any:
        """Return A @ B for an ndarray (k,) or (k, n) of another dtype, by the executor if B converts to A's dtype."""
        B = None if rows.dtype is None else _converted(other, rows.dtype)
        if B is None:
            return self._product_of_pair(other, rows)
        return executor.matmul(self._cell, B, transposed=self._transposed, rows=rows)

    def _product_of_pair(self, other: AnyArray, rows: NativeRows | None = None) -> Any:
        """Return A @ B for an ndarray (k,) or (k, n) where A's dtype has no kernels of its own or is not the product's.

        Products of other dtypes are computed by SciPy, which does not check the operands again.
        """
        C = self._by_pair(other, rows)
        if C is not None:
            return C
        as_scipys = plain.over(self._plain_class, self._shape, self._cell._arrays)
        is_vector = other.ndim == 1 and len(self._shape) == 2
        return as_scipys._matmul_vector(other) if is_vector else as_scipys._matmul_dispatch(other)

    def _by_pair(self, other: AnyArray, rows: NativeRows | None) -> AnyArray | None:
        """Return A @ B by the kernels of dtype pairs; None where they do not take it.

        `rows` are those that were validated for this product, if any were.
        """
        if rows is None or rows.dtype_code < 0:
            self._cell.check_bounds()
        try:
            pairs = _pairs()
        except (ImportError, OSError):  # no file descriptor left, or another root directory: SciPy needs no import
            return None
        C: AnyArray | None = pairs.multiply(self._cell, other, transposed=self._transposed)
        return C

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


class Reflected:
    """Mixin for ``m + A``, ``m - A``, ``m * A`` and ``m @ A`` of a plain `m` of A's format; results have A's class.

    Python calls the right operand first if its class derives from the left operand's class, as autosparse's classes do
    from SciPy's of the same format. If the left operand has another format, SciPy computes (unless `asp.install` is
    active).
    """

    __slots__ = ()

    _plain_class: ClassVar[type]
    _twin: ClassVar[Any]

    def _joined(self, other: Any) -> Any:
        """Return `other`, of class `_plain_class`, as an autosparse matrix over the same arrays; None for others."""
        if type(other) is not self._plain_class:
            return None
        kind = self._twin._twin
        made = kind._over(other)
        return kind(other) if made is None else made

    def __radd__(self, other: Any) -> Any:
        left = self._joined(other)
        return super().__radd__(other) if left is None else left + self  # type: ignore[misc]

    def __rsub__(self, other: Any) -> Any:
        left = self._joined(other)
        return super().__rsub__(other) if left is None else left - self  # type: ignore[misc]

    def __rmul__(self, other: Any) -> Any:
        left = self._joined(other)
        return super().__rmul__(other) if left is None else left * self  # type: ignore[misc]

    def __rmatmul__(self, other: Any) -> Any:
        left = self._joined(other)
        return super().__rmatmul__(other) if left is None else left @ self  # type: ignore[misc]


class DenseResults:
    """Mixin with ``A.toarray()``, ``A.diagonal()`` and ``A.sum()``, placed before SciPy's class.

    SciPy's compiled loops are called directly on the arrays, which therefore do not count as exported. Calls with
    further arguments go to SciPy's methods.
    """

    __slots__ = ()

    _cell: Operand
    _shape: tuple[int, ...]
    _transposed: ClassVar[bool]
    has_canonical_format: bool  # SciPy's

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        """Return the matrix as an ndarray, as SciPy's `toarray` does."""
        self._cell.check_bounds()
        arrays = self._cell._arrays
        if order is not None or out is not None or len(self._shape) != 2 or type(arrays[DATA]) is not ndarray:
            return super().toarray(order=order, out=out)  # type: ignore[misc]
        dense = np.zeros(self._shape, arrays[DATA].dtype, "F" if self._transposed else "C")
        rows = dense.T if self._transposed else dense
        csr_todense(*rows.shape, *arrays, rows)
        return dense

    def diagonal(self, k: int = 0) -> Any:
        """Return the k-th diagonal of the matrix, as SciPy's `diagonal` does."""
        cell = self._cell
        cell.check_bounds()
        arrays = cell._arrays
        if type(k) is not int or len(self._shape) != 2 or not _is_native(arrays[DATA]):
            return super().diagonal(k)  # type: ignore[misc]
        n_major, n_minor = cell.n_major, cell.n_minor
        if k:
            k = -k if self._transposed else k
            length = max(0, min(n_major + min(k, 0), n_minor - max(k, 0)))
        else:
            length = n_major if n_major < n_minor else n_minor
        diagonal = np.empty(length, arrays[DATA].dtype)
        if length:
            csr_diagonal(k, n_major, n_minor, *arrays, diagonal)
        return diagonal

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Return the sum over all entries or along an axis, as SciPy's `sum` does."""
        values = self._cell._arrays[DATA]
        is_plain = out is None and _is_native(values) and (dtype is None or dtype is values.dtype)
        is_plain = is_plain and 0 < values.size == self._cell.nnz
        del values  # a further reference would count as an exported array
        if is_plain:
            if axis is None and self._is_canonical():
                return self._cell._arrays[DATA].sum()
            axis = axis[0] if type(axis) is tuple and len(axis) == 1 else axis
            if type(axis) is int and -2 <= axis < 2 and len(self._shape) == 2:
                return self._sums_along(axis)
        return super().sum(axis=axis, dtype=dtype, out=out)  # type: ignore[misc]

    def _is_canonical(self) -> bool:
        """Return whether `sum` may add up all values as they are: SciPy's first adds up duplicates in place, if any."""
        if not _SUM_ADDS_UP_DUPLICATES:
            return True
        if not hasattr(self, "_has_canonical_format") and getattr(self, "_has_sorted_indices", True):
            starts, indices, _ = self._cell._arrays
            if not type(starts) is type(indices) is ndarray:
                return False
            del starts, indices  # `check_bounds` counts references
            self._cell.check_bounds()
            starts, indices, _ = self._cell._arrays
            found = csr_has_canonical_format(starts.size - 1, starts, indices)
            self.has_canonical_format = bool(found)  # type: ignore[misc]  # an attribute of SciPy's class
        return self.has_canonical_format

    def _sums_along(self, axis: int) -> Any:
        """Return the sums along an axis, from -2 to 1, of a matrix of two dimensions with native values."""
        is_by_row = axis in (1, -1)
        if is_by_row is not self._transposed:
            sums = self._sums_of_rows(self._cell._arrays[DATA])
        else:
            ones = np.ones(self._cell.n_major, self._cell.dtype)
            sums = self @ ones if is_by_row else ones @ self
        if isinstance(self, sps.sparray):
            return sums
        row = self._ascontainer(sums)  # type: ignore[attr-defined]
        return row.T if is_by_row else row

    def _sums_of_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of each compressed row, added in SciPy's order."""
        starts = self._cell._arrays[INDPTR]
        filled = (starts[1:] != starts[:-1]).nonzero()[0]
        sums = np.zeros(starts.size - 1, values.dtype)
        sums[filled] = np.add.reduceat(values, starts[filled])
        return sums.sum(axis=())  # type: ignore[no-any-return]  # as SciPy's method does, which makes -0.0 0.0
