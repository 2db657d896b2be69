"""Operand: the compressed rows behind a sparse array, shared by the array and its transpose, and watched for writes.

``M`` is stored as CSR: row i holds columns ``indices[indptr[i]:indptr[i+1]]``. For a csr array A = M, for a csc array
A = Mᵀ. Three checks differ in cost:

- the addresses of the arrays (`rows`): one attribute;
- the bounds of the structure (`validate`): one pass, after an array was exported;
- changed bytes (`refresh`): nothing, or a pass that hashes them (see `mutation_guard`).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autosparse._native import python_objects, runtime_api
from autosparse.config import get_options
from autosparse.configured import structure_sample
from autosparse.operands.native_rows import (
    BUILTIN,
    NativeRows,
    check_bounds,
    pointer_to,
    stay_within,
    stored_code,
    stored_codes,
)
from autosparse.operands.watched import (
    DATA,
    INDICES,
    INDPTR,
    NEVER,
    NONE_YET,
    REPLACING,
    UNHASHED,
    AnyArray,
    WatchedArrays,
)

if TYPE_CHECKING:
    from autosparse.core.pattern import Pattern

__all__ = [
    "DATA", "INDICES", "INDPTR", "NOT_SMALL_NS", "Operand", "UnfinishedOperand", "expected_look_s", "late_look_s",
]  # fmt: skip

NOT_SMALL_NS: Final = 1_000_000
"""Product time in ns from which on dispatch keeps a state for the problem (before: `executor.small_product`)."""

SMALL_PRODUCT: Final = 1 << 14
"""Maximum number of multiplications of a product on one thread without a dispatch state (see `small_product.c`)."""
SMALL_AT_FIRST: Final = 4 * SMALL_PRODUCT
"""Limit in place of SMALL_PRODUCT for a matrix's first products, often its last: a dispatch state, 15 us, costs more
than threads save."""
FIRST: Final = 3
"""Number of first products for which SMALL_AT_FIRST applies."""

_BEGIN_NS: Final = 0 if python_objects.small_product is not None else NOT_SMALL_NS


class Operand(WatchedArrays):
    """Compressed rows of an ``n_major`` x ``n_minor`` matrix: indptr (n_major + 1,), indices and data (>= nnz,)."""

    __slots__ = (
        "_flat", "_pattern", "dispatcher", "fast_path", "small_product_ns", "n_small_products",
        "shared", "solver_memory", "source",
    )  # fmt: skip

    dispatcher: Any  # Any: dispatch state, private to autosparse.dispatch
    fast_path: Any  # Any: the open fast path (`dispatch.fast_path`)
    small_product_ns: int  # time of the n_small_products products that were computed without a dispatch state
    shared: bool  # whether a transpose uses this operand, too
    solver_memory: Any  # Any: work vectors of solvers, private to autosparse.linalg
    source: weakref.ref[Operand] | None  # operand whose arrays were copied, if the matrix is a copy of another one
    _flat: bool  # whether the sparse array is one-dimensional
    _pattern: tuple[int, Pattern] | None

    def __init__(self) -> None:
        # Every sparse array has one, and most are never multiplied: data of the guard are made at its first look.
        self.n_major = self.n_minor = self.values_version = self.structure_version = 0
        self.n_small_products = self.n_invalidated = self.n_replaced = self._aliases_before = 0
        self.small_product_ns = _BEGIN_NS
        self.rows = self.dispatcher = self.fast_path = self.solver_memory = self.source = None
        self._known_rows = self._chunk_versions = self._native_watch = self._pattern = None
        self._invalidated_indptr = self._invalidated_indices = self._invalidated_data = None
        self._clean_indptr = self._clean_indices = self._clean_data = NEVER
        self.shared = self._flat = self._checked = self._is_rebound = self.frozen = False
        self.copied_bytes = None
        self.unvalidated = self._exported = True  # the constructor that fills it in may still exchange arrays
        self._arrays = [None, None, None]
        self._leased = self._anchors = self._prints = NONE_YET
        self._looks = (0, 0, 0, 0)

    @classmethod
    def over(cls, n_major: int, n_minor: int, arrays: list[Any], *, is_valid: bool) -> Operand:
        """Return an operand over [indptr, indices, data]; `is_valid`: checked, and held by no other object."""
        made = cls()
        made._arrays = arrays
        made.n_major, made.n_minor = n_major, n_minor
        made._checked, made.unvalidated = is_valid, not is_valid
        made._exported = False
        return made

    @classmethod
    def of_light(cls, rows: Any) -> Operand:  # Any: rows of a light matrix, of a higher layer
        """Return the operand of a light matrix that becomes complete, over the same list of arrays."""
        made, rows.checked = cls.over(rows.n_major, rows.n_minor, rows.arrays, is_valid=False), None
        made.copied_bytes, made.shared, made.unvalidated = rows.copied_bytes, rows.is_shared, False
        if rows.is_planned:  # the first look is due, in which the plan begins to serve
            made.small_product_ns, made.n_small_products = max(rows.products_ns, NOT_SMALL_NS), rows.n_products
        if rows.is_exported:  # code that fetched an array of the structure may still hold it
            made._exported, unheld = True, cls.over(1, 1, [np.empty(0), np.empty(0), np.empty(0)], is_valid=False)
            has_views = any(array.base is not None for array in rows.arrays)
            made._aliases_before = made._n_aliases() if has_views else unheld._n_aliases()
        return made

    def share(self) -> Operand:
        """Return an operand over the same arrays for one of two separating objects; the other keeps dispatch states."""
        copied = Operand()
        copied._arrays = list(self._arrays)
        copied.copied_bytes, copied.frozen = self.copied_bytes, self.frozen
        copied.finish(self.n_major, self.n_minor, flat=self._flat)
        return copied

    def finish(self, n_major: int, n_minor: int, *, flat: bool = False) -> None:
        """Set the shape. References to the arrays that exist by now, as by the source object, are no exports."""
        if (n_major, n_minor) != (self.n_major, self.n_minor):
            self._forget_structure()
        self.n_major, self.n_minor, self._flat = n_major, n_minor, flat
        if self._native_watch is not None:
            self._native_watch.retire()  # the next look fills it in anew
        self.rows = None
        self._exported = False
        if flat:
            self.small_product_ns = NOT_SMALL_NS

    def saved(self) -> tuple[list[Any], AnyArray]:
        """Return the arrays, and a copy of the row starts, for `restore`."""
        return list(self._arrays), np.array(self._arrays[INDPTR])

    def restore(self, saved: tuple[list[Any], AnyArray]) -> None:
        """Take the arrays back that `saved` returned, with their row starts, after a method failed between changes.

        SciPy's `resize` cuts the indices and values before it writes to the row starts.
        """
        arrays, starts = saved
        for field, array in enumerate(arrays):
            if array is not self._arrays[field]:
                self.rebind(field, array)
        if isinstance(arrays[INDPTR], np.ndarray) and arrays[INDPTR].flags.writeable:
            self.fetch(INDPTR)[...] = starts

    def _forget_structure(self) -> None:
        self._pattern = self._known_rows = None
        self._checked = False
        self.rows = None
        self.structure_version += 1
        if self._native_watch is not None:
            self._native_watch.retire()

    @property
    def pattern(self) -> Pattern:
        """Pattern of the present structure, after a guard check. Raises StructureError where it is out of bounds."""
        return self.pattern_with(None)

    def pattern_with(self, hashes: tuple[int, int] | None) -> Pattern:
        """Return `pattern` with known `structure_hashes`, for example from the process that sent the arrays."""
        from autosparse.core.pattern import Pattern  # only tuning needs it

        self.refresh()
        if self._pattern is None or self._pattern[0] != self.structure_version:
            made = Pattern(self.n_major, self.n_minor, self.indptr, self.indices[: self.nnz], hashes)
            self._pattern = (self.structure_version, made)
        return self._pattern[1]

    @property
    def known_hashes(self) -> tuple[int, int] | None:
        """`structure_hashes` of the structure at the last check for writes; None where they were not computed."""
        is_known = self._pattern is not None and self._pattern[0] == self.structure_version
        return self._pattern[1].hashes if self._pattern is not None and is_known else None

    @property
    def structure_bytes(self) -> int:
        """Bytes of the stored column indices, the bulk of the structure."""
        return self.nnz * int(self.indices.itemsize)

    def structure_sample(self) -> bytes:
        """Return samples of the structure (see `configured.structure_sample`)."""
        return structure_sample(self)

    def pin(self) -> None:
        """Keep the arrays readable between products until `unpin`; nothing to do here, as the operand holds them."""

    def unpin(self) -> None:
        """Undo one `pin`."""

    # -- the C side

    def small_product(self, B: AnyArray, out: AnyArray, transposed: bool, flags: int) -> bool:
        """Compute out = M @ B (or Mᵀ @ B) at once if it is small, checked as by `validate`; return whether it was."""
        most = SMALL_PRODUCT if self.n_small_products >= FIRST else SMALL_AT_FIRST
        took_ns = python_objects.small_product(
            self._arrays, self.n_major, self.n_minor, self._checked, B, out, transposed, flags, most
        )
        if took_ns < 0:
            return False
        self.unvalidated = False
        if not self._exported:
            self._checked = True
        self.n_small_products += 1
        self.small_product_ns += took_ns
        return True

    def validate(self) -> NativeRows:
        """Check the arrays after they were exported: dtypes, layout, and bounds when those may have changed.

        Raises StructureError (a ValueError) for a structure that a kernel would follow out of bounds.
        """
        self.n_invalidated += 1  # products that find arrays exported or replaced call this method
        if self._native_watch is not None and self._native_watch.look(self, False, get_options().threads or 0):
            known = self._known_rows
            if known is not None:
                return known
        self.unvalidated, n_replaced = False, self.n_replaced
        # From the second time on: code that reads the structure between products does so repeatedly, and C compares
        # hashes.
        takes_prints = not self._checked and self._known_rows is not None and self._can_be_watched()
        codes = self._codes_and_prints() if takes_prints else self._codes()
        if codes is None or codes[0] not in runtime_api.DTYPE_CODES.values():
            self.small_product_ns = NOT_SMALL_NS
        if codes is None:
            return NativeRows(self.n_major, self.n_minor)
        has_weak = self._exported and any(map(weakref.getweakrefcount, self._arrays[:2]))
        is_back = not self._exported or (self._n_aliases() <= self._aliases_before and not has_weak)
        with REPLACING:
            if self.n_replaced != n_replaced:  # another thread has replaced an array since it was checked
                rows = None
            else:
                is_alone = self._checked or is_back or self._is_structure_alone()
                rows = self._pointed(codes, is_validated=is_alone)
        if rows is None:
            return self.validate()
        if takes_prints:
            self._fill_in_watch()
        return rows

    def check_bounds(self) -> None:
        """Raise StructureError where SciPy's loops over the arrays would read or write out of bounds."""
        _, indices, data = self._arrays
        is_known = self._checked and getattr(data, "size", 0) >= indices.size
        del indices, data  # `validate` counts references
        if is_known or self.rows is not None or self._flat:
            return
        look = python_objects.look
        if look is None:
            self.validate()
        elif look(self._arrays, self.n_major, self.n_minor, self._checked) < 0:
            (indptr, indices, data), shape = map(np.ravel, self._arrays), (self.n_major, self.n_minor)
            if not stay_within(indptr, indices, data, shape):
                check_bounds(indptr, indices, data, shape, checked=False)
        elif not self._exported:
            self._checked = True

    def checked_arrays(self) -> tuple[NativeRows, tuple[Any, Any, Any]]:
        """Return rows and the arrays that were validated for them; another thread may replace these at any time."""
        while True:
            n_replaced = self.n_replaced
            rows = self.rows or self.validate()
            with REPLACING:
                indptr, indices, data = self._arrays
                is_same = self.n_replaced == n_replaced
            if is_same:
                return rows, (indptr, indices, data)

    def _is_structure_alone(self) -> bool:
        """Return whether no other object can reach the structure.

        SciPy's methods that drop entries replace arrays by views, whose bases the count before did not contain.
        """
        return self._is_alone(INDPTR) and self._is_alone(INDICES)

    def _pointed(self, codes: tuple[int, int], *, is_validated: bool) -> NativeRows:
        """Return the rows of the present arrays, which have these codes, and keep them for later products.

        While another object holds an exported array of the structure, it is checked at every product.
        """
        rows = self._known_rows
        if rows is None or (rows.dtype_code, rows.index_code) != codes:
            dtype = None if codes[0] < 0 else BUILTIN.get(self._arrays[DATA].dtype.char)
            rows = NativeRows(self.n_major, self.n_minor, dtype, codes)
            rows.indptr, rows.indices, rows.data = map(self._point, (INDPTR, INDICES, DATA))
            self._known_rows = rows  # assigned once it is complete, because another thread may use it
        if is_validated:
            self._checked, self._exported, self.rows = True, False, rows
        return rows

    def _codes_and_prints(self) -> tuple[int, int] | None:
        """Return `_codes` after hashing the structure; its version increases if it differs from the last look."""
        known = [None, None, None] if self._prints is NONE_YET else self._prints
        indptr = self._arrays[INDPTR]
        if indptr.size != self.n_major + 1 or not 0 <= indptr[-1] <= self._arrays[INDICES].size:
            return self._codes()  # raises the error that says what is wrong
        now = [self._print_of(field) for field in (INDPTR, INDICES)]
        if any(last is not None and not one.is_like(last) for one, last in zip(now, known, strict=False)):
            self._forget_structure()
        self._prints = known
        known[INDPTR] = known[INDICES] = UNHASHED  # an unchecked structure must not compare equal to a checked one
        codes = self._codes()
        known[INDPTR], known[INDICES] = now
        return codes

    def _codes(self) -> tuple[int, int] | None:
        """Return the codes of value and index dtype, after a bounds check; None if only SciPy can use the arrays."""
        indptr, indices, data = self._arrays
        if self._flat or not isinstance(data, np.ndarray) or not runtime_api.is_there():
            return None
        if python_objects.look is not None:
            code = python_objects.look(self._arrays, self.n_major, self.n_minor, self._checked)
            if code >= 0:
                dtype_code, index_code = code & 7, code >> 3
                return dtype_code if dtype_code < 4 else stored_code(data.dtype), index_code
        codes = stored_codes(indptr, indices, data)
        if codes is not None:
            check_bounds(indptr, indices, data, (self.n_major, self.n_minor), checked=self._checked)
        return codes

    def _point(self, field: int) -> Any:
        """Return a cffi pointer to a pointer to the array's memory."""
        found, is_live = pointer_to(self._arrays[field])
        self._known_rows = self._known_rows if is_live else None
        return found


def late_look_s(operand: Operand) -> float:
    """Return the seconds that a look, a pass over the arrays to detect writes, took lately; 0 before the first.

    It is the lesser of the last look's time and the average: the first looks of a process also load code.
    """
    return min(operand.look_ns, operand.smoothed_look_ns) * 1e-9


def expected_look_s(operand: object) -> float:
    """Return the expected seconds per product of detecting writes to the arrays; 0 if no other code can write them."""
    if not isinstance(operand, Operand) or not operand.is_exposed:
        return 0.0
    return late_look_s(operand) or (operand.structure_bytes + operand.data.nbytes) / _hashing_bytes_per_s()


def _hashing_bytes_per_s() -> float:
    """Return the assumed speed of hashing arrays, until a look has been timed. Few matrices need it, so it is late."""
    from autosparse.targets.priors import number

    return number("first look", "hashing bytes per s")


_N_MAJOR: Final[Any] = WatchedArrays.__dict__["n_major"]
_N_MINOR: Final[Any] = WatchedArrays.__dict__["n_minor"]


class UnfinishedOperand(Operand):
    """Operand of a matrix that no constructor filled in; it takes the matrix's shape when that is first needed.

    ``cls.__new__(cls)`` with assignments to the attributes makes such a matrix, and so do subclasses whose ``__init__``
    does not call SciPy's. After that the object's class becomes `Operand`: both classes have the same layout.
    """

    __slots__ = ()

    def __init__(self, owner: Any) -> None:  # Any: a matrix, of a higher layer
        super().__init__()
        self._pattern = weakref.ref(owner)  # type: ignore[assignment]  # the slot is free until the shape is known

    def _finished(self) -> Operand:
        """Return this operand, as an `Operand`, with the shape of its matrix."""
        owner: Any = self._pattern and self._pattern()  # type: ignore[operator]
        self.__class__ = Operand  # type: ignore[assignment]
        self._pattern = None
        if owner is not None:
            owner._finish()
        return self

    @property
    def n_major(self) -> int:
        """Number of compressed rows."""
        return self._finished().n_major

    @n_major.setter
    def n_major(self, n: int) -> None:
        _N_MAJOR.__set__(self, n)

    @property
    def n_minor(self) -> int:
        """Extent of the indices."""
        return self._finished().n_minor

    @n_minor.setter
    def n_minor(self, n: int) -> None:
        _N_MINOR.__set__(self, n)
