"""PlanChoice: whether a packed copy pays, given what looks at shared arrays and repacking of new values lately cost.

A kernel on a packed copy is faster than its fallback, the best kernel that reads the user's arrays in place, but a
product by it may need a look (were the arrays written?) and a repacking (they were). Rates and costs are counted per
matrix; a change of mind needs a margin. Pure arithmetic: no clock, no operand.
"""

from __future__ import annotations

from typing import Final

from autosparse.core.values import dataclass

HORIZON: Final = 16.0
"""Products over which rates of looks and repackings are averaged. Longer: a changed program is noticed later."""
RETURN_SHARE: Final = 0.8
"""Share of the gain below which looks and repackings must cost for the packed copy to serve again (hysteresis)."""
CHANGE_WEIGHT: Final = 0.25
"""Weight of the newest look in the share of looks that found new values."""
THROUGH_PYTHON_S: Final = 4e-6
"""Seconds that a product with a look takes beyond the look itself: it is led to its kernel by Python, not by C."""
FIRST_PROBE: Final = 256
"""Products by the fallback before the packed copy is tried again; twice as many after each time it did not pay."""
LAST_PROBE: Final = 1 << 14
PROBE_LOOKS: Final = 2
"""Looks of such a try."""


@dataclass(slots=True, eq=False)
class PlanChoice:
    """Whether the packed kernel or its fallback computes the next product of one problem of one matrix."""

    gain_s: float | None = None  # of a product by the packed kernel against the fallback, looks left out; None: unknown
    look_s: float = 0.0  # one look, lately
    repack_s: float = 0.0  # one repacking, lately or as expected
    serves_packed: bool = True
    look_rate: float = 0.0  # looks per product
    repack_rate: float = 0.0  # repackings per product
    change_share: float = 0.5  # share of the looks that found new values
    n_changes: int = 0  # of mind
    spent_s: float = 0.0  # in looks and repackings so far
    _probe_after: int = FIRST_PROBE
    _n_waited: int = 0  # products by the fallback since it serves
    _probe_left: int = 0  # looks until a try ends

    @property
    def cost_s(self) -> float:
        """Expected seconds per product of looks and repackings, were the packed kernel to serve."""
        return self.look_rate * (self.look_s + THROUGH_PYTHON_S) + self.repack_rate * self.repack_s

    @property
    def is_tried(self) -> bool:
        """Whether the packed kernel serves for some looks only, to find out what they cost."""
        return self._probe_left > 0

    def looked(
        self, n_products: int, *, look_s: float, is_exposed: bool, repack_s: float | None, n_looks: int = 1
    ) -> bool:
        """Account for `n_looks` before products by the packed kernel, `n_products` after the last account.

        `is_exposed`: others can write the arrays, so that every product needs a look. `repack_s`: expected seconds of
        the repacking that is due; None: the values are the old ones. Returns whether the packed kernel computes this
        product; if not, the fallback serves from now on.
        """
        self.look_s = look_s
        self.repack_s = self.repack_s if repack_s is None else repack_s
        self.change_share += CHANGE_WEIGHT * ((repack_s is not None) - self.change_share)
        if not self.serves_packed:  # a sample for a race: it says nothing about how often looks are due
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
        """Take into account, before any product, whether every product will need a look."""
        if is_exposed and self.gain_s is not None and not self.n_changes:
            self.look_rate, self.look_s = 1.0, look_s
            if self.cost_s > self.gain_s:
                self._change(serves_packed=False)

    def recheck(self, n_products: int, *, n_invalidated: int, is_exposed: bool) -> bool:
        """After `n_products` by the fallback, before `n_invalidated` of which arrays were handed out: who serves now.

        Returns whether the packed kernel does.
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
    """The rate of events after `n_products` more with `n_events` among them."""
    left = (1.0 - 1.0 / HORIZON) ** n_products
    return rate * left + (1.0 - left) * n_events / n_products
