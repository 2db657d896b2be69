"""Measurements of earlier processes, which a resumed search need not repeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosparse.tuner.search.race import RaceRule

from autosparse.core.plan import Plan
from autosparse.core.solver import Choice
from autosparse.core.values import dataclass, field

MAX_EARLIER: Final = 64
"""Maximum number of candidates carried into the next search, those with most samples; a live search measures 14."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Time of a candidate over that of the default kernel, as the mean of `n_samples` samples."""

    value: float
    n_samples: int

    def merged(self, value: float, n_samples: int) -> Ratio:
        """Return the mean of the present samples and `n_samples` more samples with mean `value`."""
        n_all = self.n_samples + n_samples
        return Ratio((self.value * self.n_samples + value * n_samples) / n_all, n_all) if n_all else self


@dataclass(frozen=True, slots=True)
class Earlier:
    """Ratios of the candidates that earlier processes measured, by choice."""

    ratios: Mapping[Choice, Ratio] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan | None) -> Earlier:
        """Return the measurements stored in the plan of an unfinished search."""
        if plan is None or not plan.default_s:
            return cls()
        found = {
            one.choice: Ratio(one.measured_s / plan.default_s, one.n_samples)
            for one in plan.candidates
            if not one.choice.is_default and one.measured_s and one.n_samples
        }
        kept = sorted(found.items(), key=lambda item: -item[1].n_samples)[:MAX_EARLIER]
        return cls(dict(kept))

    def first(self, plan: Plan, rule: RaceRule) -> Choice | None:
        """Return the candidate that the search that left `plan` races first when it continues, or None.

        It is the plan's own, or the fastest one with enough samples for `rule` that beat it by the margin: a race that
        ends with its process selects no winner.
        """
        able = {one: found.value for one, found in self.ratios.items() if found.n_samples >= rule.min_rounds}
        best = min(able, key=able.__getitem__, default=None)
        held = self.ratios.get(plan.choice)
        if best is not None and able[best] <= (1.0 - rule.margin) * (held.value if held is not None else 1.0):
            return best
        return None if plan.is_default else plan.choice

    def is_measured(self, choice: Choice, rule: RaceRule) -> bool:
        """Return whether `choice` needs no race by `rule`: it has enough samples, or is far behind the best."""
        found = self.ratios.get(choice)
        if found is None:
            return False
        best = min(one.value for one in self.ratios.values())
        return found.n_samples >= rule.min_rounds or found.value > rule.cut * best
