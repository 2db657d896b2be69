"""Plan: a Problem's chosen SuperSchedule with its provenance."""

from __future__ import annotations

from typing import Final

from autosparse.core.composite import Part, Schedule, parts_of
from autosparse.core.values import dataclass

EFFORT_IS_OFF: Final = "effort is off"
"""Reason of a plan where the options allow no tuning."""
MAX_WORDS: Final = 100
"""Characters of a reason in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One schedule that was considered: predicted and measured time of one product, and what it takes to get there."""

    schedule: Schedule | None  # None: the default kernel
    predicted_s: float | None = None
    measured_s: float | None = None
    build_s: float = 0.0  # lower + compile, 0 when the kernel was in the cache
    pack_s: float = 0.0  # convert the operand
    packed_bytes: int = 0
    failed: str | None = None  # why it could not be built, packed or run
    predicted_ratio: float | None = None  # predicted time over the default kernel's
    n_samples: int = 0  # products that `measured_s` was measured on, in this process and earlier ones

    def __repr__(self) -> str:
        return f"Candidate({_facts(self, why=self.failed or '')})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will run for one problem. `schedule` None means the default kernel of `_native/runtime`."""

    schedule: Schedule | None
    why: str  # one sentence for the reader of explain()
    effort: str = "off"  # effort that found it
    predicted_s: float | None = None
    measured_s: float | None = None
    default_s: float | None = None  # measured time of the default kernel in the same session of measuring
    tune_s: float = 0.0  # everything spent to find this plan (search, builds, packs, timing)
    pack_s: float = 0.0  # converting the operand, paid again by each new object with this pattern
    packed_bytes: int = 0
    candidates: tuple[Candidate, ...] = ()
    remembered: bool = False  # from the cache, not found in this process
    not_remembered: str = ""  # why it had to be found: what differs from the nearest remembered plan
    predicted_ratio: float | None = None  # predicted time over the default kernel's
    in_place: Schedule | None = None  # the fastest kernel that reads the user's arrays, where `schedule` packs a copy
    in_place_s: float | None = None  # measured time of one product by it
    served_by: str | None = None  # library that computes what our kernels cannot; None: they do

    def __repr__(self) -> str:
        """One line; `candidates` has the rest, ``print(A.explain(B))`` tells it in words."""
        return f"Plan({_facts(self, why=self.why)}; effort={self.effort!r}, {len(self.candidates)} candidates)"

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is computed how: one part for a matrix in one format, none for the default kernel."""
        return parts_of(self.schedule)

    @property
    def is_default(self) -> bool:
        """Whether the default kernel runs."""
        return self.schedule is None

    @property
    def break_even_runs(self) -> float | None:
        """Products after which tuning and packing have paid for themselves; None while unknown or never."""
        return self.expected_break_even(None)

    def expected_break_even(self, default_s: float | None) -> float | None:
        """The same where a product by the default kernel takes `default_s`: of an estimate, as the model has it."""
        default_s = self.default_s or default_s
        tuned_s = self.measured_s
        if tuned_s is None and default_s and self.predicted_ratio is not None and not self.is_default:
            tuned_s = self.predicted_ratio * default_s
        if tuned_s is None or not default_s or default_s <= tuned_s:
            return None
        return (self.tune_s + self.pack_s) / (default_s - tuned_s)


def _facts(one: Candidate | Plan, *, why: str) -> str:
    """What runs, its time against the default kernel's where they are known, and the beginning of a reason."""
    served_by = one.served_by if isinstance(one, Plan) else None
    parts = [str(one.schedule.format) if one.schedule is not None else served_by or "default kernel"]
    if one.measured_s is not None:
        parts.append(f"{one.measured_s * 1e3:.3g} ms")
    elif one.predicted_ratio is not None:
        parts.append(f"predicted {one.predicted_ratio:.2f} x default")
    if isinstance(one, Plan) and one.default_s is not None and one.schedule is not None:
        parts.append(f"default {one.default_s * 1e3:.3g} ms")
    words = " ".join(why.split())
    words = words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]}..."
    return f"{', '.join(parts)}: {words}" if words else ", ".join(parts)
