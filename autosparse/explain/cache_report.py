"""Report on one cache: the plans that were tuned, the time they save, and the tuning that brought nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from autosparse import cache
from autosparse.cache.accounts import ledger
from autosparse.cache.accounts.rows import Spent
from autosparse.config import get_options
from autosparse.core.documents import write_whole
from autosparse.core.plan import Plan
from autosparse.dispatch import accounts
from autosparse.errors import RecordError
from autosparse.explain.loop_nest import choice_name
from autosparse.explain.page import as_html
from autosparse.explain.pictures import DARK, LIGHT, as_png, have_matplotlib, new_figure, require_matplotlib
from autosparse.explain.section import Section, as_text
from autosparse.explain.units import seconds

N_LISTED: Final = 40
"""Maximum number of plans (largest gain first) and of failures listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedPlan:
    """Plan with the fields of the key under which it was stored."""

    plan: Plan
    key: dict[str, Any]  # Any: JSON values

    @property
    def ratio(self) -> float | None:
        """Time of the default kernel divided by that of the plan, or None if either was not measured."""
        plan = self.plan
        if plan.is_default or not plan.default_s or not plan.measured_s:
            return None
        return plan.default_s / plan.measured_s

    @property
    def name(self) -> str:
        """Name of the kernel, program or solver that the plan chose."""
        named = (one.name for one in self.plan.candidates if one.choice == self.plan.choice and one.name)
        return next(named, choice_name(self.plan.choice))

    @property
    def what(self) -> str:
        """Description of the product, such as ``matmul transposed, 32 columns, float32``."""
        width = self.key.get("columns_bucket", 1)
        turned = " transposed" if self.key.get("transposed") else ""
        facts = f"{self.key.get('operation', '?')}{turned}", f"{width} columns" * (width != 1), self.key.get("dtype")
        return ", ".join(str(one) for one in facts if one)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReport:
    """Records of a cache, read once."""

    plans: tuple[RememberedPlan, ...]
    spent: Spent  # on products, by all processes
    failures: tuple[cache.Failure, ...]
    stats: cache.Stats

    @classmethod
    def of_cache(cls) -> CacheReport:
        """Read the cache of the current options; records that cannot be read are skipped."""
        store = cache.open_store()
        plans, failures = [], []
        for envelope in store.envelopes(("plan", "failure")):
            try:
                if envelope.kind == "plan":
                    plan = cache.plan_from_record(envelope.record)
                    plans.append(RememberedPlan(plan=plan, key=cache.plan_key_of(envelope.record)))
                else:
                    failures.append(cache.Failure.from_record(envelope.record))
            except RecordError:
                continue
        place = accounts.place_of(get_options())
        spent = Spent() if place is None else ledger.total(place[1])
        plans.sort(key=lambda one: -(one.ratio or 0))
        return cls(plans=tuple(plans), spent=spent, failures=tuple(failures), stats=store.stats())

    def __str__(self) -> str:
        return as_text(self.sections()[:1])

    def sections(self) -> tuple[Section, ...]:
        """Return the sections of the report: totals, plans, and losses."""
        made = [self._totals(), self._plans(), self._lost()]
        return tuple(section for section in made if section.facts or len(section.table) > 1)

    def _totals(self) -> Section:
        gains = [one.ratio for one in self.plans if one.ratio]
        facts = [
            ("cache", f"{self.stats.folder or 'in memory'} ({self.stats.access}), {self.stats.n_bytes / 1e6:,.1f} MB"),
            ("plans", f"{len(self.plans):,}, of which {len(gains):,} are faster than the default kernel"),
            ("products counted", f"{self.spent.n_calls:,}, which took {seconds(self.spent.product_s)}"),
            ("time spent on tuning", seconds(sum(one.plan.tune_s for one in self.plans))),
        ]
        if gains:
            mean = math.exp(sum(map(math.log, gains)) / len(gains))
            facts.append(("gain of tuned plans", f"{mean:.2f} times as fast as the default (geometric mean)"))
        return Section(title="What was tuned and saved", facts=tuple(facts))

    def _plans(self) -> Section:
        head = ("product", "gain", "default", "tuned", "tuning took", "pays after", "what runs")
        rows = [
            (
                one.what,
                "" if one.ratio is None else f"{one.ratio:.2f}",
                seconds(one.plan.default_s) if one.plan.default_s else "",
                seconds(one.plan.measured_s) if one.plan.measured_s and not one.plan.is_default else "",
                seconds(one.plan.tune_s),
                f"{math.ceil(one.plan.break_even_runs):,}" if one.plan.break_even_runs else "",
                one.name,
            )
            for one in self.plans[:N_LISTED]
        ]
        more = len(self.plans) - N_LISTED
        return Section(
            title=f"Plans{f', the first {N_LISTED}; {more:,} more' if more > 0 else ''}", table=(head, *rows)
        )

    def _lost(self) -> Section:
        """Return the section on losses: tuning that kept the default kernel, and kernels that failed to build."""
        in_vain = [one for one in self.plans if one.plan.is_default and one.plan.tune_s > 0]
        head = ("what", "how often", "why")
        spent = seconds(sum(one.plan.tune_s for one in in_vain))
        rows = [("tuning that kept the default kernel", f"{len(in_vain):,}", f"took {spent}")] if in_vain else []
        rows += [("a kernel failed", f"{one.n_times:,}", one.reason[:200]) for one in self.failures[:N_LISTED]]
        return Section(title="What was lost", table=(head, *rows))

    def html(self, path: Path, *, pictures: bool | None = None) -> Path:
        """Write one self-contained page; `pictures` None draws plots if matplotlib is installed."""
        if pictures:
            require_matplotlib()
        drawn = self._pictures() if pictures or (pictures is None and have_matplotlib()) else []
        write_whole(path, as_html("autosparse: tuned, saved and lost", self.sections(), drawn))
        return path

    def _pictures(self) -> list[tuple[str, bytes]]:
        gains = [one.ratio for one in self.plans if one.ratio]
        paid = [(one.plan.tune_s, one.plan.break_even_runs) for one in self.plans if one.plan.break_even_runs]
        drawn = []
        if gains:
            figure, axes = new_figure(5.2, 3)
            axes.hist(gains, bins=min(30, max(5, len(gains))), color=DARK, edgecolor=LIGHT)
            axes.set(xlabel="default kernel's time over the plan's", ylabel="plans")
            drawn.append(("How much faster tuned plans are", as_png(figure)))
        if paid:
            figure, axes = new_figure(5.2, 3)
            axes.loglog([max(one, 1e-6) for one, _ in paid], [max(one, 1.0) for _, one in paid], "o", color=DARK)
            axes.set(xlabel="seconds spent on tuning", ylabel="products until tuning has paid for itself")
            drawn.append(("What tuning cost, and after how many products it had paid for itself", as_png(figure)))
        return drawn
