"""Report the number of products that a solver expects to the tuning of every problem that the solve has run."""

from __future__ import annotations

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

    `begun` are the counts at the beginning of the solve.
    """

    __slots__ = ("_begun", "_operand")

    def __init__(self, operand: Operand, begun: Begun) -> None:
        self._operand, self._begun = operand, begun

    def tell(self, n_done: int, left: Left) -> None:
        """Report to the problems of this solve that `left` iterations follow after `n_done`.

        As many products as ran before this solve are expected again after it. The time of the solve beside its
        products is reported too, because tuning may take a share of the whole.
        """
        states = states_of(self._operand)
        other_s = self._other_s(states)
        for state in states:
            n_before = self._begun.n_before(state)
            n_calls = state.n_calls
            if n_calls <= n_before:
                continue
            per_iteration = (n_calls - n_before) / max(1, n_done)
            is_first = state.fast_path is None and state.fast_path_due == FIRST_FAST_PATH
            if is_first and per_iteration * left.likely >= NATIVE_PRODUCTS:
                state.fast_path_due = 0
            tell(
                state,
                Expected(
                    n_calls=n_calls + per_iteration * left.likely + n_before,
                    n_certain=n_calls + per_iteration * left.certain,
                    other_s=other_s,
                ),
            )

    def _other_s(self, states: list[DispatchState]) -> float:
        """Return the seconds per product that the solve has spent on anything but products and their tuning."""
        n_products = sum(state.n_calls - self._begun.n_before(state) for state in states)
        return self._begun.other_ns(states) * 1e-9 / n_products if n_products > 0 else 0.0

    def end(self) -> None:
        """Withdraw the reports at the end of the solve."""
        for state in states_of(self._operand):
            if state.expected is not None:
                tell(state, None)
