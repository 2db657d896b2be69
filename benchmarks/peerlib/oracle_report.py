"""Tables of `oracle.py`: speed of each tier relative to the oracle and the default kernel, averaged over groups."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from peerlib.summary import percentile
from peerlib.table import markdown

TIERS: Final = ("default", "estimate", "measure", "long")
MAX_LOAD: Final = 0.25
"""Number of processors that other processes may keep busy during a race, or during a decision that is raced at once."""
N_DRAWS: Final = 2000
"""Number of bootstrap draws of groups for a 90 % interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One matrix and operation after its race.

    `ratios` are the times of each tier's choice over the default kernel's.
    """

    operation: str
    group: str
    matrix: str
    ratios: Mapping[str, float]
    claimed: Mapping[str, float]
    oracle: float  # minimum ratio of the race, at most 1
    is_disturbed: bool  # whether other processes were busy in every try of the race
    is_long: bool  # whether the long search timed enough schedules


def outcomes(records: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """Return the cases that have a search and a race, and whose race contained the choice of every tier."""
    steps = {(one["case"], one["step"]): one for one in records}
    found = []
    for case in sorted({one["case"] for one in records}):
        search, race = steps.get((case, "search")), steps.get((case, "race"))
        if search is None or race is None:
            continue
        chosen = {**race.get("tiers", search["tiers"]), "long": search["long"]}
        if not all(one["schedule"] is None or one["schedule"] in race["ratios"] for one in chosen.values()):
            continue  # a tier's choice was not raced; `report` counts these cases
        ratios = {"default": 1.0} | {
            tier: 1.0 if one["schedule"] is None else race["ratios"][one["schedule"]] for tier, one in chosen.items()
        }
        claimed = {
            tier: one["claimed"] for tier, one in chosen.items() if one["claimed"] and one["schedule"] is not None
        }
        found.append(
            Outcome(
                operation=search["operation"], group=search["group"], matrix=search["matrix"], ratios=ratios,
                claimed=claimed, oracle=min(1.0, *race["ratios"].values()), is_long=search["is_long"],
                is_disturbed=race.get("others_load", 0.0) > MAX_LOAD,
            )
        )  # fmt: skip
    return found


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean of at least one value."""
    return math.exp(statistics.fmean(map(math.log, values)))


def by_group(cases: Sequence[Outcome], value: Any) -> list[float]:  # Any: a function of an Outcome
    """Return the geometric mean of each group, so that groups with many matrices do not dominate."""
    groups: dict[str, list[float]] = {}
    for one in cases:
        groups.setdefault(one.group, []).append(value(one))
    return [geomean(values) for values in groups.values()]


def interval(values: Sequence[float], *, seed: int = 0) -> tuple[float, float]:
    """Return the 5th and 95th percentile of the geometric mean over N_DRAWS bootstrap draws of groups."""
    rng = random.Random(seed)
    means = sorted(geomean(rng.choices(values, k=len(values))) for _ in range(N_DRAWS))
    return percentile(means, 5), percentile(means, 95)


def report(records: Sequence[Mapping[str, Any]]) -> str:
    """Format two tables in Markdown: relative to the oracle and the default kernel, and claimed against delivered."""
    cases = outcomes(records)
    if not cases:
        return "no case has both its search and its race yet"
    short = sum(not one.is_long for one in cases)
    shares = [
        ["operation", "groups", "matrices", "tier", "of the oracle", "90 %", "5 %", "over default", "least group"]
    ]
    claims = [["operation", "tier", "cases", "claimed", "delivered", "delivered / claimed", "5 %"]]
    for operation in dict.fromkeys(one.operation for one in cases):
        of_op = [one for one in cases if one.operation == operation]
        for tier in TIERS:
            shares.append(_share_row(operation, tier, of_op))
            if (row := _claim_row(operation, tier, of_op)) is not None:
                claims.append(row)
    note = f"{len(cases)} cases; in {short} the long search timed less than three times what `measure` did."
    if n_disturbed := sum(one.is_disturbed for one in cases):
        note += f" In {n_disturbed} other processes were busy beside the races."
    n_raced = sum(one["step"] == "race" for one in records)
    if n_raced > len(cases):
        note += (
            f" Left out: {n_raced - len(cases)} cases in which a tier's choice did not fit into memory during the race."
        )
    return f"{markdown(shares)}\n\n{markdown(claims)}\n\n{note}"


def _share_row(operation: str, tier: str, cases: Sequence[Outcome]) -> list[str]:
    groups = by_group(cases, lambda one: one.oracle / one.ratios[tier])
    speeds = by_group(cases, lambda one: 1.0 / one.ratios[tier])
    low, high = interval(groups)
    worst = percentile(sorted(one.oracle / one.ratios[tier] for one in cases), 5)
    return [
        operation, str(len(groups)), str(len(cases)), tier, f"{geomean(groups):.3f}", f"{low:.3f} to {high:.3f}",
        f"{worst:.3f}", f"{geomean(speeds):.2f}", f"{min(speeds):.2f}",
    ]  # fmt: skip


def _claim_row(operation: str, tier: str, cases: Sequence[Outcome]) -> list[str] | None:
    """Return a row over the cases in which the tier chose another kernel than the default one, or None."""
    taken = [one for one in cases if tier in one.claimed]
    if not taken:
        return None
    claimed = geomean([1.0 / one.claimed[tier] for one in taken])
    delivered = geomean([1.0 / one.ratios[tier] for one in taken])
    quotients = sorted(one.claimed[tier] / one.ratios[tier] for one in taken)
    return [
        operation, tier, str(len(taken)), f"{claimed:.2f}", f"{delivered:.2f}", f"{geomean(quotients):.3f}",
        f"{percentile(quotients, 5):.3f}",
    ]  # fmt: skip
