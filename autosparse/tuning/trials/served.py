"""Trials by role: the default kernel's, and the base class of those whose kernels may serve users' products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosparse.core.solver import DEFAULT, Choice

if TYPE_CHECKING:
    from autosparse.core.composite import Schedule
    from autosparse.operands.packed_copies import PackedCopy
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.trials.service import Service


class DefaultTrial:
    """Trial of the default kernel, which is always ready and holds nothing."""

    __slots__ = ()

    choice = DEFAULT
    schedule = None
    failed = None
    lacks_memory = False
    packed_bytes = 0
    build_s = pack_s = 0.0
    ready = reads_live = True
    packed_copy = None

    def build_price_s(self) -> float:
        """Return 0: the kernel was compiled at installation."""
        return 0.0

    def pack_price_s(self) -> float:
        """Return 0: the kernel reads the user's arrays."""
        return 0.0

    def build(self) -> None:
        """Do nothing."""

    def pack(self) -> None:
        """Do nothing."""

    def drop(self) -> None:
        """Do nothing."""


class ServedTrial:
    """Base class of trials whose kernels may serve users' products; see `dispatch.protocols.Serving`."""

    choice: Choice
    context: Any  # Any: what makes the trial, such as a `TuningContext`
    failed: str | None
    lacks_memory: bool
    packed_bytes: int
    build_s: float
    pack_s: float
    packed_copy: PackedCopy | None
    service: Service | None
    looked_ns: int

    @property
    def schedule(self) -> Schedule | None:
        """Schedule that the kernel computes; None for solvers with knobs of their own."""
        return self.choice.schedule

    @property
    def reads_live(self) -> bool:
        """Return whether the kernel reads the user's own arrays, so that nothing is packed and nothing can be stale."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        """Return whether the trial can compute a product now."""
        raise NotImplementedError

    @property
    def bound(self) -> Any:  # Any: a `dispatch.protocols.Bound`
        """The kernel with its operand; None until there is one."""
        raise NotImplementedError

    @property
    def bound_to(self) -> tuple[Any, ...] | None:
        """Shape and addresses of the user's arrays that a kernel without a packed copy is bound to."""
        raise NotImplementedError

    def build_price_s(self) -> float:
        """Return the expected seconds of `build`."""
        raise NotImplementedError

    def pack_price_s(self) -> float:
        """Return the expected seconds of `pack`, including its comparison of results."""
        raise NotImplementedError

    def build(self) -> None:
        """Make the kernel; a failure sets `failed`."""
        raise NotImplementedError

    def pack(self) -> None:
        """Prepare the operand, bind it to the kernel, and compare the kernel's result; a failure sets `failed`."""
        raise NotImplementedError

    def drop(self) -> None:
        """Release what was prepared; the trial can be packed again."""
        raise NotImplementedError

    def run(self, operand: AnyOperand, call: Any) -> bool:  # Any: a `dispatch.protocols.Call`
        """Compute a product; return False if this kernel cannot compute it."""
        raise NotImplementedError


def served_of(trial: object) -> ServedTrial | None:
    """Return `trial` if its kernel may serve products; None for the default kernel's trial and for no trial."""
    return trial if isinstance(trial, ServedTrial) else None
