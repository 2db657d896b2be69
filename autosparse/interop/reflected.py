"""Operators with a plain SciPy matrix on the left and an autosparse matrix on the right.

Python calls the right operand first if its class derives from the left operand's class, as autosparse's classes do from
SciPy's of the same format. If the left operand has another format, SciPy computes (unless `asp.install` is active).
"""

from __future__ import annotations

from typing import Any, ClassVar


class Reflected:
    """Mixin for ``m + A``, ``m - A``, ``m * A`` and ``m @ A`` of a plain `m` of A's format; results have A's class."""

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
