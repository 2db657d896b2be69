"""Trials by role: the default kernel's, and the base class of those whose kernels may serve users' products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosparse.core.solver import DEFAULT, Choice
from autosparse.core.values import dataclass
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once

if TYPE_CHECKING:
    from autosparse.core.composite import Schedule
    from autosparse.operands.packed_copies import PackedCopy
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuner.search.trial import Trial as _Trial
    from autosparse.tuning.trials.service import Service
else:
    _Trial = object  # remembered plans, which load no search, have such trials too


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


@dataclass(slots=True, eq=False)
class ServedTrial(_Trial):
    """Base class of trials whose kernels may serve users' products; see `dispatch.protocols.Serving`."""

    choice: Choice
    context: Any  # Any: what makes the trial, such as a `TuningContext`
    failed: str | None = None
    lacks_memory: bool = False
    packed_bytes: int = 0
    build_s: float = 0.0
    pack_s: float = 0.0
    packed_copy: PackedCopy | None = None
    service: Service | None = None  # choice of the plan that uses the trial; None: a candidate
    looked_ns: int = 0  # ns of write checks and repacking in the last product
    _bound: Any = None  # Any: a `dispatch.protocols.Bound`, or a bound solver

    @property
    def schedule(self) -> Schedule | None:
        """Schedule that the kernel computes; None for solvers with knobs of their own."""
        return self.choice.schedule

    @property
    def ready(self) -> bool:
        """Return whether the trial can compute a product now."""
        return self.failed is None and self._bound is not None

    @property
    def bound(self) -> Any:  # Any: a `dispatch.protocols.Bound`
        """The kernel with its operand; None until there is one."""
        return self._bound

    @property
    def bound_to(self) -> tuple[Any, ...] | None:
        """Shape and addresses of the user's arrays that a kernel without a packed copy is bound to."""
        return None

    def run(self, operand: AnyOperand, call: Any) -> bool:  # Any: a `dispatch.protocols.Call`
        """Compute a product; return False if this kernel cannot compute it."""
        raise NotImplementedError

    def _break(self, err: BaseException, what: str) -> None:
        """End the trial, whose kernel failed in a user's product; `what` names the kernel in the warning."""
        self.failed = f"{type(err).__name__}: {err}".split("\n", 1)[0]
        self.drop()
        event("fallback", self.failed, error=err)
        warn_once(FallbackWarning, "run", f"{what} failed, the default kernel is used: {self.failed}")


def served_of(trial: object) -> ServedTrial | None:
    """Return `trial` if its kernel may serve products; None for the default kernel's trial and for no trial."""
    return trial if isinstance(trial, ServedTrial) else None
