"""What dispatch needs of kernels, trials and tuning, whoever made them: it imports none of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from autosparse.operands.packed_copies import PackedCopy
    from autosparse.operands.unfolding import AnyOperand


class HasDtype(Protocol):
    """Whatever tells the dtype that is computed in: the operand's rows, a dense operand."""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """None: not for our kernels."""


class Bound(Protocol):
    """A kernel with its operand, ready to be called from several threads."""

    @property
    def packed(self) -> Any:  # Any: of the operation's own kind
        """What it reads of the sparse operand."""

    @property
    def has_fast_call(self) -> bool:
        """Whether products may go to it by a fast call: `enter` writes what `run` hands over into a fast path's
        record.
        """

    @property
    def enter(self) -> Callable[[Any], None]:
        """See `has_fast_call`."""

    @property
    def run(self) -> Callable[..., bool]:
        """Compute a call's result from its arguments; False when it cannot be trusted (`_native.kernels.kernel`)."""


class Call(Protocol):
    """What every operation's call can do."""

    rows: Any  # Any: NativeRows of matrices, nothing for tensors
    n_vecs: int
    kept: Any  # what its addresses are of; of calls on synthetic operands the result comes last

    @property
    def suits_generated(self) -> bool:
        """Whether generated kernels take operands that lie like these."""

    def by_default(self, n_threads: int, flags: int) -> int:
        """Compute by the kernel that was compiled at install; its status."""

    def by(self, bound: Bound, n_threads: int) -> bool:
        """Compute by a bound kernel; False when the result is not to be trusted (see `BoundKernel.run`)."""


class Kernel(Protocol):
    """Machine code for a spec, never unloaded."""

    @property
    def address(self) -> int:
        """Names the code within this process."""

    def bind(self, packed: Any) -> Bound:  # Any: each operation's own kind, which `_native.kernels.kernel` overloads
        """The kernel on a packed operand of the kind and format that it was made for."""


class Problems(Protocol):
    """What a trial tells of the problem that it is for."""

    @property
    def structure_version(self) -> int:
        """Version of the operand's structure that its problem was made from."""

    @property
    def is_stale(self) -> bool:
        """Whether the matrix is known to be another problem by now."""


class Serving(Protocol):
    """A tuned kernel that may compute products (`tuning.trials.kernel_trial.KernelTrial`)."""

    failed: str | None
    looked_ns: int  # of its last product: spent on looks and repacking

    @property
    def service(self) -> Any:  # Any: a `tuning.trials.service.Service`
        """What says whether its packed copy pays; None: it reads the user's own arrays, or is a candidate."""

    @property
    def context(self) -> Problems:
        """Who made it."""

    @property
    def packed_copy(self) -> PackedCopy | None:
        """The packed copy that it reads; None: it reads the user's own arrays."""

    @property
    def bound(self) -> Bound | None:
        """The kernel with its operand, once there is one."""

    @property
    def bound_to(self) -> tuple[Any, ...] | None:
        """Shape and addresses of the user's arrays that a kernel without a packed copy reads."""

    def run(self, operand: AnyOperand, call: Call) -> bool:
        """Compute the call's result; False when this kernel cannot serve this product."""


class FastCall(Protocol):
    """A fast path of one state (`dispatch.fast_path.FastPath`)."""

    has_served: bool

    @property
    def trial(self) -> Serving | None:
        """The tuned kernel that it leads to; None: the default kernel."""

    @property
    def run(self) -> Callable[..., bool]:
        """(B, out, decisive options, transposed) -> whether out holds the product."""

    def is_for(self, rows: Any, trial: Any, n_dims: int, n_vecs: int) -> bool:
        """Whether results of this shape are served, as things are now."""

    def leads(self, rows: Any, trial: Any, n_dims: int, n_vecs: int) -> bool:
        """Whether it was made for such products, and is not retired."""

    def took_ns(self, *product: object) -> int | None:
        """Nanoseconds of a product that it has just computed; None where it did not serve."""

    def commit(self, state: Any) -> None:
        """Bring the accounts of its state up to date."""

    def close(self) -> None:
        """Serve nothing until `commit` is called again."""

    def retire(self) -> None:
        """Serve nothing any more."""

    def forget_threads(self) -> None:
        """In a forked child: products of other threads will not end."""


class Tuning(Protocol):
    """Tuning of one state's problem (`tuning.live.LiveTuner`)."""

    @property
    def waits_for_pay(self) -> bool:
        """Return whether the next step costs more than the budget that products have earned so far."""

    def lend(self, state: Any) -> None:  # Any: a DispatchState
        """Let the plan serve products of `state` too, where its options allow that plan."""

    def spent_and_saved_s(self) -> tuple[float, float]:
        """Seconds that this process spent on tuning the problem, and those that tuned kernels saved."""

    def forget_threads(self) -> None:
        """In a forked child: tuning by other threads does not go on."""
