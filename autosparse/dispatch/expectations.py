"""Expectations of solvers: how many products of a problem are to come, told while they run.

A solver sees its residual fall and knows its limit of iterations, so it knows more about the products to come than the
prior of `tuning.amortization`. It calls `tell` a few times per solve. Tuning then starts earlier where many products
are left, and does not start where few are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from autosparse.core.values import dataclass

if TYPE_CHECKING:
    from autosparse.dispatch.protocols import Tuning

GROWTH: Final = 1.25
"""Factor by which the certain products must have grown for tuning to be looked at again: a look costs microseconds."""
NEVER_NS: Final = 1 << 62
"""Value of `DispatchState.next_look_ns` from which on the problem is not tuned (`dispatch.state.FOREVER_NS`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Products of one problem in this process that a solver expects, those that have run included."""

    n_calls: float  # likely, by this solve and by later ones: decides whether a step of tuning pays
    n_certain: float  # at least, by this solve: decides how much may be spent

    def certain_ns(self, n_calls: int, product_ns: int) -> float:
        """Return nanoseconds of the certain products, of which `n_calls` have taken `product_ns`."""
        return max(1.0, self.n_certain / n_calls) * product_ns if n_calls else 0.0


class Expecting(Protocol):
    """Protocol of a dispatch state that receives the number of expected products."""

    n_calls: int
    product_ns: int
    next_look_ns: float
    expected: Expected | None
    live_tuner: Tuning | None

    def commit(self) -> None:
        """Bring the counts up to date."""


def tell(state: Expecting, expected: Expected | None) -> None:
    """Tell `state` what a solver expects of its problem; None: no solver runs any more.

    Let tuning look at the next product where it waits for pay, and more products are certain than before.
    """
    before, state.expected = state.expected, expected
    if (
        expected is None or state.next_look_ns >= NEVER_NS
    ):  # not tuned: switched off, given up, or another thread's turn
        return
    n_before = before.n_certain if before is not None else float(state.n_calls)
    tuning = state.live_tuner
    if expected.n_certain >= GROWTH * n_before and (tuning is None or tuning.waits_for_pay):
        state.next_look_ns = min(state.next_look_ns, state.product_ns)
        state.commit()
