"""Measure what `calibrate` gains on a kind of machine that was left out of training.

    python benchmarks/calibrated_kinds.py --matrices DIR --ops spmm32 --out benchmarks/results/calibrated_kinds

The benchmark replays committed measurements, as benchmarks/kinds.py does. Trees are fitted to all other kinds. Then,
N_DRAWS times, a few training patterns of the left-out kind, from distinct groups, play the role of a user's
measurements, and `tuner.research.calibration.choose` selects an adjustment.

The score "top 1" is the share of the best measured speed that the first predicted schedule reaches, on the kind's
validation and open held-out patterns. The default kernel counts among the best. The table shows it before calibration,
after the chosen adjustment, and after each adjustment by itself. The last is for comparison only: a user does not have
the test data.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.learned.scorers import n_inputs
from autosparse.tuner.research.calibration.adjustments import ADJUSTMENTS, Adjustment
from autosparse.tuner.research.calibration.choice import choose
from autosparse.tuner.research.calibration.examples import Example
from kinds import FEWEST, SPLITS, WAYS, Seen, data_folders, default_share, fitted, prepared, share
from peerlib.environment import matrices_folder
from peerlib.table import markdown

N_DRAWS: Final = 20
N_PATTERNS: Final = (5, 20)
Predicted = Callable[[Seen], np.ndarray]


def example(one: Seen, predicted: Predicted, n_sketch: int) -> Example:
    """Return a measured pattern as an `Example`, which `calibrate` reads."""
    case = one.case
    programs = one.rows[:, n_sketch:].astype(np.int16)
    return Example(case.recipe.group, one.rows[0, :n_sketch], programs, predicted(one), case.ratios, case.censored)


def adjusted(adjustment: Adjustment, predicted: Predicted, n_sketch: int) -> Predicted:
    """Return `predicted` followed by the adjustment."""
    return lambda one: adjustment.on(example(one, predicted, n_sketch))


def top1(cases: Sequence[Seen], predicted: Predicted) -> float:
    """Return the geometric mean over `cases` of best measured time / time of the first predicted schedule.

    The best may be the default kernel.
    """
    logs = []
    for one in cases:
        ratios = np.minimum(one.case.ratios, 1e3)
        logs.append(math.log(min(1.0, float(ratios.min())) / float(ratios[int(predicted(one).argmin())])))
    return math.exp(float(np.mean(logs)))


def drawn(own: Sequence[Seen], k: int, seed: int) -> list[Seen]:
    """Draw `k` patterns, from distinct groups as long as there are enough groups."""
    rng = np.random.default_rng([26, seed])
    order = [own[at] for at in rng.permutation(len(own)).tolist()]
    first: dict[str, Seen] = {}
    for one in order:
        first.setdefault(one.case.recipe.group, one)
    rest = [one for one in order if one is not first[one.case.recipe.group]]
    return [*first.values(), *rest][:k]


def judged(op: str, seen: Sequence[Seen], kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Return a record for each kind and number of patterns."""
    n_sketch = n_inputs(seen[0].case.recipe.n_dims)
    found = []
    for kind in kinds or sorted({one.kind for one in seen}):
        own = [one for one in seen if one.kind == kind and one.case.split == "train"]
        tests = [one for one in seen if one.kind == kind and one.case.split in SPLITS]
        others = [one for one in seen if one.kind != kind and one.case.split == "train"]
        if min(len(own), len(tests), len(others)) < 2 * FEWEST:
            continue
        before = _remembered(fitted(others, WAYS["as shipped"], n_sketch))
        for k in N_PATTERNS:
            found.append({"op": op, "kind": kind, "patterns": k, **_drawn_often(own, tests, before, k, n_sketch)})
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def _remembered(predicted: Predicted) -> Predicted:
    known: dict[int, np.ndarray] = {}
    return lambda one: known[id(one)] if id(one) in known else known.setdefault(id(one), predicted(one))


def _drawn_often(
    own: Sequence[Seen], tests: Sequence[Seen], before: Predicted, k: int, n_sketch: int
) -> dict[str, Any]:
    ways: dict[str, list[float]] = {}
    chosen, estimates = [], []
    for seed in range(N_DRAWS):
        examples = [example(one, before, n_sketch) for one in drawn(own, k, seed)]
        choice = choose(examples)
        after = adjusted(choice.adjustment, before, n_sketch)
        chosen.append(choice.way)
        estimates.append(share(tests, after))
        ways.setdefault("chosen", []).append(top1(tests, after))
        for way, fit in ADJUSTMENTS.items():
            ways.setdefault(way, []).append(top1(tests, adjusted(fit(examples), before, n_sketch)))
    return {
        "tests": len(tests),
        "top1": ways,
        "chosen": dict(Counter(chosen)),
        "estimate": {"before": share(tests, before), "after": estimates, "default": default_share(tests)},
    }


def report(records: Sequence[Mapping[str, Any]]) -> str:
    """Format the records as a Markdown table."""
    ways = ("chosen", *list(ADJUSTMENTS)[1:])
    rows = [["operation", "kind", "measured", "judged by", "top 1 before", *(f"after {way}" for way in ways),
             "least of the chosen", "chosen", "estimate before, after (default)"]]  # fmt: skip
    for one in records:
        top, estimate = one["top1"], one["estimate"]
        rows.append(
            [
                one["op"], one["kind"], str(one["patterns"]), str(one["tests"]), f"{top['nothing'][0]:.3f}",
                *(f"{statistics.fmean(top[way]):.3f}" for way in ways), f"{min(top['chosen']):.3f}",
                ", ".join(f"{way} {n}" for way, n in sorted(one["chosen"].items())),
                f"{estimate['before']:.3f}, {statistics.fmean(estimate['after']):.3f} ({estimate['default']:.3f})",
            ]
        )  # fmt: skip
    return markdown(rows)


HEAD: Final = """# Calibration on kinds of machines left out of training

Written by `python benchmarks/calibrated_kinds.py`, whose docstring explains the columns. Means over 20 draws.
"""


def main(given: Sequence[str] | None = None) -> int:
    """Fit, draw, evaluate, and write OUT.jsonl and OUT.md."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--matrices", type=Path, default=matrices_folder(), help="folder of matrices")
    parser.add_argument("--ops", default="spmm32")
    parser.add_argument(
        "--kinds", default="", metavar="KIND,KIND", help="kinds to leave out, one at a time (default: all)"
    )
    parser.add_argument("--out", type=Path, help="output path without suffix")
    args = parser.parse_args(given)
    records: list[dict[str, Any]] = []
    for op in args.ops.split(","):
        kinds = [kind for kind in args.kinds.split(",") if kind]
        records += judged(op, prepared(op, args.matrices, data_folders()), kinds)
    text = report(records)
    print(text)
    if args.out:
        args.out.with_suffix(".jsonl").write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
        args.out.with_suffix(".md").write_text(f"{HEAD}\n{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
