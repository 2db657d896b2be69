"""Measure how far the predictions of cost models are from measured times, where an estimate would use them.

    python benchmarks/uncertainty.py --matrices DIR --ops spmv,spmm32,spmm256 --out build/uncertainty

Boosted trees are fitted to the training groups of one kind of machine (*own*) and of all other kinds (*others*), as in
`benchmarks/kinds.py`. An estimate takes the program with the smallest predicted ratio to the default kernel. Its error
is the natural logarithm of measured over predicted ratio of this one program, which is worse than the mean error of all
programs, because the smallest of many predictions is more often too small than too large.

The *allowance* is a quantile of these errors. The rule of `autosparse.tuner.search.style` takes an unmeasured
program if it gains even then: if log(predicted ratio) + allowance < 0. Validation groups give the quantiles, and
held-out groups show what the rule reaches. That is the geometric mean, and the 5th percentile, of (best measured time)
/ (time of what the rule takes). The part of patterns for which it takes a slower program than the default is beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.learned.scorers import GUESS_STEPS, n_inputs
from kinds import FEWEST, WAYS, Seen, data_folders, fitted, prepared
from peerlib.environment import matrices_folder
from peerlib.table import markdown

LEVELS: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Quantiles of the error that the rule may allow for."""


def rows_of(op: str, seen: Sequence[Seen]) -> Iterator[dict[str, Any]]:
    """Yield a row per case, kind of machine and model: what an estimate takes, predicted and measured."""
    way, n_sketch = WAYS["as shipped"], n_inputs(seen[0].case.recipe.n_dims)
    for kind in sorted({one.kind for one in seen}):
        tests = [one for one in seen if one.kind == kind and one.case.split in ("validation", "held_out")]
        train = [one for one in seen if one.case.split == "train"]
        for name in ("own", "others"):
            cases = [one for one in train if (one.kind == kind) == (name == "own")]
            if len(tests) < FEWEST or len({one.case.recipe for one in cases}) < FEWEST:
                continue
            model = fitted(cases, way, n_sketch)
            for one in tests:
                yield {"op": op, "kind": kind, "model": name, **_taken(one, model(one))}
        for one in tests:
            yield {"op": op, "kind": kind, "model": "statistics", **_taken(one, one.rows[:, -1] / GUESS_STEPS)}


def _taken(one: Seen, costs: np.ndarray) -> dict[str, Any]:
    """Return prediction and measurement of the program with the smallest of `costs`, logarithms of ratios, (n,)."""
    usable = one.accepted[False] > 0.0
    best = int(np.where(usable, costs, np.inf).argmin())
    ratios = np.minimum(one.case.ratios, 1e3)
    return {
        "split": one.case.split,
        "group": one.case.recipe.group,
        "predicted": float(costs[best]),
        "measured": math.log(float(ratios[best])),
        "guess": float(one.rows[best, -1]) / GUESS_STEPS,
        "best": math.log(min(1.0, float(ratios.min()))),
    }


def errors(rows: Sequence[dict[str, Any]], split: str) -> np.ndarray:
    """Return the errors of the rows that predict a gain of 1 % or more."""
    hopeful = [row for row in rows if row["split"] == split and row["predicted"] < math.log(0.99)]
    return np.array([row["measured"] - row["predicted"] for row in hopeful])


def reached(rows: Sequence[dict[str, Any]], split: str, allowance: float) -> tuple[float, float, float]:
    """Return share of the best (geometric mean, 5th percentile) and the part of slower choices under the rule."""
    logs, slower = [], 0
    for row in rows:
        if row["split"] == split:
            takes = row["predicted"] + allowance < 0.0
            logs.append(row["best"] - (row["measured"] if takes else 0.0))
            slower += takes and row["measured"] > math.log(1.03)
    return math.exp(float(np.mean(logs))), math.exp(float(np.quantile(logs, 0.05))), slower / len(logs)


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table of allowances and of what the rule reaches on both splits; kinds of machines are pooled."""
    table = [["operation", "model", "errors", "level", "allowance", "validation", "slower", "held out", "slower"]]
    for op, model in sorted({(row["op"], row["model"]) for row in rows}):
        mine = [row for row in rows if (row["op"], row["model"]) == (op, model)]
        found = errors(mine, "validation")
        for level in LEVELS if len(found) else ():
            allowance = float(np.quantile(found, level))
            table.append([op, model, str(len(found)), f"{level}", f"{allowance:.3f}", *_cells(mine, allowance)])
        table.append([op, model, "", "", "default", *_cells(mine, math.inf)])
    return markdown(table)


def _cells(rows: Sequence[dict[str, Any]], allowance: float) -> Iterator[str]:
    for split in ("validation", "held_out"):
        mean, low, slower = reached(rows, split, allowance)
        yield from (f"{mean:.3f} ({low:.3f})", f"{slower:.2f}")


def main(given: Sequence[str] | None = None) -> int:
    """Fit, evaluate, and write OUT.jsonl and OUT.md."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--matrices", type=Path, default=matrices_folder(), help="folder of matrices")
    parser.add_argument("--ops", default="spmv,spmm32,spmm256,sddmm32,sddmm256")
    parser.add_argument("--out", type=Path, help="output path without suffix; operations that it holds are kept")
    args = parser.parse_args(given)
    path = args.out.with_suffix(".jsonl") if args.out else None
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path and path.exists() else []
    for op in args.ops.split(","):
        if op not in {row["op"] for row in rows}:
            rows += rows_of(op, prepared(op, args.matrices, data_folders()))
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = report(rows)
    print(text)
    if args.out:
        args.out.with_suffix(".md").write_text(f"{HEAD}\n{text}\n", encoding="utf-8")
    return 0


HEAD: Final = """# Errors of cost models where an estimate would use them

Written by `python benchmarks/uncertainty.py`, whose docstring explains the rule; trees of 100 (shipped: 300 to 400),
samples of `benchmarks/data` (float32, two threads). *Errors*: validation patterns for which a gain of 1 % or more was
predicted. Under *validation* and *held out*: share of the best measured speed, geometric mean (5th percentile).
*Slower*: part of all patterns for which the choice takes more than 1.03 of the default kernel's time. `default`: the
default kernel for every pattern. Level 0.7 is the library's.
"""


if __name__ == "__main__":
    sys.exit(main())
