"""What the model and the race choose, against the fastest member of the frontier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from autosparse.asymptotic.lower.kernel import compiled, execute
from autosparse.asymptotic.race import race
from einsumlib.inputs import EXPRESSIONS, GRAPHS, Problem, geometric_mean, is_asked, load, seconds
from einsumlib.report import table

WORTH_RUNNING = 50.0
"""Members with more than so many times the least price are not run."""
N_ROUNDS = 7


def measured(folder: Path) -> list[dict[str, Any]]:
    """Least time of every member in interleaved rounds; the race runs before, on its own."""
    rows = []
    for name in GRAPHS:
        A = load(folder, name)
        for expression in list(EXPRESSIONS)[2:]:
            if not is_asked(name, expression):
                continue
            problem = Problem(expression, [A] * (expression.count(",") + 1))
            choice = problem.choice()
            won = race(choice, problem.named, problem.extents)[0].program.plan.text
            members = [(price, plan) for price, plan, _ in choice.plans if price <= WORTH_RUNNING * choice.plans[0][0]]
            times = least_times(problem, members)
            best = min(times)
            at = next(n for n, (_, plan) in enumerate(members) if plan.text == won)
            row = {"graph": name, "expression": expression, "n_run": len(members), "best_s": best}
            rows.append(row | {"model": times[0] / best, "timed": times[at] / best})
            print(f"{name:16} {expression:14} {rows[-1]['model']:.2f} {rows[-1]['timed']:.2f}", flush=True)
    return rows


def least_times(problem: Problem, members: list[tuple[float, Any]]) -> list[float]:
    """Seconds of each plan, copies of operands included."""
    programs = [(compiled(plan, problem.named, problem.extents), price) for price, plan in members]
    times = np.full((N_ROUNDS, len(programs)), np.inf)
    for turn in times:
        for n, (program, price) in enumerate(programs):
            problem.forget_copies()
            turn[n] = seconds(lambda: execute(program, problem.named, problem.extents, tasks=price))  # noqa: B023
    return list(times.min(axis=0))


def as_table(rows: list[dict[str, Any]]) -> str:
    """Ratios to the best member, and their geometric means and 95th percentiles."""
    lines: list[list[object]] = [
        [row["graph"], f"`{row['expression']}`", row["n_run"], row["best_s"] * 1e3, row["model"], row["timed"]]
        for row in rows
    ]
    both = ("model", "timed")
    lines.append(["geometric mean", "", "", "", *(geometric_mean(row[how] for row in rows) for how in both)])
    percentiles = [float(np.percentile([row[how] for row in rows], 95)) for how in both]
    lines.append(["95th percentile", "", "", "", *percentiles])
    return table(("graph", "expression", "members run", "best ms", "model", "timed"), lines)
