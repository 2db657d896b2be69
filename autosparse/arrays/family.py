"""AutoSparseMatrix: SciPy's csr and csc classes (arrays and matrices) with products by autosparse.

The family is closed: transposes, sums, slices and conversions between csr and csc stay in it. Everything but products
is SciPy's own code on the same arrays. SciPy does not document subclassing; docs/design/scipy-classes.md lists the
private hooks used here, and SciPy's own test suite runs on these classes (tests/conformance).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from autosparse import light
from autosparse._native import memory
from autosparse.arrays import plain
from autosparse.arrays.copies import Copies
from autosparse.arrays.plain import cell_of, watched
from autosparse.arrays.products import DenseResults, Products, Reflected
from autosparse.dispatch import executor
from autosparse.light import Rows, adoption
from autosparse.light.adoption import constructed, set_state
from autosparse.light.matrices import ConvertedBack, Slots
from autosparse.operands import mutation_guard, ownership
from autosparse.operands.csr import DATA, INDICES, INDPTR, Operand, UnfinishedOperand
from autosparse.ops import names

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from autosparse.config import Effort, EffortName
    from autosparse.core.plan import Plan
    from autosparse.explain.explanation import Explanation
    from autosparse.explain.program_explanation import ProgramExplanation
    from autosparse.log import Progress

_getnnz: Final[Any] = sps.csr_array._getnnz
AnyArray = NDArray[Any]  # Any: any dtype that SciPy takes
ndarray = np.ndarray


_greet: Callable[[], None] | None = None  # `neighbours.greet`, once one of these libraries is imported


def greet() -> None:
    """Register the classes with libraries that the program has imported (`interop.neighbours`)."""
    global _greet
    if _greet is None and not sys.modules.keys().isdisjoint(light.NEIGHBOURS):
        _greet = importlib.import_module("autosparse.interop.neighbours").greet
    if _greet is not None:
        _greet()


class AutoSparseMatrix(ConvertedBack, Reflected, Copies, Products, DenseResults, Slots):
    """Base class of sparse arrays whose ``A @ B`` gives SciPy's result, faster; mixed into SciPy's csr and csc classes.

    Sums are formed in another order than SciPy's (docs/differences.md says what that can change).

    `_cell` holds the arrays: the compressed rows of A (csr) or of Aᵀ (csc); an array and its transpose share it.
    """

    __slots__ = ()

    _cell: Operand
    _twin: ClassVar[type[AutoSparseMatrix]]  # class of the transpose

    data = watched(DATA)
    indices = watched(INDICES)
    indptr = watched(INDPTR)

    def __init__(
        self, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False, **kwargs: Any
    ) -> None:  # Any: SciPy's own arguments, checked by SciPy
        if not (hasattr(self, "_cell") if type(self) in plain.FAMILY else cell_of(self)):
            greet()
            if not copy and not kwargs and self._adopt(*adoption.arrays_of(self, arg1, shape, dtype)):
                return
            self._cell = Operand()
        super().__init__(arg1, shape=shape, dtype=dtype, copy=copy, **kwargs)  # type: ignore[call-arg]
        self._finish()

    # -- metadata, read without handing the arrays out

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the values."""
        return self._cell._arrays[DATA].dtype  # type: ignore[no-any-return]

    @dtype.setter
    def dtype(self, newtype: Any) -> None:
        self.data = self.data.view(newtype)

    nnz = property(lambda self: int(self._cell._arrays[INDPTR][-1]), doc="Stored entries, zeros among them.")
    size = nnz

    def _getnnz(self, axis: int | None = None) -> Any:
        return int(self._cell._arrays[INDPTR][-1]) if axis is None else _getnnz(self, axis)

    def prune(self) -> None:
        """Shorten the arrays, in place, to the number of entries, as SciPy's `prune` does."""
        indptr, indices, data = map(self._cell.peek, (INDPTR, INDICES, DATA))
        n_major = self._shape[1] if self._transposed else (1, *self._shape)[-2]  # a one-dimensional array has one row
        is_cut = len(indptr) == n_major + 1 and len(indices) == len(data) == indptr[-1]
        if not (is_cut and light.fills(indices) and light.fills(data)):
            super().prune()  # type: ignore[misc]

    # -- the family

    def transpose(self, axes: tuple[int, int] | None = None, copy: bool = False) -> Any:
        """Return Aᵀ, which shares arrays (and plans) with A unless `copy`."""
        cell = self._cell
        arrays = indptr, indices, _ = tuple(map(cell.peek, (INDPTR, INDICES, DATA)))
        is_plain = not copy and axes in (None, (1, 0)) and plain.are_whole(arrays, cell.n_major, cell.n_minor)
        if not (is_plain and light.takes_as_is(type(self), self._shape, indptr, indices)):
            return super().transpose(axes=axes, copy=copy)  # type: ignore[misc]
        cell.shared, cell.unvalidated = True, False
        twin = object.__new__(self._twin)
        twin._cell = cell
        set_state(twin, self._shape[::-1])
        return twin

    @classmethod
    def _over(cls, m: Any, copy: bool | None = False) -> Any:
        """Return a matrix over the arrays of `m`, compressed in the same format; None where SciPy should check them."""
        made = object.__new__(cls)
        return made if made._adopt(m._shape, m.indptr, m.indices, m.data, copy) else None

    def _adopt(self, shape: Any, indptr: Any, indices: Any, data: Any, copy: bool | None = False) -> bool:
        """Make this object a matrix of these arrays, copied as the argument `copy` of `csr` says, and return True.

        Return False, without a change, where SciPy should check the arrays.
        """
        found = adoption.prepared(type(self), shape, (indptr, indices, data), copy)
        if found is None:
            return False
        n_major, n_minor, arrays = found
        if copy is False:
            self._cell = Operand.over(n_major, n_minor, arrays, is_valid=False)
        else:
            indptr, indices, data = arrays
            made = ownership.copies_of_rows(indptr, indices, data, n_minor, everything=copy is True)
            arrays, copied_bytes, is_valid = made
            self._cell = cell = Operand.over(n_major, n_minor, arrays, is_valid=is_valid)
            cell.copied_bytes, cell.unvalidated = copied_bytes, False
        set_state(self, shape)
        return True

    @classmethod
    def _of_rows(cls, shape: tuple[int, int], rows: tuple[AnyArray, AnyArray, AnyArray]) -> Any:
        """Return a matrix over new arrays (indptr, indices, data) in `_cell`'s orientation, held by no other object."""
        indptr, indices, data = rows
        has_constructor = cls.__init__ is not AutoSparseMatrix.__init__  # of a user's class, which may set attributes
        if has_constructor or not light.takes_as_is(cls, shape, indptr, indices):
            return cls((data, indices, indptr), shape=shape)
        made = object.__new__(cls)
        n_major, n_minor = shape[::-1] if cls._transposed else shape
        made._cell = Operand.over(n_major, n_minor, list(rows), is_valid=True)
        made._cell.copied_bytes = 0
        set_state(made, shape)
        return made

    @property
    def base(self) -> Any:
        """Plain SciPy object of the same matrix, over the same arrays.

        >>> A = asp.csr(sps.eye_array(3, format="csr"))
        >>> type(A.base) is sps.csr_array, np.shares_memory(A.base.data, A.data)
        (True, True)
        """
        return constructed(self._plain_class, (self.data, self.indices, self.indptr), self._shape)

    def to_scipy(self) -> Any:
        """Return `base`: the same matrix as a plain SciPy object over the same arrays.

        >>> type(asp.csr([[1.0]]).to_scipy()) is sps.csr_array
        True
        """
        return self.base

    def _with_values(self, values: AnyArray) -> Any:
        """Return a matrix of this class with copies of this one's index arrays, and with `values` as its data."""
        cell, nnz = self._cell, values.size
        arrays = [memory.copied(cell.peek(INDPTR)), memory.copied(cell.peek(INDICES)[:nnz]), values]
        twin = object.__new__(type(self))
        twin._cell = Operand.over(cell.n_major, cell.n_minor, arrays, is_valid=False)
        set_state(twin, self._shape)
        twin._finish()
        return twin

    # -- tuning

    def tune(
        self,
        operation: str = names.MATMUL,
        *,
        columns: int = 1,
        runs: int | None = None,
        effort: Effort | EffortName | None = None,
        budget_s: float | None = None,
        transposed: bool = False,
        dtype: DTypeLike | None = None,
        progress: bool | Progress = False,
    ) -> Plan:
        """Search for a faster kernel now, use it in later products, and return its plan.

        `operation` is "matmul" for ``A @ B`` ("spmv" and "spmm" mean the same) or "sddmm" for ``sddmm(A, X, Y)``, and
        `columns` the number of columns of B or X. `effort` limits the work of the search, `budget_s` its seconds. With
        `runs`, the expected number of products, a search starts only if that many pay for it. ``transposed=True`` tunes
        ``A.T @ B``, and ``progress=True`` draws a line on a terminal's stderr. `dtype`, if given, must be that of A.

        >>> A = asp.csr(sps.eye_array(1000, format="csr"))
        >>> plan = A.tune("matmul", columns=8, runs=100, effort="estimate")
        >>> (A @ np.ones((1000, 8))).shape  # by that plan
        (1000, 8)
        """
        return executor.tune(
            self._cell, operation=operation, columns=columns, runs=runs, effort=effort, budget_s=budget_s,
            transposed=self._transposed is not bool(transposed), dtype=dtype, progress=progress,
        )  # fmt: skip

    def explain(self, B: Any = 1, *, operation: str = names.MATMUL) -> Explanation | ProgramExplanation:
        """Return what runs for ``A @ B`` and why; B is the other operand, or the number of columns of a dense one.

        For a sparse B, the explanation lists the algorithms that compute its rows, whose results have the same bits.
        With ``operation="sddmm"`` the product is ``sddmm(A, X, Y)``, and B is the number of columns of X.

        >>> print(asp.csr(sps.eye_array(3, format="csr")).explain())  # doctest: +ELLIPSIS
        matmul: A @ B, B a vector...
        """
        from autosparse.explain.explanation import explain

        if operation == names.MATMUL and sps.issparse(B):
            from autosparse.explain.sparse_products import explain_sparse_product

            return explain_sparse_product(self, B)
        return explain(self._cell, B, transposed=self._transposed, operation=operation)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a table of facts and a picture of the pattern."""
        from autosparse.arrays.page import as_html

        return as_html(self)

    # -- state

    def resize(self, *shape: Any) -> None:
        """Resize in place, as SciPy's `resize` does, or not at all; a transpose made earlier keeps its shape."""
        before, shape_before = self._own_cell().saved(), self._shape
        try:
            super().resize(*shape)  # type: ignore[misc]
            self._finish()
        except BaseException:  # also an interrupt behind SciPy's method
            self._shape = shape_before  # type: ignore[misc]  # an attribute of SciPy's class
            self._cell.restore(before)
            self._finish()
            raise

    def _own_cell(self) -> Operand:
        """Return the operand, first replaced by one of this object alone if others (such as the transpose) share it."""
        cell = cell_of(self)
        if cell is None:
            self._cell = UnfinishedOperand(self)
        elif cell.shared:
            del cell
            if not mutation_guard.is_held_once(self):
                self._cell = self._cell.share()
        return self._cell

    def _finish(self) -> None:
        shape = self._shape
        n_rows, n_cols = shape if len(shape) == 2 else (1, shape[0])
        n_major, n_minor = (n_cols, n_rows) if self._transposed else (n_rows, n_cols)
        self._cell.finish(n_major, n_minor, flat=len(shape) != 2)


class _MatrixSemantics(AutoSparseMatrix):
    """Mixin with the semantics of spmatrix: ``*`` is the product, and the shape can be set."""

    __slots__ = ()

    def __mul__(self, other: Any) -> Any:
        if type(other) is ndarray:
            cell, shape = self._cell, other.shape
            rows = cell.rows
            if rows is not None and rows.dtype is other.dtype and 0 < len(shape) <= 2 and shape[0] == self._shape[-1]:
                return executor.matmul(cell, other, transposed=self._transposed)
            if shape:
                return AutoSparseMatrix.__matmul__(self, other)  # not a subclass's, which may call `*`
        return super().__mul__(other)  # type: ignore[misc]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix."""
        return self._shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self.set_shape(shape)  # type: ignore[attr-defined]  # SciPy's


if TYPE_CHECKING:

    class csr_array(AutoSparseMatrix, sps.csr_array):  # type: ignore[misc]  # noqa: D101, N801
        pass

    class csc_array(AutoSparseMatrix, sps.csc_array):  # type: ignore[misc]  # noqa: D101, N801
        pass

    class csr_matrix(_MatrixSemantics, sps.csr_matrix):  # type: ignore[misc]  # noqa: D101, N801
        pass

    class csc_matrix(_MatrixSemantics, sps.csc_matrix):  # type: ignore[misc]  # noqa: D101, N801
        pass

else:
    from autosparse.light.matrices import csc_array, csc_matrix, csr_array, csr_matrix


def _finish_light(bases: Mapping[type, tuple[type, ...]], give_operand: Callable[[Any, Rows], None]) -> None:
    """Make all light matrices and the four classes complete: `give_operand` sets a matrix's `_cell` from its rows."""
    with light.FINISHING:
        found = [made for reference in list(light.alive.values()) if (made := reference()) is not None]
        rows_of = {id(made): made._light for made in found if made._light is not None}
        try:
            for made in found:
                made._light = None  # before an operand reads `is_exported`, which other threads set when they fetch
            for made in found:
                if id(made) in rows_of:
                    give_operand(made, rows_of[id(made)])
        except BaseException:
            for made in found:
                made._light = rows_of.get(id(made))
            raise
        light.alive.clear()
        for kind, wanted in bases.items():
            kind.__bases__ = wanted
        light.is_complete = True


def _make_complete() -> None:
    """Give the four classes their complete base, and every light matrix an operand."""
    operands: dict[int, Operand] = {}  # a light matrix and its transpose share rows

    def give_operand(made: Any, rows: Rows) -> None:
        if id(rows) not in operands:
            if (native := rows.native) is not None:  # the operand exports the arrays from now on
                native[0].rows = rows.native = None
            operands[id(rows)] = Operand.of_light(rows)
        made._cell = operands[id(rows)]

    plain.hasten(AutoSparseMatrix)
    own: dict[type, type] = {csr_matrix: _MatrixSemantics, csc_matrix: _MatrixSemantics}
    kinds = csr_array, csc_array, csr_matrix, csc_matrix
    _finish_light({kind: (own.get(kind, AutoSparseMatrix), kind._plain_class) for kind in kinds}, give_operand)


_make_complete()
