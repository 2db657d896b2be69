"""Expected number of products of a problem, reported by solvers while they run.

A solver knows its residuals and its limit of iterations, and therefore more about future products than the prior of
`tuning.amortization`. It calls `tell` a few times per solve. Tuning then starts earlier where many products are left,
and does not start where few are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

from autosparse.core.values import dataclass
from autosparse.dispatch import number

if TYPE_CHECKING:
    from autosparse.dispatch.protocols import Tuning

GROWTH: Final = number("amortisation", "growth of an expectation")
"""Factor by which the certain products must grow before tuning is checked again; a check costs microseconds."""
AFTER_SOLVE: Final = number("amortisation", "pause after a solve")
"""Factor by which the time in products grows after the end of a solve until a tuner that lacks budget looks again."""
NEVER_NS: Final = 1 << 62
"""Value of `DispatchState.next_look_ns` from which on the problem is not tuned (`dispatch.state.FOREVER_NS`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Likely and certain number of one problem's products in this process, as a solver expects, past ones included."""

    n_calls: float  # likely number, by this solve and later ones: decides whether a tuning step pays
    n_certain: float  # minimum number, by this solve: decides how much may be spent
    other_s: float = 0.0  # seconds that the solve takes beside each product: vectors, preconditioner
    product_s: float = math.inf  # seconds of one of its latest products; inf: not known

    def certain_s(self, product_s: float) -> float:
        """Return the estimated seconds of the solve for all certain products, which take at most `product_s` each."""
        return self.n_certain * (min(product_s, self.product_s) + self.other_s)

    def certain_ns(self, n_calls: int, product_ns: int) -> float:
        """Return the estimated time in ns of all certain products and of the solve beside them.

        `product_ns` is the time that `n_calls` of them took. Further ones take no longer than the latest.
        """
        if not n_calls:
            return 0.0
        later_ns = min(product_ns / n_calls, self.product_s * 1e9)
        return product_ns + max(0.0, self.n_certain - n_calls) * later_ns + self.n_certain * self.other_s * 1e9


class Expecting(Protocol):
    """Protocol of a dispatch state that receives the number of expected products."""

    n_calls: int
    product_ns: int
    next_look_ns: float
    expected: Expected | None
    live_tuner: Tuning | None

    def commit(self) -> None:
        """Add the products that fast calls served to the counts."""


def tell(state: Expecting, expected: Expected | None) -> None:
    """Record the products that a solver expects of the problem of `state`; None: no solver runs any more.

    If tuning has not begun or lacks budget, and more products are certain than before, the next product considers
    it. After a solve a tuner considers its next step soon, because the share `overhead` of the whole time of past
    solves may pay. Before there is a tuner, `DispatchState.add_solver_time` brings the look forward instead: a look
    after each solve would take up to 5 % of short ones.
    """
    before, state.expected = state.expected, expected
    if state.next_look_ns >= NEVER_NS:  # not tuned: switched off, given up, or another thread tunes
        return
    n_before = before.n_certain if before is not None else float(state.n_calls)
    tuning = state.live_tuner
    if expected is None:
        if tuning is not None and tuning.waits_for_pay:
            state.next_look_ns = min(state.next_look_ns, AFTER_SOLVE * state.product_ns)
            state.commit()
    elif expected.n_certain >= GROWTH * n_before and (tuning is None or tuning.waits_for_pay):
        state.next_look_ns = min(state.next_look_ns, state.product_ns)
        state.commit()
