"""The classes csr and csc, which have the base `Light` until the library is loaded, and coo."""

from __future__ import annotations

import importlib
import operator
from time import perf_counter_ns
from typing import Any, ClassVar, Final

import numpy as np
import scipy.sparse as sps

from autosparse import light
from autosparse.light import Rows, adoption
from autosparse.light.adoption import adopt, attributes, publish, register

INDPTR, INDICES, DATA = 0, 1, 2  # places in `Rows.arrays`
FIELDS: Final = ("indptr", "indices", "data")
_NUMBERS: Final = (int, float, complex, np.number)
_NOT_SOUND: Final[Any] = None, None


def _container(fmt: str) -> Any:  # Any: a property, which mypy would refuse in the place of SciPy's
    """Return the property by which SciPy's methods find the class of format `fmt` for their results."""
    of_array, of_matrix = f"{fmt}_array", f"{fmt}_matrix"

    def find(self: Any) -> Any:
        try:
            formats = importlib.import_module("autosparse.light.formats")  # by name: it imports this module
        except (ImportError, OSError):  # no file descriptor left, or another root directory
            return getattr(super(ConvertedBack, self), f"_{fmt}_container")
        return getattr(formats, of_array if isinstance(self, sps.sparray) else of_matrix)

    return property(find)


class ConvertedBack:
    """Mixin whose attributes make SciPy's conversions to any format return autosparse classes."""

    __slots__ = ()

    _plain_class: ClassVar[Any]  # SciPy's class under this one

    _csr_container = property(lambda self: csr_array if isinstance(self, sps.sparray) else csr_matrix)
    _csc_container = property(lambda self: csc_array if isinstance(self, sps.sparray) else csc_matrix)
    _coo_container = property(lambda self: coo_array if isinstance(self, sps.sparray) else coo_matrix)
    _bsr_container = _container("bsr")
    _dia_container = _container("dia")
    _dok_container = _container("dok")
    _lil_container = _container("lil")


def _rare(name: str) -> Any:
    """Return a method that calls the function `name` of the module `rare`, which most programs do not need."""

    def method(self: Any, *args: Any) -> Any:
        return getattr(importlib.import_module("autosparse.light.rare"), name)(self, *args)

    return method


def _elementwise(name: str, loop: str) -> Any:
    """Return the method `name`: SciPy's `loop`, if any, where classes and shapes are equal, else SciPy's method."""

    def method(self: Any, other: Any, *args: Any) -> Any:
        if type(other) is type(self) and self._shape == other._shape and loop:
            return self._binopt(other, loop)
        try:
            return getattr(self._plain_class, name)(self, other, *args)
        except ValueError as error:
            raise _rare("explained")(self, other, error) from None

    method.__doc__ = getattr(sps.csr_array, name).__doc__
    return method


class Slots:
    """Common base of `Light` and `AutoSparseMatrix`, which gives their objects one layout."""

    __slots__ = ("_cell", "_light")  # not in __dict__, which shows the attributes that SciPy stores there

    _cell: Any  # operand of a complete matrix
    _light: Rows | None  # None once the matrix is complete
    __add__, __sub__ = _elementwise("__add__", "_plus_"), _elementwise("__sub__", "_minus_")
    multiply = _elementwise("multiply", "_elmul_")
    __lt__, __gt__, __le__, __ge__ = (_elementwise(name, "") for name in ("__lt__", "__gt__", "__le__", "__ge__"))


def _array(field: int) -> Any:  # Any: a property, which mypy would refuse in the place of SciPy's
    """Return the property for the array number `field` of a light matrix."""
    name = FIELDS[field]

    def fetch(self: Any) -> Any:
        rows = self._light
        if rows is not None and field != DATA:
            rows.export()
            rows = self._light  # None if `_finish_light` may have read `is_exported` before
        return completed(self, name) if rows is None else rows.arrays[field]

    def put(self: Any, value: Any) -> None:
        with light.FINISHING:
            rows = getattr(self, "_light", None)
            if rows is not None and value is rows.arrays[field]:
                return
            is_plain = type(value) is np.ndarray and value.ndim == 1  # of a dtype that SciPy's methods keep
            is_plain = is_plain and (value.dtype.isnative if field == DATA else value.dtype in light.UNSIGNED)
            is_whole = field != INDPTR or rows is None or np.size(value) == rows.n_major + 1
            if rows is not None and is_plain and is_whole and not rows.is_shared:
                rows.arrays[field], rows.copied_bytes = value, None
                rows.export()
                return
        _of_family(self, name).__set__(self, value)

    return property(fetch, put)


def _complete() -> None:
    """Load the library, or wait until another thread has finished the classes; raise ImportError where that fails."""
    with light.FINISHING:
        is_complete = light.is_complete
    if not (is_complete or light.complete()):
        raise ImportError("autosparse cannot be loaded: its files cannot be read now, or the interpreter is ending")


def _is_loaded() -> bool:
    """Load the library, as `_complete` does; return whether it is loaded."""
    try:
        _complete()
    except (ImportError, MemoryError, RecursionError):  # loading needs more frames than a product of SciPy's
        light._spent_ns = 0  # only after methods have taken `LOADING_NS` again
        return False
    return True


def _of_family(made: Any, name: str) -> Any:
    """Return the complete attribute `name` of the one of the four classes that the matrix's class is or extends."""
    _complete()
    return getattr(made._twin._twin, name)


def completed(made: Any, name: str) -> Any:
    """Return the complete attribute `name`, past overrides in subclasses, which may have called it by `super`."""
    return _of_family(made, name).__get__(made, type(made))


class _CompleteOnly:
    """Attribute of complete matrices that SciPy's classes lack. A class that is read, as by `help`, is completed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, made: Any, owner: Any) -> Any:
        if made is not None:
            return completed(made, self._name)
        return getattr(owner, self._name) if owner is not Light and _is_loaded() else self

    def __set__(self, made: Any, _: Any) -> None:
        raise AttributeError(f"property {self._name!r} of {type(made).__name__!r} object has no setter")


def _by_scipy(name: str) -> Any:
    """Return a method that calls SciPy's method `name` and counts its time."""

    def method(self: Any, *args: Any, **how: Any) -> Any:
        rows = self._light
        if (rows is None or not rows.sound() or not light.may_be_light()) and _is_loaded():
            return completed(self, name)(*args, **how)
        kept, start_ns = [] if rows is None else [(rows, rows.checked)], perf_counter_ns()
        made = getattr(self._plain_class, name)(self, *args, **how)
        light.count(start_ns, kept, made, share=light.LOOP_SHARE)
        return made

    return method


def _sound(name: str) -> Any:
    """Return a method that calls SciPy's method `name`, which keeps no array that it fetches: none is checked again."""

    def method(self: Any, *args: Any, **how: Any) -> Any:
        if name == "_binopt" and (sums := light.summer(self)) and (made := sums.merged(self, *args)) is not None:
            return made
        kept = [(rows, rows.checked) for one in (self, *args) if (rows := light.rows_of(one)) is not None]
        made = getattr(self._plain_class, name)(self, *args, **how)
        light.restore(kept, None if name == "_binopt" else made)  # the other operand may have indices out of bounds
        return made

    return method


def _reflected(name: str, operation: Any) -> Any:
    """Return the method `name`, which makes a plain matrix of A's format on the left one of A's class, as A's is."""

    def method(self: Any, other: Any) -> Any:
        if type(other) is not self._plain_class:
            return getattr(self._plain_class, name)(self, other)
        left = object.__new__(self._twin._twin)
        if not (light.may_be_light() and adopt(left, light.arrays_of(left, other), copy=False)):
            return completed(self, name)(other)
        return operation(left, self)

    return method


class Light(ConvertedBack, Slots):
    """Base of the four classes until the library is loaded: SciPy's methods, over arrays in `_light`."""

    __slots__ = ()

    _transposed: ClassVar[bool]
    _twin: ClassVar[Any]
    format: str  # here and below: SciPy's
    has_canonical_format: bool
    _shape: tuple[int, ...]

    indptr, indices, data = map(_array, (INDPTR, INDICES, DATA))

    # Any: SciPy's own arguments
    def __init__(self, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False, **kwargs: Any) -> None:
        is_plain = not kwargs and light.may_be_light()
        if is_plain and shape is None and dtype is None and sps.issparse(arg1) and arg1.format != self.format:
            arg1 = arg1.asformat(self.format)
        is_plain = is_plain and adoption.is_small(arg1)
        if not (is_plain and adopt(self, adoption.arrays_of(self, arg1, shape, dtype), copy=bool(copy))):
            completed(self, "__init__")(arg1, shape=shape, dtype=dtype, copy=copy, **kwargs)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the values."""
        rows = self._light
        return completed(self, "dtype") if rows is None else rows.arrays[DATA].dtype  # type: ignore[no-any-return]

    @dtype.setter
    def dtype(self, newtype: Any) -> None:
        _of_family(self, "dtype").__set__(self, newtype)

    def _getnnz(self, axis: int | None = None) -> Any:
        rows = self._light
        if rows is None:
            return completed(self, "_getnnz")(axis)
        return int(rows.arrays[INDPTR][-1]) if axis is None else self._plain_class._getnnz(self, axis=axis)

    nnz = property(lambda self: self._getnnz(), doc="Stored entries, zeros among them.")

    def prune(self) -> None:
        """Shorten the arrays to the number of entries, as SciPy's `prune` does."""
        rows, nnz = self._light, self.nnz
        if rows is None or not nnz == rows.arrays[INDICES].size == rows.arrays[DATA].size:
            self._plain_class.prune(self)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Return the sum over all entries or along an axis, as SciPy's `sum` does."""
        add = self._plain_class.sum.__get__(self) if light.may_be_light() else completed(self, "sum")
        return add(axis=axis, dtype=dtype, out=out)

    def __iter__(self) -> Any:
        is_flat = isinstance(self, sps.sparray)  # rows of one dimension, which light matrices cannot be
        return completed(self, "__iter__")() if is_flat else self._plain_class.__iter__(self)

    def transpose(self, axes: tuple[int, int] | None = None, copy: bool = False) -> Any:
        """Return Aᵀ, which shares arrays with A unless `copy`."""
        if copy and light.may_be_light():
            return self.transpose(axes).copy()
        rows = self._light
        twin = object.__new__(self._twin)
        is_plain = rows is not None and not copy and axes in (None, (1, 0)) and rows.sound()
        if rows is None or not (is_plain and register(twin, rows, self._shape[::-1])):
            return completed(self, "transpose")(axes=axes, copy=copy)
        rows.is_shared = True
        return twin

    def __matmul__(self, other: Any) -> Any:
        if type(other) is not np.ndarray or not other.ndim:  # SciPy's method asks first whether it is a number
            return self._plain_class.__matmul__(self, other)
        rows = self._light
        made = None if rows is None else adoption.product_by_loop(self, rows, other)
        return self._matmul_dispatch(other) if made is None else made

    def _matmul_dispatch(self, other: Any, *args: Any) -> Any:
        if type(other) is np.matrix:
            return self._plain_class._ascontainer(self._matmul_dispatch(np.asarray(other)))
        rows: Any = self._light  # Any: None once the matrix is complete
        other = light.as_array(other)
        n_terms: Any = None if rows is None else light.n_terms(self, rows, other)  # Any: a number, or None
        checked, values = _NOT_SOUND if n_terms is None else rows.sound() or _NOT_SOUND
        is_array = checked is not None and type(other) is np.ndarray
        values, other = adoption.in_common_type(values, other) if is_array else (values, other)
        is_own = is_array and other.dtype == values.dtype
        is_scattered = is_own and self._transposed and other.ndim == 1 and n_terms <= adoption.MAX_SCATTERED
        if is_own and rows.products_ns >= light.LOOKUP_NS and rows.looked_up != light.n_threads:
            adoption.look_up(rows, other, transposed=self._transposed)
        has_kernel = is_own and not is_scattered and other.dtype.char in light.KERNEL_TYPES
        is_sparse = checked is not None and not isinstance(other, np.ndarray)
        most_terms = light.MAX_TERMS if is_sparse else light.MAX_LOOP_TERMS
        arrays = (*checked, values) if is_own else None
        kept = [(rows, rows.checked)] if checked is not None and not is_own else []
        if kept and (theirs := light.rows_of(other)) is not None:
            kept.append((theirs, theirs.checked))
        gains = has_kernel and light.gains(n_terms, other.shape, transposed=self._transposed)
        is_due = light._products_ns >= light.RUNTIME_NS or n_terms > light.MAX_TERMS if gains else is_sparse
        runtime = light.runtime() if is_due and (gains or light.is_sparse_due(n_terms)) else None
        spent_ns, start_ns, made = light._spent_ns, perf_counter_ns(), None
        if runtime is not None and is_sparse:
            made = runtime.sparse_product(self, rows, other)
        elif runtime is not None:
            made = runtime.product(rows, arrays, other, transposed=self._transposed)
        if not (is_native := made is not None):
            if not isinstance(other, _NUMBERS) if checked is None else n_terms > most_terms:
                arrays, checked, values, kept = None, None, None, []  # they would count as other code's
                if _is_loaded():
                    return completed(self, "_matmul_dispatch")(other, *args)
            by_scipy = self._plain_class._matmul_dispatch
            made = adoption.dense_product(self, arrays, other) if arrays else by_scipy(self, other, *args)
        share = light.SPARSE_SHARE if is_native and is_sparse else 1 if has_kernel > is_native else light.LOOP_SHARE
        if is_sparse:
            light._spent_ns = spent_ns  # without conversions inside
        light.count(start_ns, kept, made, share=share, is_product=gains, dense=rows if is_own else None)
        return made

    def _rmatmul_dispatch(self, other: Any, *args: Any) -> Any:
        is_dense = type(other) is np.ndarray or type(other) is np.matrix
        is_plain = other.shape[-1:] == self._shape[:1] if is_dense else isinstance(other, _NUMBERS)
        if self._light is None or not is_plain:
            return completed(self, "_rmatmul_dispatch")(other, *args)
        return self._plain_class._rmatmul_dispatch(self, other, *args)

    def __getitem__(self, key: Any) -> Any:
        rows, start_ns = self._light, perf_counter_ns()
        found = None if rows is None else rows.sound()
        if (found is None or not light.may_be_light()) and _is_loaded():
            return completed(self, "__getitem__")(key)
        if found is not None and (part := adoption.part_of(self, key, found)) is not None:
            light.count(start_ns, share=light.LOOP_SHARE)
            return part
        return Light._selected(self, key)  # another thread may make `self` complete now

    tocsc, tocsr = map(_by_scipy, ("tocsc", "tocsr"))
    _binopt, _with_data, _selected = map(_sound, ("_binopt", "_with_data", "__getitem__"))
    __radd__, __rsub__ = _reflected("__radd__", operator.add), _reflected("__rsub__", operator.sub)
    __rmul__, __rmatmul__ = _reflected("__rmul__", operator.mul), _reflected("__rmatmul__", operator.matmul)
    __copy__, __deepcopy__, resize, _argminmax = map(_rare, ("copy", "deepcopy", "resize", "argminmax"))
    __setstate__ = _rare("setstate")

    def __getstate__(self) -> Any:
        """Return the state that SciPy pickles."""
        if getattr(self, "_light", None) is None:
            return completed(self, "__getstate__")()
        return {**attributes(self), **{name: getattr(self, name) for name in FIELDS}}

    base, explain, owns_arrays = map(_CompleteOnly, ("base", "explain", "owns_arrays"))
    to_scipy, tune, _repr_html_ = map(_CompleteOnly, ("to_scipy", "tune", "_repr_html_"))


# Each final class repeats it in its own body; otherwise Python would add a `__dict__` that shows no arrays.
SCIPY_DICT: Final = property(
    _rare("attributes_of"), _rare("set_attributes"), doc="SciPy's attributes, arrays included."
)


class csr_array(Light, sps.csr_array):  # type: ignore[misc]  # noqa: D101, N801
    __dict__ = SCIPY_DICT
    _plain_class = sps.csr_array
    _transposed = False


class csc_array(Light, sps.csc_array):  # type: ignore[misc]  # noqa: D101, N801
    __dict__ = SCIPY_DICT
    _plain_class = sps.csc_array
    _transposed = True


class csr_matrix(Light, sps.csr_matrix):  # type: ignore[misc]  # noqa: D101, N801
    __dict__ = SCIPY_DICT
    _plain_class = sps.csr_matrix
    _transposed = False


class csc_matrix(Light, sps.csc_matrix):  # type: ignore[misc]  # noqa: D101, N801
    __dict__ = SCIPY_DICT
    _plain_class = sps.csc_matrix
    _transposed = True


class coo_array(ConvertedBack, sps.coo_array):  # type: ignore[misc]  # noqa: D101, N801
    _plain_class = sps.coo_array


class coo_matrix(ConvertedBack, sps.coo_matrix):  # type: ignore[misc]  # noqa: D101, N801
    _plain_class = sps.coo_matrix


csr_array._twin, csc_array._twin = csc_array, csr_array
csr_matrix._twin, csc_matrix._twin = csc_matrix, csr_matrix
FAMILY: Final[frozenset[Any]] = frozenset({csr_array, csc_array, csr_matrix, csc_matrix})
for _class in (coo_array, coo_matrix, *FAMILY):
    publish(_class)
for _class in FAMILY:
    _class.__doc__ = _class._plain_class.__doc__
    setattr(_class, (_name := "tocsc" if _class._transposed else "tocsr"), getattr(_class._plain_class, _name))
