"""AutoSparseMatrix: SciPy's csr and csc classes, arrays and matrices, whose products are ours.

A closed family: transposes, sums, slices and conversions between csr and csc stay in it. Everything but products is
SciPy's own code on the same arrays. Subclassing SciPy is undocumented; the private hooks used here are listed in
docs/adr/0002 and SciPy's own test suite runs on these classes (tests/conformance).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse._sputils import upcast_char

from autosparse import executor, guard
from autosparse._native import memory
from autosparse.arrays import conversion, sparse_product
from autosparse.errors import ShapeError
from autosparse.operand import DATA, INDICES, INDPTR, Operand

if TYPE_CHECKING:
    from autosparse.explain import Explanation
    from autosparse.plan import Plan

AnyArray = NDArray[Any]  # any dtype that SciPy takes
ndarray = np.ndarray  # a global of this module: one look-up less per product

_NAMES = ("indptr", "indices", "data")
_INT32_MAX = np.iinfo(np.int32).max


def _watched(field: int) -> property:
    """Property over one of the operand's arrays: handing it out is noted, putting another in is too."""

    def fetch(self: AutoSparseMatrix) -> Any:  # Any: whatever array-like the user put there
        return self._cell.fetch(field)

    def put(self: AutoSparseMatrix, value: Any) -> None:
        self._own_cell().rebind(field, value)

    return property(fetch, put, doc=f"The {_NAMES[field]} array, live: what is written to it the next product sees.")


class AutoSparseMatrix:
    """``A @ B`` as SciPy computes it, faster; mixed into each of SciPy's csr and csc classes.

    `_cell` holds the arrays: the compressed rows of A (csr) or of Aᵀ (csc); an array and its transpose share it.
    """

    __slots__ = ("_cell",)  # not in __dict__, which shows what SciPy keeps there

    _cell: Operand
    _shape: tuple[int, ...]
    _transposed: ClassVar[bool]  # whether A is the transpose of the matrix in _cell
    _twin: ClassVar[type[AutoSparseMatrix]]  # class of the transpose

    data = _watched(DATA)
    indices = _watched(INDICES)
    indptr = _watched(INDPTR)

    def __init__(
        self, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False, **kwargs: Any
    ) -> None:  # Any: SciPy's own arguments, checked by SciPy
        super().__init__(arg1, shape=shape, dtype=dtype, copy=copy, **kwargs)  # type: ignore[call-arg]
        self._settle()

    # -- metadata, read without handing the arrays out

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the values."""
        return self._cell.dtype

    @dtype.setter
    def dtype(self, newtype: Any) -> None:
        self.data = self.data.view(newtype)

    def _getnnz(self, axis: int | None = None) -> Any:
        return self._cell.nnz if axis is None else super()._getnnz(axis=axis)  # type: ignore[misc]

    # -- products

    def __matmul__(self, other: Any) -> Any:
        if type(other) is ndarray:
            cell = self._cell
            rows = cell.rows or cell.validate()
            shape = other.shape
            if rows.dtype is other.dtype and shape and shape[0] == self._shape[-1] and len(shape) <= 2:
                return executor.matmul(cell, other, transposed=self._transposed)
        return super().__matmul__(other)  # type: ignore[misc]

    def __rmatmul__(self, other: Any) -> Any:
        if type(other) is ndarray:
            cell = self._cell
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
        product = sparse_product.multiply(self, other)
        return super()._matmul_sparse(other) if product is None else product  # type: ignore[misc]

    def _as_native(self, other: Any) -> AnyArray | None:
        """`other` in A's dtype when that is also the dtype of the product and one of ours; else None: SciPy's turn."""
        cell = self._cell
        dtype = (cell.rows or cell.validate()).dtype
        if dtype is None or not isinstance(other, ndarray):
            return None
        B = np.asarray(other)
        if B.dtype == dtype:
            return B
        return B.astype(dtype, order="C") if upcast_char(dtype.char, B.dtype.char) == dtype else None

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

    # -- the family

    def transpose(self, axes: tuple[int, int] | None = None, copy: bool = False) -> Any:
        """Aᵀ, sharing arrays (and plans) with A unless `copy`."""
        if copy or axes not in (None, (1, 0)) or not self._transposes_in_place():
            return super().transpose(axes=axes, copy=copy)  # type: ignore[misc]
        cell = self._cell
        cell.shared = True
        twin = object.__new__(self._twin)
        twin._cell = cell
        _attributes(twin).update(_TRANSPOSE_STATE, _shape=self._shape[::-1])
        return twin

    def _transposes_in_place(self) -> bool:
        return self._takes_as_is(self._shape, self._cell.peek(INDPTR), self._cell.peek(INDICES))

    @classmethod
    def _takes_as_is(cls, shape: tuple[int, ...], indptr: AnyArray, indices: AnyArray) -> bool:
        """Whether SciPy's constructor, too, would take the index arrays as they are."""
        if len(shape) != 2 or indices.dtype != indptr.dtype:
            return False
        if indices.dtype == np.int32:
            return max(shape) <= _INT32_MAX
        return bool(indices.dtype == np.int64) and issubclass(cls, sps.sparray)  # matrices may narrow to int32

    @classmethod
    def _of_rows(cls, shape: tuple[int, int], rows: tuple[AnyArray, AnyArray, AnyArray]) -> Any:
        """A matrix over (indptr, indices, data) as `_cell` has them, which a kernel made and nobody else holds."""
        indptr, indices, data = rows
        if not cls._takes_as_is(shape, indptr, indices):
            return cls((data, indices, indptr), shape=shape)
        made = object.__new__(cls)
        made._cell = Operand.of_valid(*(shape[::-1] if cls._transposed else shape), rows)
        _attributes(made).update(_TRANSPOSE_STATE, _shape=shape)
        return made

    @property
    def _csr_container(self) -> type:
        return csr_array if isinstance(self, sps.sparray) else csr_matrix

    @property
    def _csc_container(self) -> type:
        return csc_array if isinstance(self, sps.sparray) else csc_matrix

    def tocsc(self, copy: bool = False) -> Any:
        """SciPy's tocsc, from csr on several threads."""
        made = None if self._transposed else self._regrouped(self._csc_container)
        return super().tocsc(copy=copy) if made is None else made  # type: ignore[misc]

    def tocsr(self, copy: bool = False) -> Any:
        """SciPy's tocsr, from csc on several threads."""
        made = self._regrouped(self._csr_container) if self._transposed else None
        return super().tocsr(copy=copy) if made is None else made  # type: ignore[misc]

    def _regrouped(self, container: Any) -> Any:
        """The same matrix in `container`, of the other format; None where SciPy should convert."""
        rows = conversion.transposed_rows(self._cell)
        if rows is None:
            return None
        made = container._of_rows(self._shape, rows)
        made.has_sorted_indices = True
        return made

    @property
    def base(self) -> Any:
        """The same matrix as a plain SciPy object over the same arrays."""
        plain = _PLAIN[self.format, isinstance(self, sps.sparray)]  # type: ignore[attr-defined]
        return plain((self.data, self.indices, self.indptr), shape=self._shape)

    def to_scipy(self) -> Any:
        """`base` as a method."""
        return self.base

    def _with_values(self, values: AnyArray) -> Any:
        """A matrix of this class with the pattern of this one, in index arrays of its own, and these values."""
        cell, nnz = self._cell, values.size
        twin = object.__new__(type(self))
        twin._cell = Operand()
        for field, array in ((INDPTR, cell.peek(INDPTR)), (INDICES, cell.peek(INDICES)[:nnz])):
            twin._cell.rebind(field, memory.copied(array))
        twin._cell.rebind(DATA, values)
        _attributes(twin).update(_TRANSPOSE_STATE, _shape=self._shape)
        twin._settle()
        return twin

    # -- tuning

    def tune(self, operation: str = "matmul", **hints: Any) -> Plan:
        """Find a faster kernel now and keep it. Hints: columns, runs, effort, budget_s, transposed, dtype, progress.

        `operation`: "matmul" (``A @ B``; "spmv" and "spmm" mean the same), or "sddmm" (``sddmm(A, X, Y)``), `columns`
        being those of B, or of X.
        ``A.tune("matmul", columns=256, runs=10_000, effort="measure", budget_s=5, progress=True)``
        """
        transposed = bool(hints.pop("transposed", False))
        plan: Plan = executor.tune(
            self._cell, operation=operation, transposed=self._transposed is not transposed, **hints
        )
        return plan

    def explain(self, B: Any = 1, *, operation: str = "matmul") -> Explanation:
        """What runs for ``A @ B`` and why; B: the dense operand or its number of columns.

        With ``operation="sddmm"``: for ``sddmm(A, X, Y)``, B the number of columns of X.
        """
        from autosparse.explain import explain

        return explain(self._cell, B, transposed=self._transposed, operation=operation)

    # -- state

    def resize(self, *shape: Any) -> None:
        """SciPy's resize, in place; a transpose made earlier keeps its shape."""
        self._own_cell()
        try:
            super().resize(*shape)  # type: ignore[misc]
        finally:
            self._settle()

    def _own_cell(self) -> Operand:
        """The operand, shared with no other object: a transpose must not follow when this one is given new arrays."""
        cell: Operand | None = getattr(self, "_cell", None)
        if cell is None:
            self._cell = Operand()
        elif cell.shared:
            del cell
            if not guard.is_held_once(self):
                self._cell = self._cell.fork()
        return self._cell

    def _settle(self) -> None:
        shape = self._shape
        n_rows, n_cols = shape if len(shape) == 2 else (1, shape[0])
        n_major, n_minor = (n_cols, n_rows) if self._transposed else (n_rows, n_cols)
        self._cell.settle(n_major, n_minor, flat=len(shape) != 2)

    def _adopt(self, state: dict[str, Any]) -> None:
        """Become what `state` says: SciPy's attributes, with the three arrays among them."""
        self._cell = Operand()
        for field, name in enumerate(_NAMES):
            self._cell.rebind(field, state.pop(name))
        attributes = _attributes(self)
        attributes.clear()
        attributes.update(state)
        self._settle()

    def __getstate__(self) -> dict[str, Any]:
        """What SciPy pickles: plans and packed copies stay behind."""
        return {**_attributes(self), **{name: getattr(self, name) for name in _NAMES}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._adopt(dict(state))


# Code that looks into SciPy's objects (its own set_shape, its tests) finds the arrays where SciPy keeps them. Each
# final class needs the property in its own body, where Python would otherwise put the plain one.
_SCIPY_DICT = property(
    AutoSparseMatrix.__getstate__, AutoSparseMatrix.__setstate__, doc="SciPy's attributes, arrays included; a copy."
)


class _MatrixSemantics(AutoSparseMatrix):
    """What spmatrix adds: ``*`` is the product, and the shape can be set."""

    __slots__ = ()

    def __mul__(self, other: Any) -> Any:
        if type(other) is ndarray and other.ndim:
            return self.__matmul__(other)
        return super().__mul__(other)  # type: ignore[misc]

    def set_shape(self, shape: Any) -> None:
        """Set the shape in place, as SciPy does: by taking over the state of a reshaped copy."""
        super().set_shape(shape)  # type: ignore[misc]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix."""
        return self._shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self.set_shape(shape)


def _find_attributes() -> Callable[[Any], dict[str, Any]]:
    """The getter behind the ``__dict__`` of SciPy's classes, which ours show differently."""
    descriptor = next(vars(base)["__dict__"] for base in sps.csr_array.__mro__ if "__dict__" in vars(base))
    getter: Callable[[Any], dict[str, Any]] = descriptor.__get__
    return getter


_attributes = _find_attributes()


class csr_array(AutoSparseMatrix, sps.csr_array):  # type: ignore[misc]  # noqa: D101, N801
    __doc__ = sps.csr_array.__doc__
    __dict__ = _SCIPY_DICT
    _transposed = False


class csc_array(AutoSparseMatrix, sps.csc_array):  # type: ignore[misc]  # noqa: D101, N801
    __doc__ = sps.csc_array.__doc__
    __dict__ = _SCIPY_DICT
    _transposed = True


class csr_matrix(_MatrixSemantics, sps.csr_matrix):  # type: ignore[misc]  # noqa: D101, N801
    __doc__ = sps.csr_matrix.__doc__
    __dict__ = _SCIPY_DICT
    _transposed = False


class csc_matrix(_MatrixSemantics, sps.csc_matrix):  # type: ignore[misc]  # noqa: D101, N801
    __doc__ = sps.csc_matrix.__doc__
    __dict__ = _SCIPY_DICT
    _transposed = True


csr_array._twin, csc_array._twin = csc_array, csr_array
csr_matrix._twin, csc_matrix._twin = csc_matrix, csr_matrix

for _class in (csr_array, csc_array, csr_matrix, csc_matrix):
    _class.__module__ = "autosparse"  # where users and pickles find it, wherever this file moves

_PLAIN = {
    ("csr", True): sps.csr_array,
    ("csc", True): sps.csc_array,
    ("csr", False): sps.csr_matrix,
    ("csc", False): sps.csc_matrix,
}

# What SciPy's constructor leaves in a fresh object besides shape and arrays (maxprint in the versions that have it).
_TRANSPOSE_STATE = {
    name: value for name, value in vars(sps.csr_array((1, 1))).items() if name not in {*_NAMES, "_shape"}
}
