"""Operand: the compressed rows behind a sparse array, shared by the array and its transpose, and watched for writes.

``M`` is stored as CSR: row i holds columns ``indices[indptr[i]:indptr[i+1]]``. For a csr array A = M, for a csc array
A = Mᵀ. Three questions, three prices: where are the arrays (`rows`: an attribute), is the structure within bounds (one
pass, after it was handed out), and did bytes change (`refresh`: nothing, or an xxh3 pass; see `mutation_guard`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autosparse._native import python_objects, runtime_api
from autosparse.config import get_options
from autosparse.operands.array_views import pointer_to, structure_sample
from autosparse.operands.native_rows import BUILTIN, NATIVE, NativeRows, check_bounds, plain_codes
from autosparse.operands.watched import DATA, INDICES, INDPTR, NEVER, NONE_YET, UNHASHED, AnyArray, WatchedArrays

if TYPE_CHECKING:
    from autosparse.core.pattern import Pattern

__all__ = ["DATA", "INDICES", "INDPTR", "NOT_SMALL_NS", "Operand"]

NOT_SMALL_NS: Final = 1_000_000
"""Time in products from which on their problem is thought about (`executor.few`)."""

SMALL_PRODUCT: Final = 1 << 14
"""Multiplications of a product that is not worth a second thread."""
SMALL_AT_FIRST: Final = 2 * SMALL_PRODUCT
"""The same for the first products of a matrix, which is often the last: a second thread saves less than state costs."""
FIRST: Final = 2
"""How many products those are."""

_BEGIN_NS: Final = 0 if python_objects.small_product is not None else NOT_SMALL_NS


class Operand(WatchedArrays):
    """Compressed rows of an ``n_major`` x ``n_minor`` matrix: indptr (n_major + 1,), indices and data (>= nnz,)."""

    __slots__ = (
        "_flat", "_pattern", "dispatcher", "fast_path", "small_product_ns", "n_small_products", "n_invalidated",
        "shared", "solver_memory",
    )  # fmt: skip

    dispatcher: Any  # Any: dispatch state, private to autosparse.dispatch
    fast_path: Any  # ... and its fast call (`dispatch.fast_path`)
    small_product_ns: int  # spent in products that nobody has thought about yet, n_small_products of them
    n_invalidated: int  # products that found arrays handed out or replaced
    shared: bool  # a transpose uses this operand too
    solver_memory: Any  # ... and of `autosparse.linalg`: vectors that solves work in
    _flat: bool  # one-dimensional sparse array
    _pattern: tuple[int, Pattern] | None

    def __init__(self) -> None:
        # Every sparse array has one, most are never multiplied: what only the guard needs is made when it first looks.
        self.n_major = self.n_minor = self.values_version = self.structure_version = 0
        self.n_small_products = self.n_invalidated = self._aliases_before = 0
        self.small_product_ns = _BEGIN_NS
        self.rows = self.dispatcher = self.fast_path = self.solver_memory = None
        self._known_rows = self._chunk_versions = self._native_watch = self._pattern = None
        self._invalidated_indptr = self._invalidated_indices = self._invalidated_data = None
        self._clean_indptr = self._clean_indices = self._clean_data = NEVER
        self.shared = self._flat = self._checked = self._is_rebound = self.frozen = False
        self.copied_bytes = None
        self.unvalidated = self._exported = True  # the constructor that fills it in may look at what it has put there
        self._arrays = [None, None, None]
        self._leased = self._anchors = self._prints = NONE_YET
        self._looks = (0, 0, 0, 0)

    @classmethod
    def over(cls, n_major: int, n_minor: int, arrays: list[Any], *, is_valid: bool) -> Operand:
        """Operand over [indptr, indices, data]: known to be within bounds and in nobody else's hands, or unread."""
        made = cls()
        made._arrays = arrays
        made.n_major, made.n_minor = n_major, n_minor
        made._checked, made.unvalidated = is_valid, not is_valid
        made._exported = False
        return made

    def share(self) -> Operand:
        """An operand over the same arrays, for one of two objects that part; the other keeps its dispatch state."""
        twin = Operand()
        twin._arrays = list(self._arrays)
        twin.copied_bytes, twin.frozen = self.copied_bytes, self.frozen
        twin.finish(self.n_major, self.n_minor, flat=self._flat)
        return twin

    def finish(self, n_major: int, n_minor: int, *, flat: bool = False) -> None:
        """Take the shape. Aliases that came with the arrays (of the object we were made from) are none of ours."""
        if (n_major, n_minor) != (self.n_major, self.n_minor):
            self._forget_structure()
        self.n_major, self.n_minor, self._flat = n_major, n_minor, flat
        if self._native_watch is not None:
            self._native_watch.retire()  # it is filled in anew by the next look
        self.rows = None
        self._exported = False
        if flat:
            self.small_product_ns = NOT_SMALL_NS

    def _forget_structure(self) -> None:
        self._pattern = self._known_rows = None
        self._checked = False
        self.rows = None
        self.structure_version += 1
        if self._native_watch is not None:
            self._native_watch.retire()

    @property
    def pattern(self) -> Pattern:
        """The structure as it is now (the guard looks first). StructureError when it is not within bounds."""
        return self.pattern_with(None)

    def pattern_with(self, hashes: tuple[int, int] | None) -> Pattern:
        """`pattern`, whose `structure_hashes` are known from elsewhere: from the process that sent the arrays."""
        from autosparse.core.pattern import Pattern  # tuning asks for it, products do not

        self.refresh()
        if self._pattern is None or self._pattern[0] != self.structure_version:
            made = Pattern(self.n_major, self.n_minor, self.indptr, self.indices[: self.nnz], hashes)
            self._pattern = (self.structure_version, made)
        return self._pattern[1]

    @property
    def known_hashes(self) -> tuple[int, int] | None:
        """`structure_hashes` of the structure as it was at the last look; None where nobody has asked for them."""
        is_known = self._pattern is not None and self._pattern[0] == self.structure_version
        return self._pattern[1].hashes if self._pattern is not None and is_known else None

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

    # -- the C side

    def small_product(self, B: AnyArray, out: AnyArray, transposed: bool, flags: int) -> bool:
        """Out = M @ B (or Mᵀ @ B) at once when that is a small product, checked as by `validate`; else False."""
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
        """Look at the arrays again after they were handed out: dtypes, layout, and bounds when those may have changed.

        Raises StructureError (a ValueError) for a structure that a kernel would follow out of bounds.
        """
        self.n_invalidated += 1  # products that find arrays handed out or replaced come here
        if self._native_watch is not None and self._native_watch.look(False, get_options().threads or 0):
            known = self._known_rows
            if known is not None:
                return known
        self.unvalidated = False
        # From the second time on: who reads the structure between products does so again, and then C compares hashes.
        takes_prints = not self._checked and self._known_rows is not None and self._can_be_watched()
        codes = self._codes_and_prints() if takes_prints else self._codes()
        if codes is None:
            self.small_product_ns = NOT_SMALL_NS
            return NativeRows(self.n_major, self.n_minor)
        is_back = not self._exported or self._n_aliases() <= self._aliases_before
        rows = self._known_rows
        if rows is None or (rows.dtype_code, rows.index_code) != codes:
            rows = NativeRows(self.n_major, self.n_minor, BUILTIN[self._arrays[DATA].dtype.char], codes)
            rows.indptr, rows.indices, rows.data = map(self._point, (INDPTR, INDICES, DATA))
            self._known_rows = rows  # not before it is whole: another thread would use it
        # While somebody keeps an array of the structure that we handed out, it is checked at every product.
        if self._checked or is_back:
            self._checked = True
            self._exported = False
            self.rows = rows
        if takes_prints:
            self._fill_in_watch()
        return rows

    def _codes_and_prints(self) -> tuple[int, int] | None:
        """`_codes`, and prints of the structure: raises its version when it is not what it was at the last look."""
        known = [None, None, None] if self._prints is NONE_YET else self._prints
        indptr = self._arrays[INDPTR]
        if indptr.size != self.n_major + 1 or not 0 <= indptr[-1] <= self._arrays[INDICES].size:
            return self._codes()  # which says what is wrong
        now = [self._print_of(field) for field in (INDPTR, INDICES)]
        if any(last is not None and not one.is_like(last) for one, last in zip(now, known, strict=False)):
            self._forget_structure()
        self._prints = known
        known[INDPTR] = known[INDICES] = UNHASHED  # nobody must take what is out of bounds for what was checked
        codes = self._codes()
        known[INDPTR], known[INDICES] = now
        return codes

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
