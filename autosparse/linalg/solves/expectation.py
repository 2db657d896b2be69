"""Report the number of products that a solver expects to the tuning of every problem that the solve has run."""

from __future__ import annotations

import math
from typing import Final

from autosparse.dispatch.expectations import Expected, tell
from autosparse.dispatch.state import FIRST_FAST_PATH, DispatchState
from autosparse.linalg.solves.convergence import Left
from autosparse.linalg.solves.workspace import Begun, states_of
from autosparse.operands.csr import Operand

NATIVE_PRODUCTS: Final = 100
"""Number of products to come from which on a solve opens a fast call, with which its iterations run in native code.

That saves 5 us of each iteration; loading the module takes 0.6 ms.
"""


class ProductCounts:
    """Counts of one operand's products since a solve began, by problem (A x, A^H x, columns), and the time beside them.

    `begun` are the counts at the beginning of the solve. The first iterations of a process take longer than later
    ones, so that a report states the times since the report before if they are shorter.
    """

    __slots__ = ("_begun", "_operand", "_since")

    def __init__(self, operand: Operand, begun: Begun) -> None:
        self._operand, self._begun = operand, begun
        self._since = begun  # counts at the report before

    def tell(self, n_done: int, left: Left) -> None:
        """Report to the problems of this solve that `left` iterations follow after `n_done`.

        As many products as ran before this solve are expected again after it. The time of the solve beside its
        products is reported too, because tuning may take a share of the whole.
        """
        states = states_of(self._operand)
        other_s = min(one.other_s(states) for one in (self._begun, self._since))
        since, self._since = self._since, Begun(states, self._begun.clock_ns)
        for state in states:
            n_before = self._begun.n_before(state)
            n_calls = state.n_calls
            if n_calls <= n_before:
                continue
            per_iteration = (n_calls - n_before) / max(1, n_done)
            is_first = state.fast_path is None and state.fast_path_due <= FIRST_FAST_PATH
            if is_first and per_iteration * left.likely >= NATIVE_PRODUCTS:
                state.fast_path_due = 0
            tell(
                state,
                Expected(
                    n_calls=n_calls + per_iteration * left.likely + n_before,
                    n_certain=n_calls + per_iteration * left.certain,
                    other_s=min(other_s, _earlier_s(state, n_before)),
                    product_s=since.product_s(state),
                ),
            )

    def end(self) -> None:
        """Withdraw the reports at the end of the solve."""
        for state in states_of(self._operand):
            if state.expected is not None:
                tell(state, None)


def _earlier_s(state: DispatchState, n_before: int) -> float:
    """Return the seconds that earlier solves took beside each of `n_before` products; inf if there was no solve."""
    return math.inf if state.solver_ns is None or not n_before else state.solver_ns * 1e-9 / n_before
