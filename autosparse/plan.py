"""Plan: a Problem's chosen SuperSchedule with its provenance."""

from __future__ import annotations

from dataclasses import dataclass

from autosparse.schedule import SuperSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One schedule that was considered: predicted and measured time of one product, and what it takes to get there."""

    schedule: SuperSchedule | None  # None: the default kernel
    predicted_s: float | None = None
    measured_s: float | None = None
    build_s: float = 0.0  # lower + compile, 0 when the kernel was in the cache
    pack_s: float = 0.0  # convert the operand
    packed_bytes: int = 0
    failed: str | None = None  # why it could not be built, packed or run


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will run for one problem. `schedule` None means the default kernel of `_native/runtime`."""

    schedule: SuperSchedule | None
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

    @property
    def is_default(self) -> bool:
        """Whether the default kernel runs."""
        return self.schedule is None

    @property
    def break_even_runs(self) -> float | None:
        """Products after which tuning and packing have paid for themselves; None while unknown or never."""
        if self.measured_s is None or self.default_s is None or self.default_s <= self.measured_s:
            return None
        return (self.tune_s + self.pack_s) / (self.default_s - self.measured_s)
