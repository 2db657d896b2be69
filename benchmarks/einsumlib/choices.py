"""Benchmark `choice`: the programs that the model and the race choose, against the fastest of the frontier."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from autosparse.contraction.choice import RankedPrograms
from autosparse.contraction.lower.bound import bound
from autosparse.contraction.lower.kernel import compiled, execute
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.race import race
from einsumlib.inputs import EXPRESSIONS, GRAPHS, Problem, geometric_mean, is_asked, load, seconds
from einsumlib.report import table

WORTH_RUNNING = 50.0
"""Maximum price, relative to the lowest price, of members of the frontier that are run."""
N_ROUNDS = 7


def measured(folder: Path) -> list[dict[str, Any]]:
    """Return a row per graph and expression, with the minimum time of every member over interleaved rounds.

    The model chooses for a first call, whose time includes reordering the operands. The race chooses for later calls;
    it runs before the measurement.
    """
    rows = []
    for name in GRAPHS:
        A = load(folder, name)
        for expression in list(EXPRESSIONS)[2:]:
            if not is_asked(name, expression):
                continue
            problem = Problem(expression, [A] * (expression.count(",") + 1))
            choice, later = problem.choice(), problem.choice(are_copies_kept=True)
            won = race(later, problem.named, problem.extents).program.plan.text
            members = worth_running(choice)
            times = least_times(problem, members, are_copies_kept=False)
            row = {"graph": name, "expression": expression, "n_run": len(members), "best_s": min(times)}
            row["model"] = times[0] / min(times)
            members = worth_running(later)
            times = least_times(problem, members, are_copies_kept=True)
            at = next(n for n, (_, plan) in enumerate(members) if plan.text == won)
            rows.append(row | {"best_later_s": min(times), "timed": times[at] / min(times)})
            print(f"{name:16} {expression:14} {rows[-1]['model']:.2f} {rows[-1]['timed']:.2f}", flush=True)
    return rows


def worth_running(choice: RankedPrograms) -> list[tuple[float, EinsumPlan]]:
    """Return (price, plan) of members whose price is at most WORTH_RUNNING times the lowest."""
    return [(price, plan) for price, plan, _ in choice.plans if price <= WORTH_RUNNING * choice.plans[0][0]]


def least_times(problem: Problem, members: list[tuple[float, EinsumPlan]], *, are_copies_kept: bool) -> list[float]:
    """Return the minimum seconds of each plan, in a first call or in later ones."""
    runs = [one_run(problem, plan, price, are_copies_kept) for price, plan in members]
    times = np.full((N_ROUNDS, len(runs)), np.inf)
    for turn in times:
        for n, run in enumerate(runs):
            problem.forget_copies()
            turn[n] = seconds(run)
    return list(times.min(axis=0))


def one_run(problem: Problem, plan: EinsumPlan, price: float, are_copies_kept: bool) -> Callable[[], Any]:
    """Return a function that makes one call of the program."""
    program = compiled(plan, problem.named, problem.extents)
    kept = bound(program, problem.named, problem.extents, price) if are_copies_kept else None
    if kept is not None:
        return lambda: kept.run(problem.named)
    return lambda: execute(program, problem.named, problem.extents, tasks=price)


def as_table(rows: list[dict[str, Any]]) -> str:
    """Format ratios to the best member, with their geometric means and 95th percentiles."""
    lines: list[list[object]] = []
    for row in rows:
        times_ms = [row["best_s"] * 1e3, row["model"], row["best_later_s"] * 1e3, row["timed"]]
        lines.append([row["graph"], f"`{row['expression']}`", row["n_run"], *times_ms])
    both = ("model", "timed")
    means = [geometric_mean(row[how] for row in rows) for how in both]
    percentiles = [float(np.percentile([row[how] for row in rows], 95)) for how in both]
    for name, found in (("geometric mean", means), ("95th percentile", percentiles)):
        lines.append([name, "", "", "", found[0], "", found[1]])
    heads = ("graph", "expression", "members run", "best ms, first call", "model", "best ms, later", "timed")
    return table(heads, lines)
