"""Operators with one of SciPy's own matrices on the left: the result is of our class.

Python asks the right operand first where its class is derived from the left operand's class, as ours are from SciPy's
of the same format. Operands of other formats are SciPy's (`asp.install` has an answer for these).
"""

from __future__ import annotations

from typing import Any, ClassVar


class Reflected:
    """``m + A``, ``m - A``, ``m * A`` and ``m @ A`` of a plain `m` of A's format."""

    __slots__ = ()

    _plain_class: ClassVar[type]
    _twin: ClassVar[Any]

    def _joined(self, other: Any) -> Any:
        """`other`, an object of SciPy's class under this one, as a matrix of ours over the same arrays; else None."""
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
