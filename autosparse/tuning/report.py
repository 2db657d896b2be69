"""Report: everything that an explanation of one product tells, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from autosparse.core.plan import EFFORT_IS_OFF, Plan
from autosparse.core.problem import Problem
from autosparse.core.values import dataclass, field
from autosparse.tuner.search.trial import Pause, Work
from autosparse.tuning import amortization
from autosparse.tuning.amortization import Tier

if TYPE_CHECKING:
    from autosparse.operands.holding import Holding
    from autosparse.tuner.features.statistics import PatternFacts
    from autosparse.tuning.live import LiveTuner
    from autosparse.tuning.trials.part_times import PartTime
    from autosparse.tuning.trials.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCosts:
    """Which kernel of a plan with a packed copy serves now, and the costs that decide it."""

    is_packed: bool
    has_in_place: bool  # a kernel that reads the user's arrays serves otherwise; else the default kernel
    gain_s: float | None  # of a product by the packed copy, looks left out; None: unknown
    look_s: float
    look_rate: float  # looks per product by the packed copy
    repack_s: float
    repack_rate: float
    n_changes: int = 0

    @classmethod
    def of(cls, service: Service | None) -> ServingCosts | None:
        """As things are now; None where no packed copy could serve."""
        if service is None:
            return None
        choice, has_in_place = service.choice, service.in_place is not None
        return cls(
            is_packed=choice.serves_packed, has_in_place=has_in_place, gain_s=choice.gain_s, look_s=choice.look_s,
            look_rate=choice.look_rate, repack_s=choice.repack_s, repack_rate=choice.repack_rate,
            n_changes=choice.n_changes,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What runs for `problem` and why, as things stand: `executor.report` makes it, `autosparse.explain` renders it."""

    problem: Problem
    plan: Plan  # of what runs now; its candidates are those of the search so far
    value_bytes: int  # of one stored value
    n_calls: int = 0  # products of this problem by this object so far
    product_s: float = 0.0  # time they took
    runs_expected: float | None = None  # from a hint or from history; None: unknown
    packed_bytes: int = 0  # all packed copies of this operand, and the rows of its transpose
    packed_limit_bytes: int = 0  # options.extra_memory times the bytes of A
    implementation: str = ""  # who computes: a key of `_native.IMPLEMENTATIONS`; "" where no kernel can be chosen
    verdict: str = ""  # what the next step of tuning waits for, or why there is none
    failures: tuple[str, ...] = ()  # what was given up, and why
    tuning_s: float = 0.0  # spent on tuning this problem by this object so far
    saved_s: float = 0.0  # default kernel's time minus actual time, over products that a tuned kernel computed
    default_s: float | None = None  # one product by the default kernel
    expected_gain: float = 0.0  # share of default_s that tuning is expected to save, before it is tried
    prices_s: Mapping[str, float] = field(default_factory=dict)  # step of tuning -> what it is expected to take
    facts: PatternFacts | None = None  # statistics of a matrix, as the models see it
    tiers: tuple[Tier, ...] = ()  # ways to tune, their prices and gains as expected here
    served: ServingCosts | None = None  # which kernel of the plan serves; None: there is only one
    holding: Holding | None = None  # whose arrays they are, and what they take
    cores_are_contended: bool = False  # threads of this process waited for cores between products lately
    part_times: tuple[PartTime, ...] = ()  # of the parts of a composite that serves, each run alone for this report

    @property
    def is_planned(self) -> bool:
        """Whether there is anything to choose; SciPy computes products of other dtypes and layouts."""
        return bool(self.prices_s)

    @property
    def break_even_runs(self) -> float | None:
        """Products after which tuning has paid for itself; before it was done, as prices and expected gain have it."""
        if not self.plan.is_default or self.plan.effort != "off":
            return self.plan.expected_break_even(self.default_s)
        if not self.default_s or self.expected_gain <= 0:
            return None
        return sum(self.prices_s.values()) / (self.default_s * self.expected_gain)


def verdict_of(tuner: LiveTuner) -> str:
    """What the next step of tuning is and waits for, or why there is none."""
    step, state = tuner.pending, tuner.state
    if state.options.deterministic:
        return "deterministic: one kernel, one summation order, nothing to tune"
    if step is None and tuner.session is not None:
        return "tuning is done"
    if step is None:
        waits = state.next_look_ns * 1e-9 - state.product_ns * 1e-9
        return f"tuning is thought of after {waits:.2g} s more in products" if waits < 1e9 else EFFORT_IS_OFF
    if isinstance(step, Pause):
        n_left = max(0, tuner.resume_at - state.n_calls)
        return f"compare with the default kernel again after {n_left} products"
    what = f"{step.kind} {step.what}".strip() if isinstance(step, Work) else "time a candidate on your products"
    verdict = amortization.weigh(
        step.price_s, account=tuner.account(), outlook=tuner.outlook(), path_price_s=step.path_price_s,
        in_advance=step.in_advance,
    )  # fmt: skip
    return f"{what}: {verdict.reason}"
