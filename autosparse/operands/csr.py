"""Operand: the compressed rows behind a sparse array, shared by the array and its transpose, and watched for writes.

``M`` is stored as CSR: row i holds columns ``indices[indptr[i]:indptr[i+1]]``. For a csr array A = M, for a csc array
A = Mᵀ. Three questions, three prices: where are the arrays (`rows`: an attribute), is the structure within bounds (one
pass, after it was handed out), and did bytes change (`refresh`: nothing, or an xxh3 pass; see `mutation_guard`).
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse._native import python_objects, runtime_api
from autosparse.operands import mutation_guard
from autosparse.operands.array_views import Lease, moved, pointer_to, same_memory, structure_sample
from autosparse.operands.native_rows import BUILTIN, NATIVE, NativeRows, check_bounds, plain_codes
from autosparse.operands.packed_copies import smoothed

if TYPE_CHECKING:
    from autosparse.core.pattern import Pattern

AnyArray = NDArray[Any]  # value arrays may have any dtype

INDPTR: Final = 0
INDICES: Final = 1
DATA: Final = 2

NOT_FEW_NS: Final = 1_000_000
"""Time in products from which on their problem is thought about (`executor.few`)."""

_BEGIN_NS: Final = 0 if python_objects.few is not None else NOT_FEW_NS
_NEVER: Final = object()  # clean since: not yet
_NONE_YET: Final = (None, None, None)


class Operand:
    """Compressed rows of an ``n_major`` x ``n_minor`` matrix: indptr (n_major + 1,), indices and data (>= nnz,)."""

    __slots__ = (
        "__weakref__", "_aliases_before", "_anchors", "_arrays", "_checked", "_clean_structure", "_clean_values",
        "_flat", "_handed_out", "_known_rows", "_leased", "_pattern", "_structure_print",
        "_touch_structure", "_touch_values", "_values_print", "copied_bytes", "dispatcher", "fast_path", "few_ns",
        "fresh", "frozen", "look_ns", "n_few", "n_looks", "n_major", "n_minor", "n_touched", "rows", "shared",
        "smoothed_look_ns", "structure_version", "values_version",
    )  # fmt: skip

    rows: NativeRows | None  # None: look again, `validate`
    dispatcher: Any  # Any: dispatch state, private to autosparse.dispatch
    fast_path: Any  # ... and its way past Python (`dispatch.fast_path`)
    few_ns: int  # spent in products that nobody has thought about yet, n_few of them
    shared: bool  # a transpose uses this operand too
    fresh: bool  # nobody has looked at the arrays: another one is put in place without a word (`arrays.fields`)
    copied_bytes: int | None  # of the caller's arrays, by the constructor; None: they were handed in, and may be shared
    frozen: bool  # the caller has promised that nobody writes to the arrays
    n_looks: int  # times that bytes were read to find writes, in `look_ns`, `smoothed_look_ns` of late
    _arrays: list[Any]  # the user's own objects: indptr, indices, data
    _known_rows: NativeRows | None  # as they were when last looked at, good while the array objects are the same
    _anchors: mutation_guard.Anchors | None
    _flat: bool  # one-dimensional sparse array
    _checked: bool  # structure is known to be within bounds
    _handed_out: bool  # an array of the structure was fetched, and may still be held, since the last check
    _aliases_before: int  # references to the arrays when that began
    # A touch stores None; a look stores a token of its own and calls it clean only while it is still there.
    _touch_values: object
    _touch_structure: object
    _clean_values: object
    _clean_structure: object
    _values_print: Any
    _structure_print: mutation_guard.StructurePrint | None
    _pattern: tuple[int, Pattern] | None

    def __init__(self) -> None:
        # Every sparse array has one, most are never multiplied: what only the guard needs is made when it first looks.
        self.n_major = self.n_minor = self.values_version = self.structure_version = 0
        self.n_few = self._aliases_before = self.n_touched = self.n_looks = self.look_ns = self.smoothed_look_ns = 0
        self.few_ns = _BEGIN_NS
        self.rows = self.dispatcher = self.fast_path = None
        self._known_rows = self._anchors = self._values_print = self._structure_print = self._pattern = None
        self._touch_values = self._touch_structure = None
        self._clean_values = self._clean_structure = _NEVER
        self.shared = self._flat = self._checked = self.frozen = False
        self.copied_bytes = None
        self.fresh = self._handed_out = True  # the constructor that fills it in may look at what it has put there
        self._arrays = [None, None, None]
        self._leased: Any = _NONE_YET  # Any: of three arrays of ours, from the first one on

    @classmethod
    def over(cls, n_major: int, n_minor: int, arrays: list[Any], *, is_valid: bool) -> Operand:
        """Operand over [indptr, indices, data]: known to be within bounds and in nobody else's hands, or unread."""
        made = cls()
        made._arrays = arrays
        made.n_major, made.n_minor = n_major, n_minor
        made._checked, made.fresh = is_valid, not is_valid
        made._handed_out = False
        return made

    # -- the arrays, as the user's object hands them out and takes them

    def fetch(self, field: int) -> Any:
        """The user's own array object; from now on it may be written."""
        if self.frozen:
            return self._arrays[field]
        if field == DATA:
            self._touch_values = None
        else:
            self._touch_structure = None
            self._checked = False
            if not self._handed_out:
                self._handed_out = True
                self._aliases_before = self._n_aliases()
        self.rows = None
        return self._arrays[field]

    def peek(self, field: int) -> Any:
        """The user's own array object, for reading within one call: it must not leave our code."""
        return self._arrays[field]

    def rebind(self, field: int, value: Any) -> None:
        """Put another array in place; a version rises unless it is the same memory."""
        if self.fresh:
            self._arrays[field] = value
            return
        old = self.fetch(field)
        if value is old or same_memory(value, old):
            return
        if self.frozen:
            self.frozen, self._touch_values, self._touch_structure = False, None, None
        self.copied_bytes = self.rows = None
        self._arrays[field] = value
        if self._leased is not _NONE_YET:
            self._leased[field] = None
        self._known_rows = self._anchors = None
        if field == DATA:
            self._values_print = None
            self.values_version += 1
        else:
            self._forget_structure()

    def fork(self) -> Operand:
        """An operand over the same arrays, for one of two objects that part; the other keeps its dispatch state."""
        twin = Operand()
        twin._arrays = list(self._arrays)
        twin.copied_bytes, twin.frozen = self.copied_bytes, self.frozen
        twin.settle(self.n_major, self.n_minor, flat=self._flat)
        return twin

    def freeze(self) -> None:
        """Take the caller's promise that nobody writes to the arrays: no look, and views of them that are read-only."""
        self._arrays = [array.view() for array in self._arrays]
        for array in self._arrays:
            array.flags.writeable = False
        self._leased, self._known_rows, self._anchors = _NONE_YET, None, None
        self.frozen, self.fresh = True, False

    @property
    def is_alone(self) -> bool:
        """Whether nobody else can reach the arrays now."""
        return mutation_guard.is_alone(self._anchors or self._anchor())

    def settle(self, n_major: int, n_minor: int, *, flat: bool = False) -> None:
        """Take the shape. Aliases that came with the arrays (of the object we were made from) are none of ours."""
        if (n_major, n_minor) != (self.n_major, self.n_minor):
            self._forget_structure()
        self.n_major, self.n_minor, self._flat = n_major, n_minor, flat
        self.rows = None
        self._handed_out = False
        if flat:
            self.few_ns = NOT_FEW_NS

    def _forget_structure(self) -> None:
        self._structure_print = self._pattern = self._known_rows = None
        self._checked = False
        self.rows = None
        self.structure_version += 1

    # -- the arrays, as our own code uses them: live read-only views that the guard does not take for aliases

    @property
    def indptr(self) -> AnyArray:
        """Row starts, (n_major + 1,)."""
        return self._lease(INDPTR)

    @property
    def indices(self) -> AnyArray:
        """Columns, (>= nnz,)."""
        return self._lease(INDICES)

    @property
    def data(self) -> AnyArray:
        """Values, (>= nnz,)."""
        return self._lease(DATA)

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return int(self._arrays[INDPTR][-1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        dtype: np.dtype[Any] = self._arrays[DATA].dtype
        return dtype

    @property
    def pattern(self) -> Pattern:
        """The structure as it is now (the guard looks first). StructureError when it is not within bounds."""
        from autosparse.core.pattern import Pattern  # tuning asks for it, products do not

        self.refresh()
        if self._pattern is None or self._pattern[0] != self.structure_version:
            known, indices = self._structure_print and self._structure_print.known, self.indices[: self.nnz]
            self._pattern = (self.structure_version, Pattern(self.n_major, self.n_minor, self.indptr, indices, known))
        return self._pattern[1]

    def _lease(self, field: int) -> AnyArray:
        self.fresh = False
        array = self._arrays[field]
        leased: AnyArray | None = self._leased[field]
        if leased is None or moved(leased, array):
            if self._leased is _NONE_YET:
                self._leased = [None, None, None]
            leased = self._leased[field] = np.asarray(Lease(array))
            self._anchors = None  # the lease is one more reference that is ours
        return leased

    @property
    def structure_bytes(self) -> int:
        """Bytes of the index arrays, about."""
        return self.nnz * int(self.indices.itemsize)

    def structure_sample(self) -> bytes:
        """See `array_views.structure_sample`."""
        return structure_sample(self)

    def pin(self) -> None:
        """Until `unpin` the arrays are read between products too: nothing to do where the operand owns them."""

    def unpin(self) -> None:
        """Undo one `pin`."""

    # -- the guard

    @property
    def anchors(self) -> mutation_guard.Anchors | None:
        """The array objects whose references are counted; None before the first `refresh`."""
        return self._anchors

    @property
    def is_untouched(self) -> bool:
        """Whether `refresh` would find at once that nothing can have been written since the last look."""
        anchors = self._anchors
        return (
            anchors is not None
            and self._touch_values is self._clean_values
            and self._touch_structure is self._clean_structure
            and mutation_guard.reference_total(anchors.arrays) == anchors.expected
        )

    @property
    def is_exposed(self) -> bool:
        """Whether others can write the arrays unseen, so that no look is good for the next product, too."""
        anchors = self._anchors or self._anchor()
        return not (self.frozen or (self.is_alone and not mutation_guard.has_weak_references(anchors)))

    def refresh(self) -> None:
        """Bring `values_version` and `structure_version` up to date with every write made before this call.

        Raises StructureError when the structure was changed and is not within bounds.
        """
        if not self.is_untouched:
            self._look()

    def _look(self) -> None:
        """Compare fingerprints. Safe in several threads at once without a lock: whoever sees a difference raises it."""
        if self.rows is None:
            self.validate()
        if self.frozen:
            self._anchors = self._anchors or self._anchor()
            self._clean_values, self._clean_structure = self._touch_values, self._touch_structure
            return
        start_ns, token = perf_counter_ns(), object()
        values_touched = self._touch_values is not self._clean_values
        structure_touched = self._touch_structure is not self._clean_structure
        self._touch_values = self._touch_structure = token
        # Asked before the bytes are read: an alias that is gone by now has done all the writing it will do.
        alone = not self.is_exposed
        if structure_touched or not alone:
            self._compare_structure()
        if values_touched or structure_touched or not alone:
            self._compare_values()
        if alone:
            self._clean_values = self._clean_structure = token
        self.n_looks, self.look_ns = self.n_looks + 1, perf_counter_ns() - start_ns
        self.smoothed_look_ns = smoothed(self.smoothed_look_ns, self.look_ns)

    def _compare_structure(self) -> None:
        indptr, indices, _ = self._arrays
        now = mutation_guard.StructurePrint.of(indptr, indices[: self.nnz])
        if now != self._structure_print:
            if self._structure_print is not None:
                self._forget_structure()
                self.validate()
            self._structure_print = now

    def _compare_values(self) -> None:
        now = mutation_guard.fingerprint(self._arrays[DATA][: self.nnz])
        if now != self._values_print:
            self.values_version += self._values_print is not None
            self._values_print = now

    def _anchor(self) -> mutation_guard.Anchors:
        anchors = mutation_guard.Anchors((), 0) if self.frozen else mutation_guard.anchors_of(self._arrays)
        if anchors.expected != mutation_guard.NEVER_ALONE:
            watched = set(map(id, anchors.arrays))
            n_leased = sum(
                leased is not None and id(array) in watched
                for array, leased in zip(self._arrays, self._leased, strict=True)
            )
            anchors = anchors._replace(expected=anchors.expected + n_leased)
        self._anchors = anchors
        return anchors

    def _n_aliases(self) -> int:
        """References to the arrays beyond our own, up to a constant; meant to be called with no array in a local."""
        anchors = self._anchors
        if anchors is None and mutation_guard.are_nested(self._arrays):
            anchors = self._anchor()
        own = self._n_leased()
        if anchors is not None:
            own += len(anchors.arrays) - anchors.n_beneath - mutation_guard.n_others_beneath(anchors)
        if python_objects.references is None:
            return mutation_guard.count_references(self._arrays, own=own)
        n: int = python_objects.references(self._arrays)
        return n - own

    def _n_leased(self) -> int:
        return 0 if self._leased is _NONE_YET else sum(leased is not None for leased in self._leased)

    # -- the C side

    def multiply_few(self, B: AnyArray, out: AnyArray, transposed: bool, flags: int) -> bool:
        """Out = M @ B (or Mᵀ @ B) at once when that is a small product, checked as by `validate`; else False."""
        took_ns = python_objects.few(self._arrays, self.n_major, self.n_minor, self._checked, B, out, transposed, flags)
        if took_ns < 0:
            return False
        self.fresh = False
        if not self._handed_out:
            self._checked = True
        self.n_few += 1
        self.few_ns += took_ns
        return True

    def validate(self) -> NativeRows:
        """Look at the arrays again after they were handed out: dtypes, layout, and bounds when those may have changed.

        Raises StructureError (a ValueError) for a structure that a kernel would follow out of bounds.
        """
        self.fresh = False
        self.n_touched += 1  # products that find arrays handed out or replaced come here
        codes = self._codes()
        if codes is None:
            self.few_ns = NOT_FEW_NS
            return NativeRows(self.n_major, self.n_minor)
        is_back = not self._handed_out or self._n_aliases() <= self._aliases_before
        rows = self._known_rows
        if rows is None or (rows.dtype_code, rows.index_code) != codes:
            rows = NativeRows(self.n_major, self.n_minor, BUILTIN[self._arrays[DATA].dtype.char], codes)
            rows.indptr, rows.indices, rows.data = map(self._point, (INDPTR, INDICES, DATA))
            self._known_rows = rows  # not before it is whole: another thread would use it
        # While somebody keeps an array of the structure that we handed out, it is checked at every product.
        if self._checked or is_back:
            self._checked = True
            self._handed_out = False
            self.rows = rows
        return rows

    def _codes(self) -> tuple[int, int] | None:
        """Codes of the dtypes of arrays that our kernels take and that are within bounds; None: SciPy computes."""
        indptr, indices, data = self._arrays
        if self._flat or not isinstance(data, np.ndarray) or data.dtype.char not in NATIVE:
            return None
        if not runtime_api.is_there():
            return None
        if python_objects.look is not None:
            code = python_objects.look(self._arrays, self.n_major, self.n_minor, self._checked)
            if code >= 0:
                return code & 3, code >> 2
        codes = plain_codes(indptr, indices, data)
        if codes is not None:
            check_bounds(indptr, indices, data, (self.n_major, self.n_minor), checked=self._checked)
        return codes

    def _point(self, field: int) -> Any:
        """Cffi pointer to a pointer to the array's memory."""
        found, is_live = pointer_to(self._arrays[field])
        self._known_rows = self._known_rows if is_live else None
        return found
