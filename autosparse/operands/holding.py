"""How a matrix or tensor holds its arrays: whose they are, and what they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from autosparse.operands.csr import Operand

if TYPE_CHECKING:
    from autosparse.operands.unfolding import AnyOperand

LOOK_BYTES_PER_S: Final = 2e10
"""Speed at which a look reads arrays, before one was timed."""


def late_look_s(operand: Operand) -> float:
    """Return the seconds of a look lately; 0 before the first. The first looks of a process load what they use."""
    return min(operand.look_ns, operand.smoothed_look_ns) * 1e-9


def expected_look_s(operand: AnyOperand | None) -> float:
    """Return the expected seconds per product of looks at arrays that others can write; 0 where nobody else can."""
    if not isinstance(operand, Operand) or not operand.is_exposed:
        return 0.0
    n_bytes = operand.structure_bytes + operand.data.nbytes
    return late_look_s(operand) or n_bytes / LOOK_BYTES_PER_S


class Holding(NamedTuple):
    """How a matrix or tensor holds its arrays, as `explain` tells it."""

    array_bytes: int
    copied_bytes: int | None  # by the constructor, of arrays of the caller; None: it took them as they were
    is_owned: bool  # nobody handed the arrays in, or nobody else holds them any more
    is_alone: bool  # nobody else can reach them now
    is_frozen: bool

    @classmethod
    def of(cls, operand: AnyOperand) -> Holding:
        """How things are now."""
        # A first look needs neither: the one imports scipy.sparse, which takes 0.15 s, the other what tensors need.
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
        """Bytes of arrays of the caller: those that are shared, or those that were copied, if they are kept."""
        return self.copied_bytes or 0 if self.is_owned else self.array_bytes
