"""The report: all facts that `autosparse.explain` shows about one product, as a value."""

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
    from autosparse.tuning.trials.copy_policy import CopyPolicy
    from autosparse.tuning.trials.part_times import PartTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Facts about the kernel that runs for `problem`; made by `explicit.report`, rendered by `autosparse.explain`."""

    problem: Problem
    plan: Plan  # the plan in use; its candidates are those of the search so far
    value_bytes: int  # bytes of one stored value
    n_calls: int = 0  # products of this problem by this object so far
    product_s: float = 0.0  # their total seconds
    runs_expected: float | None = None  # from a hint or from earlier processes; None: unknown
    packed_bytes: int = 0  # bytes of all packed copies of this operand and of its transpose's rows
    packed_limit_bytes: int = 0  # options.extra_memory times the bytes of A
    implementation: str = ""  # key of `_native.IMPLEMENTATIONS`; "" if no kernel can be chosen
    verdict: str = ""  # the condition of the next tuning step, or why there is none
    failures: tuple[str, ...] = ()  # failures with their reasons
    tuning_s: float = 0.0  # seconds of tuning between products of this process, without calls of `tune`
    saved_s: float = 0.0  # default time minus actual time, over products that a tuned kernel computed
    default_s: float | None = None  # seconds of one product by the default kernel
    expected_gain: float = 0.0  # expected fraction of default_s saved by tuning, before it is tried
    prices_s: Mapping[str, float] = field(default_factory=dict)  # tuning step -> expected seconds
    facts: PatternFacts | None = None  # statistics of the pattern that the models use
    tiers: tuple[Tier, ...] = ()  # tuning tiers with their expected prices and gains
    served: CopyPolicy | None = None  # the choice between the plan's kernels; None: there is only one
    has_in_place: bool = False  # the fallback of that choice is a kernel on the user's arrays, else the default kernel
    holding: Holding | None = None  # owner and memory of the arrays
    rates_source: str = ""  # source of the machine's rates that cost models read
    cores_are_contended: bool = False  # threads of this process recently waited for cores between products
    part_times: tuple[PartTime, ...] = ()  # time of each part of a serving composite, run alone

    @property
    def is_planned(self) -> bool:
        """Return whether a kernel can be chosen; SciPy computes products of other dtypes and layouts."""
        return bool(self.prices_s)

    @property
    def break_even_runs(self) -> float | None:
        """Number of products after which tuning has paid for itself; estimated if tuning has not run."""
        if not self.plan.is_default or self.plan.effort != "off":
            return self.plan.expected_break_even(self.default_s)
        if not self.default_s or self.expected_gain <= 0:
            return None
        return sum(self.prices_s.values()) / (self.default_s * self.expected_gain)


def verdict_of(tuner: LiveTuner) -> str:
    """Return a text on the next tuning step and the condition it waits for, or on why there is none."""
    step, state, session = tuner.pending, tuner.state, tuner.session
    if state.options.deterministic:
        return "deterministic: one kernel, one summation order, nothing to tune"
    if session is not None and (step is None or (session.is_finished and session.incumbent is None)):
        return "tuning is done"
    if step is None:
        waits = state.next_look_ns * 1e-9 - state.product_ns * 1e-9
        return f"tuning starts after {waits:.2g} s more in products" if waits < 1e9 else EFFORT_IS_OFF
    if isinstance(step, Pause):
        n_left = max(0, tuner.resume_at - state.n_calls)
        return f"compare with the default kernel again after {n_left} products"
    what = f"{step.kind} {step.what}".strip() if isinstance(step, Work) else "time a candidate on your products"
    verdict = amortization.weigh(
        step.price_s, account=tuner.account(), outlook=tuner.outlook(), path_price_s=step.path_price_s,
        in_advance=step.in_advance,
    )  # fmt: skip
    return f"{what}: {verdict.reason}"
