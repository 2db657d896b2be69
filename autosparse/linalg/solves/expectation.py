"""Report the number of products that a solver expects to the tuning of every problem that the solve has run."""

from __future__ import annotations

from autosparse.dispatch.expectations import Expected, tell
from autosparse.dispatch.state import DispatchState
from autosparse.linalg.solves.convergence import Left
from autosparse.linalg.solves.conversions import operands_of
from autosparse.operands.csr import Operand


class ProductCounts:
    """Counts of one operand's products since a solve began, by problem (A x, A^H x, columns)."""

    __slots__ = ("_at_start", "_operand")

    def __init__(self, operand: Operand) -> None:
        self._operand = operand
        self._at_start = {id(state): state.n_calls for state in states_of(operand)}

    def tell(self, n_done: int, left: Left) -> None:
        """Report to the problems of this solve that `left` iterations follow after `n_done`.

        As many products as ran before this solve are expected again after it.
        """
        for state in states_of(self._operand):
            n_before = self._at_start.get(id(state), 0)
            n_calls = state.n_calls
            if n_calls <= n_before:
                continue
            per_iteration = (n_calls - n_before) / max(1, n_done)
            tell(
                state,
                Expected(
                    n_calls=n_calls + per_iteration * left.likely + n_before,
                    n_certain=n_calls + per_iteration * left.certain,
                ),
            )

    def end(self) -> None:
        """Withdraw the reports at the end of the solve."""
        for state in states_of(self._operand):
            if state.expected is not None:
                tell(state, None)


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
