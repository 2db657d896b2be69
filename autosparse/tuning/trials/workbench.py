"""Workbench: what a trial needs of the lab that made it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from autosparse.core.problem import Problem

if TYPE_CHECKING:
    from autosparse.core.composite import Schedule
    from autosparse.dispatch.protocols import Kernel
    from autosparse.operands.packed_copies import PackedCopyCache
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.memory.history import Experience
    from autosparse.tuning.trials.handling import Handling


class Workbench(Protocol):
    """Builds kernels of one problem on one operand, and knows their prices; see `lab.KernelLab`."""

    problem: Problem
    experience: Experience
    packed_copies: PackedCopyCache
    structure_version: int
    is_stale: bool

    @property
    def handling(self) -> Handling:
        """How the sparse operand is packed."""

    @property
    def limit_bytes(self) -> int:
        """Upper bound on the bytes of packed copies of this operand."""

    def operand(self) -> AnyOperand | None:
        """The operand, while somebody holds it."""

    def n_threads(self) -> int:
        """Threads that a kernel may use now."""

    def loaded(self, schedule: Schedule) -> Kernel | None:
        """The kernel of `schedule` where this process has it mapped."""

    def is_built(self, schedule: Schedule) -> bool:
        """Whether the kernel of `schedule` needs no compiler."""

    def build(self, trials: Sequence[Any]) -> None:  # Any: KernelTrial, which imports this
        """Compile the kernels of several trials."""

    def compare_price_s(self, schedule: Schedule | None = None) -> float:
        """Expected seconds of comparing a kernel's result with the default one's."""

    def note_wrong(self, trial: Any, difference: str) -> None:  # Any: KernelTrial
        """Remember that the kernel of `trial` computes something else than the default kernel."""
