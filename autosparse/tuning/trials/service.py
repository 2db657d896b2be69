"""`Service` selects the kernel of a plan that serves products: the one on a packed copy, or its fallback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from autosparse.core.values import dataclass, field
from autosparse.operands.csr import Operand, expected_look_s, late_look_s
from autosparse.targets.priors import number
from autosparse.tuning.trials.copy_policy import CopyPolicy

if TYPE_CHECKING:
    from autosparse.dispatch.state import DispatchState
    from autosparse.operands.unfolding import AnyOperand

RECHECK_PRODUCTS: Final = 64
"""Minimum number of products by the fallback before the choice is checked again."""
RECHECK_S: Final = number("packed copies", "first recheck s")
"""Minimum seconds of products before the choice is checked again; doubled each time nothing changed."""
LAST_RECHECK_S: Final = number("packed copies", "last recheck s")
"""Maximum of the doubled seconds of products before the choice is checked again."""


@dataclass(slots=True, eq=False)
class Service:
    """Choice in one dispatch state between a kernel on a packed copy and its fallback.

    The kernel's trial holds this object.
    """

    state: DispatchState
    in_place: Any = None  # Any: a trial; None: the default kernel
    choice: CopyPolicy = field(default_factory=CopyPolicy)
    _n_calls: int = 0  # n_calls of the state at the last event
    _n_invalidated: int = 0  # n_touched of the operand at the last event
    _n_looks: int = 0  # n_looks of the operand at the last event
    _recheck_s: float = RECHECK_S

    @classmethod
    def of(
        cls, packed: Any, in_place: Any, state: DispatchState, operand: AnyOperand | None, gain_s: float | None
    ) -> Service:
        """Return the service of the trial `packed`; a new one if its state or fallback `in_place` has changed.

        `gain_s`: seconds that the packed kernel saves per product; None: unknown.
        """
        made: Service | None = packed.service
        if made is not None and made.state is state and made.in_place is in_place:
            made.choice.gain_s = made.choice.gain_s if gain_s is None else gain_s
            return made
        made = packed.service = cls(state, in_place, CopyPolicy(gain_s), state.n_calls)
        made._n_looks = operand.n_looks if isinstance(operand, Operand) else 0
        look_s = expected_look_s(operand)
        made.choice.expose(is_exposed=look_s > 0.0, look_s=look_s)
        return made

    def looked(self, operand: Operand, *, repack_s: float | None) -> bool:
        """Account for a check for writes before a product; return whether the packed kernel computes that product.

        `repack_s`: expected seconds of the repacking that the product needs; None if it needs none.
        """
        n_products, look_s, n_looks = self._n_new(), late_look_s(operand), operand.n_looks - self._n_looks
        self._n_looks = operand.n_looks
        self.choice.spent_s += max(0, n_looks - 1) * look_s  # `KernelTrial.run` adds the last one
        is_kept = self.choice.looked(
            n_products + 1, look_s=look_s, is_exposed=operand.is_exposed, repack_s=repack_s, n_looks=max(1, n_looks)
        )
        if not is_kept:
            self.state.next_look_ns = 0.0  # makes the live tuner switch to the fallback
            self._recheck_s, self._n_invalidated = RECHECK_S, operand.n_invalidated
        return is_kept

    def looked_in_fast_call(self, operand: Operand, looked_ns: int) -> None:
        """Account for a check for writes that took `looked_ns` in a finished fast call of the packed kernel."""
        self.choice.spent_s += looked_ns * 1e-9
        self.looked(operand, repack_s=None)

    def steer(self, packed: Any, operand: AnyOperand | None) -> None:
        """Set the kernel of the state's next products by the choice, which is checked again first."""
        self.recheck(operand)
        self.state.serving = packed if self.choice.serves_packed and packed.ready else self.in_place

    def recheck(self, operand: AnyOperand | None) -> None:
        """Check whether the packed kernel serves again after products by the fallback, and schedule the next check."""
        if self.choice.serves_packed or not isinstance(operand, Operand):
            return
        due_ns = RECHECK_PRODUCTS * self.state.product_ns / max(1, self.state.n_calls)
        n_invalidated, before = operand.n_invalidated, self._n_invalidated
        if (n_products := self._n_new(least=RECHECK_PRODUCTS)) >= RECHECK_PRODUCTS:
            self._n_invalidated = n_invalidated
            if self.choice.recheck(n_products, n_invalidated=n_invalidated - before, is_exposed=operand.is_exposed):
                self._recheck_s = RECHECK_S
                return
            self._recheck_s = min(LAST_RECHECK_S, 2.0 * self._recheck_s)
        self.state.next_look_ns = min(
            self.state.next_look_ns, self.state.product_ns + max(due_ns, self._recheck_s * 1e9)
        )

    def _n_new(self, least: int = 0) -> int:
        """Return the products since the last event; if there are at least `least`, count from now on anew."""
        self.state.commit()
        n_products = self.state.n_calls - self._n_calls
        if n_products >= least:
            self._n_calls = self.state.n_calls
        return n_products
