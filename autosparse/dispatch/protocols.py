"""Protocols of kernels, trials and tuning for dispatch, which imports none of their implementations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from autosparse.core.plan import Plan
    from autosparse.operands.packed_copies import PackedCopy
    from autosparse.operands.unfolding import AnyOperand


class HasDtype(Protocol):
    """Protocol of objects that have the dtype of a computation: the operand's rows, or a dense operand."""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of the computation; None: no kernels support it."""


class Bound(Protocol):
    """Protocol of a kernel with its operand, which several threads may call."""

    @property
    def packed(self) -> Any:  # Any: of the operation's own kind
        """Packed operand that the kernel reads."""

    @property
    def has_fast_call(self) -> bool:
        """Return whether fast calls support the kernel, so that `enter` can fill them in."""

    @property
    def enter(self) -> Callable[[Any], None]:
        """Function that writes the kernel's arguments into a fast call (see `has_fast_call`)."""

    @property
    def run(self) -> Callable[..., bool]:
        """Function that computes a call's result; False means an untrusted result (`_native.kernels.kernel`)."""


class Call(Protocol):
    """Protocol of the call objects of all operations (`dispatch.calls`)."""

    rows: Any  # Any: NativeRows for matrices, None for tensors
    n_vecs: int
    kept: Any  # arrays behind the addresses; in calls on synthetic operands the result is last

    @property
    def suits_generated(self) -> bool:
        """Return whether generated kernels support the layout of these operands."""

    def by_default(self, n_threads: int, flags: int) -> int:
        """Compute by the kernel that was compiled at installation, and return its status."""

    def by(self, bound: Bound, n_threads: int) -> bool:
        """Compute by the kernel `bound`; return False when the result is not to be trusted (see `BoundKernel.run`)."""


class Kernel(Protocol):
    """Protocol of the machine code for a spec, which is never unloaded."""

    @property
    def address(self) -> int:
        """Address that identifies the code within this process."""

    def bind(self, packed: Any) -> Bound:  # Any: each operation's own kind, which `_native.kernels.kernel` overloads
        """Return the kernel bound to a packed operand of the kind and format that it was made for."""


class Problems(Protocol):
    """Protocol of the tuning context of a trial: the part that tells whether its problem is still the operand's."""

    @property
    def structure_version(self) -> int:
        """Version of the operand's structure that the problem was made from."""

    @property
    def is_stale(self) -> bool:
        """Return whether the matrix is known to have changed, so that it no longer is the problem that was tuned."""


class Serving(Protocol):
    """Protocol of a tuned kernel that may compute products (`tuning.trials.kernel_trial.KernelTrial`)."""

    failed: str | None
    looked_ns: int  # nanoseconds of the last product that were spent on guard checks and repacking

    @property
    def service(self) -> Any:  # Any: a `tuning.trials.service.Service`
        """Service that decides whether the packed copy pays; None for candidates and kernels without a packed copy."""

    @property
    def context(self) -> Problems:
        """Tuning context that made the trial."""

    @property
    def packed_copy(self) -> PackedCopy | None:
        """Packed copy that the kernel reads; None: it reads the user's own arrays."""

    @property
    def bound(self) -> Bound | None:
        """Kernel with its operand, once it is bound."""

    @property
    def bound_to(self) -> tuple[Any, ...] | None:
        """Shape and addresses of the user's arrays that a kernel without a packed copy reads."""

    def run(self, operand: AnyOperand, call: Call) -> bool:
        """Compute the call's result; return False when this kernel cannot serve this product."""


class FastCall(Protocol):
    """Protocol of a fast path of one state (`dispatch.fast_path.FastPath`)."""

    has_served: bool

    @property
    def trial(self) -> Serving | None:
        """Tuned kernel that the fast path calls; None: the default kernel."""

    @property
    def run(self) -> Callable[..., bool]:
        """Function (operand, B, out, decisive options, transposed) -> whether out holds the product."""

    def leads(self, state: Any, rows: Any, n_dims: int, n_vecs: int) -> bool:
        """Return whether the fast path was made for these rows, kernel and shape, and is not retired."""

    def took_ns(self, *product: object) -> int | None:
        """Compute a product and return its nanoseconds; None where the fast path did not serve."""

    def commit(self, state: Any) -> None:
        """Add the products that were served to the state's counts."""

    def close(self) -> None:
        """Serve nothing until `commit` is called again."""

    def retire(self) -> None:
        """Serve nothing any more."""

    def forget_threads(self) -> None:
        """Reset the running products in a forked child, where other threads do not exist."""


class FirstRace(Protocol):
    """Protocol of a race before the modules of tuning are loaded (`tuning.memory.early.EarlyRace`)."""

    spent_s: float  # seconds that the race has cost
    default_s: float  # seconds of one product by the default kernel
    ratio: float  # default kernel's time over that of the kernel that serves
    is_won: bool
    check_ns: float  # product time (ns) of the state from which on a kernel races once more, or is noted
    has_candidate: bool  # whether a shipped kernel suits the matrix

    @property
    def is_racing(self) -> bool:
        """Return whether products are samples now."""

    def look(self, state: Any, operand: Any, served_by: object, took_s: float) -> None:
        """Take a product as a sample, and choose the next product's kernel."""

    def check(self, state: Any, operand: Any) -> None:
        """Let the winner, or a loser, race once more, if that is due."""

    def finish(self, state: Any) -> None:
        """Note the winner at the end of the process, if it has saved the cost of its race."""

    def saved_s(self, tuned_ns: float) -> float:
        """Return the seconds that products of `tuned_ns` by the winner saved."""

    def retire(self, state: Any) -> None:
        """End the race or the service of its winner."""

    def plan(self, state: Any) -> Plan:
        """Return the plan of a race that was won, whose winner serves `state`."""

    def expand(self, state: Any, operand: Any) -> Any:
        """Let a trial that a search can use serve in place of the winner."""

    def forget_threads(self) -> None:
        """Reset what other threads held in a forked child."""


class Tuning(Protocol):
    """Protocol of the tuning of one state's problem (`tuning.live.LiveTuner`)."""

    tuning_s: float  # seconds that this process spent on tuning the problem

    @property
    def waits_for_pay(self) -> bool:
        """Return whether the next step costs more than the budget that products have earned so far."""

    def lend(self, state: Any) -> None:  # Any: a DispatchState
        """Let the plan also serve products of `state`, where its options allow that plan."""

    def spent_and_saved_s(self) -> tuple[float, float]:
        """Return the seconds that this process spent on tuning the problem, and those that tuned kernels saved."""

    def forget_threads(self) -> None:
        """Mark tuning by other threads as ended in a forked child."""
