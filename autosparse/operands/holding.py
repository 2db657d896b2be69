"""Ownership and memory of the arrays of a matrix or tensor, for `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from autosparse.operands.unfolding import AnyOperand


class Holding(NamedTuple):
    """Ownership and bytes of the arrays of a matrix or tensor, as `explain` reports them."""

    array_bytes: int
    copied_bytes: int | None  # bytes of the caller's arrays that the constructor copied; None: it did not copy
    is_owned: bool  # no caller passed the arrays in, or no other object holds them any more
    is_alone: bool  # no other object can reach them now
    is_frozen: bool

    @classmethod
    def of(cls, operand: AnyOperand) -> Holding:
        """Return the present ownership of the arrays of `operand`."""
        # Imported late: the first takes 0.15 s (scipy.sparse), the second is for tensors only.
        from autosparse.operands.ownership import owns_arrays
        from autosparse.operands.unfolding import TensorEntries, Unfolding

        holder = operand.entries if isinstance(operand, Unfolding) else operand
        is_owned, is_alone = owns_arrays(holder), holder.is_alone
        arrays = (holder.coords, holder.peek()) if isinstance(holder, TensorEntries) else map(holder.peek, range(3))
        return cls(
            sum(getattr(array, "nbytes", 0) for array in arrays), holder.copied_bytes, is_owned, is_alone, holder.frozen
        )

    @property
    def own_bytes(self) -> int:
        """Bytes of arrays that belong to the matrix."""
        return self.array_bytes if self.is_owned else 0

    @property
    def caller_bytes(self) -> int:
        """Bytes of the caller's arrays: those that are shared, or the originals of those that were copied."""
        return self.copied_bytes or 0 if self.is_owned else self.array_bytes
