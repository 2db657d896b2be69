"""`CopyPolicy` decides whether a packed copy pays, given the recent costs of checks for writes and of repacking.

A kernel on a packed copy is faster than the fallback, the best kernel that reads the user's arrays in place. But a
product on a packed copy may need a check (were the arrays written?) and a repacking (they were). Rates and costs are
counted per matrix, and changing the choice needs a margin. This is pure arithmetic without clock or operand.
"""

from __future__ import annotations

from typing import Final

from autosparse.core.values import dataclass
from autosparse.targets.priors import number

HORIZON: Final = number("packed copies", "horizon")
"""Number of products over which rates are averaged; a larger value reacts later to changes of the program."""
RETURN_SHARE: Final = number("packed copies", "share to return")
"""Fraction of the gain below which the costs must fall before the packed copy serves again (hysteresis)."""
CHANGE_WEIGHT: Final = number("packed copies", "weight of a change")
"""Weight of the newest check in the running fraction of checks that found new values."""
THROUGH_PYTHON_S: Final = number("packed copies", "python s")
"""Seconds that a product with a check takes beyond the check itself: Python dispatches it instead of C."""
FIRST_PROBE: Final = 256
"""Products by the fallback before the packed copy is tried again; doubled each time it did not pay."""
LAST_PROBE: Final = 1 << 14
"""Maximum number of products by the fallback before the packed copy is tried again."""
PROBE_LOOKS: Final = 2
"""Number of checks for which the packed copy is tried."""


@dataclass(slots=True, eq=False)
class CopyPolicy:
    """Choice, updated product by product, between the kernel on a packed copy and the fallback without one."""

    gain_s: float | None = None  # seconds saved per product by the packed kernel, before checks; None: unknown
    look_s: float = 0.0  # recent seconds of one check for writes
    repack_s: float = 0.0  # recent or expected seconds of one repacking
    serves_packed: bool = True
    look_rate: float = 0.0  # checks per product
    repack_rate: float = 0.0  # repackings per product
    change_share: float = 0.5  # fraction of checks that found new values
    n_changes: int = 0  # number of changes of the choice
    spent_s: float = 0.0  # seconds of checks and repacking so far
    _probe_after: int = FIRST_PROBE
    _n_waited: int = 0  # products by the fallback since it serves
    _probe_left: int = 0  # checks until the current try ends

    @property
    def cost_s(self) -> float:
        """Expected seconds of checks and repacking per product by the packed kernel."""
        return self.look_rate * (self.look_s + THROUGH_PYTHON_S) + self.repack_rate * self.repack_s

    @property
    def is_tried(self) -> bool:
        """Return whether the packed kernel serves for a few checks only, so that the cost of checks is measured."""
        return self._probe_left > 0

    def looked(
        self, n_products: int, *, look_s: float, is_exposed: bool, repack_s: float | None, n_looks: int = 1
    ) -> bool:
        """Account for `n_looks` checks for writes; return whether the packed kernel computes this product.

        If not, the fallback serves from now on. `n_products`: products since the last account. `is_exposed`: others
        can write the arrays, so that every product needs a check. `repack_s`: expected seconds of the repacking that
        is due; None if the values are unchanged.
        """
        self.look_s = look_s
        self.repack_s = self.repack_s if repack_s is None else repack_s
        self.change_share += CHANGE_WEIGHT * ((repack_s is not None) - self.change_share)
        if not self.serves_packed:  # a sample for a race, which says nothing about the rate of checks
            return True
        self.look_rate = 1.0 if is_exposed else _blended(self.look_rate, n_products, min(n_looks, n_products))
        self.repack_rate = _blended(self.repack_rate, n_products, repack_s is not None)
        if self._probe_left:
            self._probe_left = max(0, self._probe_left - n_looks)
            self.repack_rate = self.look_rate * self.change_share
            if self._probe_left:
                return True
        if self.gain_s is None or self.cost_s <= self.gain_s:
            return True
        self._change(serves_packed=False)
        return False

    def expose(self, *, is_exposed: bool, look_s: float) -> None:
        """Choose the fallback before the first product if every product needs a check that costs more than it saves."""
        if is_exposed and self.gain_s is not None and not self.n_changes:
            self.look_rate, self.look_s = 1.0, look_s
            if self.cost_s > self.gain_s:
                self._change(serves_packed=False)

    def recheck(self, n_products: int, *, n_invalidated: int, is_exposed: bool) -> bool:
        """Return whether the packed kernel serves again after `n_products` by the fallback.

        Before `n_invalidated` of these products, arrays were exported or replaced, and a packed copy would have
        needed a check.
        """
        if self.serves_packed or n_products <= 0:
            return self.serves_packed
        self._n_waited += n_products
        self.look_rate = 1.0 if is_exposed else _blended(self.look_rate, n_products, min(n_invalidated, n_products))
        self.repack_rate = self.look_rate * self.change_share
        if self.gain_s is None or self.cost_s < RETURN_SHARE * self.gain_s:
            self._change(serves_packed=True)
            self._probe_after = FIRST_PROBE
        elif self._n_waited >= self._probe_after:
            self._change(serves_packed=True)
            self._probe_after, self._probe_left = min(LAST_PROBE, 2 * self._probe_after), PROBE_LOOKS
        return self.serves_packed

    def _change(self, *, serves_packed: bool) -> None:
        self.serves_packed = serves_packed
        self.n_changes += 1
        self._n_waited = self._probe_left = 0


def _blended(rate: float, n_products: int, n_events: int) -> float:
    """Return the events per product, smoothed: `rate` updated by `n_products` products that had `n_events`."""
    left = (1.0 - 1.0 / HORIZON) ** n_products
    return rate * left + (1.0 - left) * n_events / n_products
