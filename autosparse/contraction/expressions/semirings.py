"""Semirings of einsum: the operations that take the places of addition and multiplication, and their zero.

An einsum is ``R[o] = ⊕ ⊗_n T_n[...]``, where ⊕ runs over the indices that the output lacks. Its programs hold in every
commutative semiring, because they only use that ⊕ and ⊗ are associative and commutative and that ⊗ distributes over ⊕.
The zero of the semiring is neutral to ⊕ and annihilates ⊗, so that terms with an entry that is not stored are left out.
"""

# No `from __future__ import annotations`: a NamedTuple would then compile each annotation string at import.

from typing import Any, Final, NamedTuple

import numpy as np

from autosparse.contraction.kinds import AnyArray
from autosparse.core.dtypes import Real
from autosparse.errors import EinsumError

PLUS_TIMES: Final = "plus_times"
"""Name of the default semiring, ordinary addition and multiplication."""


class Semiring(NamedTuple):
    """Semiring of einsum: ⊕ and ⊗ as NumPy functions and in generated source, and the zero."""

    name: str
    says: str
    """Formula of one result, for explanations."""
    add: np.ufunc
    multiply: np.ufunc
    zero: Any
    operator: str
    """Infix operator for ⊗ in C and in Python."""
    c_sum: str
    """C expression for ``a ⊕ b``."""
    python_sum: str
    """Python expression for ``a ⊕ b``."""
    has_negatives: bool = True
    """False if the zero is neutral to ⊕ among values that are not negative only."""

    @property
    def is_ordinary(self) -> bool:
        """Return whether this is ordinary addition and multiplication."""
        return self.name == PLUS_TIMES

    def dtype(self, given: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of computation and result for operands of the common dtype `given`.

        "or_and" computes in booleans. The semirings with an infinite zero convert integers and booleans to float64.
        Semirings that compare values raise EinsumError for complex numbers and objects, which have no order.
        """
        if self.name == "or_and":
            return np.dtype(bool)
        if self.is_ordinary:
            return given
        if given.kind not in "biuf":
            raise EinsumError.refused(
                f"semiring {self.name!r} compares values, and {given} has no order", hint="pass real operands"
            )
        is_promoted = given.kind != "f" and np.isinf(self.zero)
        return np.dtype(Real) if is_promoted else given

    def check_dtype(self, wanted: np.dtype[Any]) -> None:
        """Raise EinsumError if the semiring cannot compute in the dtype `wanted`."""
        if self.dtype(wanted) != wanted:
            raise EinsumError.refused(
                f"semiring {self.name!r} computes in {self.dtype(wanted)}, not in {wanted}", hint="omit dtype"
            )

    def check(self, values: AnyArray) -> None:
        """Raise EinsumError if `values` lie outside of the semiring's domain."""
        if (
            not self.has_negatives
            and values.dtype.kind in "if"
            and values.size
            and np.fmin.reduce(values, axis=None) < 0
        ):
            raise EinsumError.refused(
                f"semiring {self.name!r} is defined for values that are not negative",
                "An operand holds a negative value, and 0 stands for entries that are not stored.",
                hint="use semiring='max_plus' on the logarithms",
            )

    def filled(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> AnyArray:
        """Return an array of zeros of the semiring."""
        return np.full(shape, self.zero, dtype)


_MIN: Final = "a < b || a != a ? a : b"
_MAX: Final = "a > b || a != a ? a : b"
"""C expressions of ``np.minimum`` and ``np.maximum``, which return NaN if a or b is NaN."""

SEMIRINGS: Final[dict[str, Semiring]] = {
    one.name: one
    for one in (
        Semiring(PLUS_TIMES, "sum of products", np.add, np.multiply, 0, "*", "a + b", "a + b"),
        Semiring(
            "min_plus", "minimum of sums", np.minimum, np.add, np.inf, "+", _MIN, "a if a < b or a != a else b"
        ),
        Semiring(
            "max_plus", "maximum of sums", np.maximum, np.add, -np.inf, "+", _MAX, "a if a > b or a != a else b"
        ),
        Semiring(
            "max_times", "maximum of products", np.maximum, np.multiply, 0, "*", _MAX, "a if a > b or a != a else b",
            has_negatives=False,
        ),
        Semiring("or_and", "whether a conjunction holds", np.logical_or, np.logical_and, False, "&", "a | b", "a | b"),
    )
}  # fmt: skip
"""Semirings by the name that `einsum` takes."""


def named(name: object) -> Semiring:
    """Return the semiring called `name`; raise EinsumError if there is none."""
    found = SEMIRINGS.get(name) if isinstance(name, str) else None
    if found is None:
        raise EinsumError.refused(f"unknown semiring {name!r:.80}", hint=f"use {', '.join(map(repr, SEMIRINGS))}")
    return found


def added_runs(values: AnyArray, starts: AnyArray, semiring: Semiring) -> AnyArray:
    """Return the ⊕ of each run of values that begins at one of `starts`; of booleans whether any is true."""
    how = np.logical_or if values.dtype == bool else semiring.add
    return np.asarray(how.reduceat(values, starts), dtype=values.dtype)


def added_along(array: AnyArray, axes: tuple[int, ...], semiring: Semiring) -> AnyArray:
    """Return the ⊕ of `array` along `axes`, the semiring's zero where an axis is empty."""
    return np.asarray(semiring.add.reduce(array, axis=axes, initial=semiring.zero)) if axes else array
