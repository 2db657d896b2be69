"""Report the number of products that a solver expects to the tuning of every problem that the solve has run."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from autosparse.dispatch.expectations import Expected, tell
from autosparse.dispatch.state import FIRST_FAST_PATH, DispatchState
from autosparse.linalg.solves.convergence import Left
from autosparse.linalg.solves.conversions import operands_of
from autosparse.operands.csr import Operand

NATIVE_PRODUCTS: Final = 100
"""Number of products to come from which on a solve opens a fast call, with which its iterations run in native code.

That saves 5 us of each iteration; loading the module takes 0.6 ms.
"""


class ProductCounts:
    """Counts of one operand's products since a solve began, by problem (A x, A^H x, columns), and the time beside them.

    `clock_ns` is a clock in ns. `is_late` means that the solve had begun before any state existed, so that all products
    of the states are its own.
    """

    __slots__ = ("_at_start", "_begun_ns", "_clock_ns", "_n_counted", "_operand", "_spent_ns")

    def __init__(
        self, operand: Operand, *, is_late: bool = False, clock_ns: Callable[[], int] = perf_counter_ns
    ) -> None:
        self._operand, self._clock_ns = operand, clock_ns
        states = states_of(operand)
        self._at_start = {} if is_late else {id(state): state.n_calls for state in states}
        self._n_counted = sum(state.n_calls for state in states)
        self._begun_ns, self._spent_ns = clock_ns(), sum(map(_spent_ns, states))

    def tell(self, n_done: int, left: Left) -> None:
        """Report to the problems of this solve that `left` iterations follow after `n_done`.

        As many products as ran before this solve are expected again after it. The time of the solve beside its
        products is reported too, because tuning may take a share of the whole.
        """
        states = states_of(self._operand)
        other_s = self._other_s(states)
        for state in states:
            n_before = self._at_start.get(id(state), 0)
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
                    n_past=n_before,
                ),
            )

    def _other_s(self, states: list[DispatchState]) -> float:
        """Return the seconds per product that the solve has spent on anything but products and their tuning."""
        n_products = sum(state.n_calls for state in states) - self._n_counted
        other_ns = self._clock_ns() - self._begun_ns - (sum(map(_spent_ns, states)) - self._spent_ns)
        return max(0.0, other_ns * 1e-9 / n_products) if n_products > 0 else 0.0

    def end(self) -> None:
        """Withdraw the reports at the end of the solve."""
        for state in states_of(self._operand):
            if state.expected is not None:
                tell(state, None)


def _spent_ns(state: DispatchState) -> float:
    """Return the time in ns spent in the products of a problem and on tuning it."""
    tuning_s = state.live_tuner.spent_and_saved_s()[0] if state.live_tuner is not None else 0.0
    return state.product_ns + tuning_s * 1e9


def states_of(operand: Operand) -> list[DispatchState]:
    """Return the states of products that `operand` and its converted copies have run, with current counts."""
    hot = [
        item for one in operands_of(operand) if one.dispatcher is not None for item in list(one.dispatcher.hot.items())
    ]
    found = {id(state): state for key, state in hot if isinstance(key[1], bool)}
    for state in found.values():
        state.commit()
    return list(found.values())


def has_states(operand: Operand) -> bool:
    """Return whether dispatch has a state for a product of `operand` or of a converted copy."""
    return operand.dispatcher is not None or any(one.dispatcher is not None for one in operands_of(operand))
