"""Fit the rates of the statistics model of MTTKRP (`tuner.analytic.mttkrp.TensorRates`) to measured schedules.

    python benchmarks/tensor_rates.py --measure 30 --data build/data/training/xeon480    # tensors of order 4 and 5
    python benchmarks/tensor_rates.py --data build/data/training/xeon480 --matrices FOLDER

Data collections contain tensors of order 3. Tensors of order 4 and 5 are generated from those of order 3 by adding one
or two modes. A new mode is short or long; its indices are uniform, popular, or a function of another mode with noise.
`--measure N` times schedules of the library's space on N of them and stores the times beside the collection
(mttkrp16-more.npz). The fit minimises the errors of log ratios to the default kernel, with equal weight per pattern,
and with a small weight the errors of the default kernel's own time.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.optimize
from autosparse.tuner.analytic.mttkrp import TensorRates, tensor_facts, terms
from autosparse.tuner.research.collect.batches import Batches
from autosparse.tuner.research.collect.files import REFUSED, Measurements, merge, read_merged
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.research.generators.base import FAMILIES, generate
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.space import spaces
from numpy.typing import NDArray
from peerlib.environment import matrices_folder
from peerlib.summary import Distribution
from peerlib.table import markdown

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule

Floats = NDArray[np.float64]

OP: Final = OPS["mttkrp16"]
MORE: Final = "mttkrp16-more.npz"
PATTERN_S: Final = 8.0
"""Seconds of a pattern after which no new batch of schedules starts."""
N_DRAWN: Final = 48
SHARE_BEST: Final = 0.4
"""Fraction of the drawn schedules that are favourites of the current model."""
TAKEN_BELOW: Final = 0.9
"""Predicted ratio below which `estimate` accepts a schedule without measuring it."""
PULL: Final = 0.02
"""Weight of the pull towards the current rates, which determines terms that no pattern has."""


# -- tensors of order 4 and 5 ------------------------------------------------------------------------------------------


def tensor_of(recipe: Recipe, folder: Path | None) -> Coordinates:
    """Return the pattern of `recipe`; add modes beyond the third as the module's docstring describes."""
    if recipe.n_dims == 3:
        return recipe.make(folder)
    found = generate(recipe.source, nnz=recipe.nnz, seed=recipe.seed)
    rng = np.random.default_rng([recipe.seed, recipe.n_dims])
    shape, indices = list(found.shape), list(found.indices)
    while len(shape) < recipe.n_dims:
        extent = int(2.0 ** rng.uniform(1.0, 15.0))
        indices.append(_mode(rng, indices, extent))
        shape.append(extent)
    order = rng.permutation(len(shape))
    return Coordinates.of([shape[n] for n in order], [indices[n] for n in order])


def _mode(rng: np.random.Generator, others: Sequence[NDArray[np.int64]], extent: int) -> NDArray[np.int64]:
    n = others[0].size
    kind = rng.integers(3)
    if kind == 0:
        return rng.integers(0, extent, n)
    if kind == 1:  # popular indices
        return np.minimum(extent - 1, (extent * rng.random(n) ** rng.uniform(1.5, 6.0)).astype(np.int64))
    which = others[int(rng.integers(len(others)))]
    found = which * 7919 % extent
    return np.where(rng.random(n) < rng.uniform(0.0, 0.5), rng.integers(0, extent, n), found)


def recipes(n: int, seed: int) -> Iterator[Recipe]:
    """Yield `n` recipes of order 4 and 5 in alternation."""
    families = [name for name, row in FAMILIES.items() if row.n_dims == 3]
    rng = np.random.default_rng([seed, 45])
    for at in range(n):
        nnz, number = int(np.exp(rng.uniform(np.log(3e4), np.log(6e5)))), int(rng.integers(1 << 40))
        source = families[at // 2 % len(families)]
        group = f"generated:{source}:{number}"
        yield Recipe(kind="generated", source=source, group=group, n_dims=4 + at % 2, nnz=nnz, seed=number)


def measure(n: int, path: Path, seed: int) -> None:
    """Measure the patterns among `n` that `path` lacks; store the results after every pattern."""
    from autosparse.tuner.analytic.models import statistics_model

    from autosparse.calibration.collection import context_for
    from autosparse.tuning.memory.machine_facts import machine_facts

    done = read_merged(path) if path.exists() else []
    known = {one.recipe for one in done}
    for recipe in recipes(n, seed):
        if recipe in known:
            continue
        pattern = tensor_of(recipe, None)
        op = dataclasses.replace(OP, n_dims=recipe.n_dims)
        with context_for(pattern, op) as context:
            problem, batches = context.problem, Batches(context)
            chosen = drawn(problem, context.supports, statistics_model(problem), np.random.default_rng(recipe.seed))
            batches.run(chosen, until_s=batches.clock() + PATTERN_S)
            columns, batch_columns = batches.columns()
            facts: dict[str, Any] = {
                "op": OP.name, "operation": OP.operation, "n_dense_cols": OP.n_dense_cols, "dtype": problem.dtype,
                "threads": problem.threads, "recipe": dataclasses.asdict(recipe), "held_out": False,
                "shape": list(pattern.shape), "nnz": pattern.nnz, "sparsity_hash": problem.pattern.sparsity_hash,
                "seed": seed, "measured_at": int(time.time()), "machine": machine_facts(),
            }  # fmt: skip
            schedules = [one.schedule.to_json() for one in batches.timings]
        done.append(Measurements(facts, schedules, columns, batch_columns))
        merge(done, path)
        best = np.nanmin(columns["ratio"], initial=np.inf)
        print(
            f"{recipe.source:<18} {pattern.shape}: {len(schedules)} times, best {best:.2f} of the default", flush=True
        )


def drawn(problem: Problem, supports: Any, model: Any, rng: np.random.Generator) -> list[SuperSchedule]:
    """Return the model's favourites and draws of the whole space, in random order."""
    whole = spaces.everything(problem, supports)
    best = np.argsort(model.rank(problem, whole))[: int(SHARE_BEST * N_DRAWN)].tolist()
    found = dict.fromkeys([*best, *rng.permutation(len(whole)).tolist()])
    chosen = list(found)[:N_DRAWN]
    return [whole[at] for at in rng.permutation(chosen).tolist()]


# -- the fit -----------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """Measured schedules of one pattern."""

    recipe: Recipe
    terms: Floats  # row of the default kernel, then rows of the schedules
    log_ratios: Floats
    default_ns: float


def cases(folders: Sequence[Path], matrices: Path | None) -> Iterator[Case]:
    """Yield the cases of the collections in `folders`; patterns whose files are missing in `matrices` are skipped."""
    for folder in folders:
        for name in (f"{OP.name}.npz", MORE):
            for one in read_merged(folder / name) if (folder / name).exists() else []:
                try:
                    found = _case(one, matrices)
                except FileNotFoundError:
                    continue
                if found is not None:
                    yield found


def _case(one: Measurements, matrices: Path | None) -> Case | None:
    pattern: Any = tensor_of(one.recipe, matrices).to_structure()
    problem = Problem(
        operation=OP.operation, pattern=pattern, transposed=False, n_dense_cols=OP.n_dense_cols, dtype="float32",
        threads=one.facts["threads"], deterministic=False, target=one.target,
    )  # fmt: skip
    kept = [
        (schedule, ratio)
        for text, ratio, status in zip(one.schedules, one["ratio"].tolist(), one["status"].tolist(), strict=True)
        if status != REFUSED and ratio > 0 and is_ours(schedule := SuperSchedule.from_json(text))
    ]
    if len(kept) < 4:
        return None
    found = terms(tensor_facts(pattern, 0), problem, [None, *(schedule for schedule, _ in kept)])
    default_ns = 1e9 * float(np.nanmedian(one.batches["default_s"]))
    return Case(one.recipe, found, np.log([ratio for _, ratio in kept]), default_ns)


def is_ours(one: SuperSchedule) -> bool:
    """Return whether the model covers the schedule.

    It covers schedules with rows outermost, no splits, all columns before the other modes, and all threads.
    """
    fmt = one.format
    return (
        fmt.order[0] == "i1" and not fmt.splits and one.threads == 0 and one.parallel == "i1"
        and tuple(one.loop_order[:2]) == ("i1", "j1")
    )  # fmt: skip


def fitted(train: Sequence[Case], start: Floats) -> Floats:
    """Return the rates with the least error on `train`, starting from `start`."""

    def errors(logs: Floats) -> Floats:
        rates = np.exp(logs)
        found = [PULL * (logs - np.log(start))]
        for case in train:
            times = case.terms @ rates
            ratio_errors = np.log(times[1:] / times[0]) - case.log_ratios
            found += [np.clip(ratio_errors, -2, 2) * 5 / np.sqrt(ratio_errors.size)]
            found += [np.log(times[:1] / case.default_ns)]
        return np.concatenate(found)

    return np.exp(scipy.optimize.least_squares(errors, np.log(start), loss="soft_l1").x)


def quality(found: Sequence[Case], rates: Floats) -> list[str]:
    """Return a row: number of cases, Kendall's tau of ratios that differ by 3 %, and two shares of the best time.

    The shares are the best measured time over that of the chosen schedule, and over the best of the top 10.
    """
    taus, taken, top = [], [], []
    for case in found:
        times = case.terms @ rates
        guess = np.log(times[1:] / times[0])
        actual = case.log_ratios[:, None] - case.log_ratios
        far = np.abs(actual) > 0.03
        if far.any():
            taus.append(float(np.mean(np.sign(actual * (guess[:, None] - guess))[far])))
        best = min(0.0, case.log_ratios.min())
        first = np.argsort(guess)
        taken.append(best - (case.log_ratios[first[0]] if guess[first[0]] < np.log(TAKEN_BELOW) else 0.0))
        top.append(best - min(0.0, case.log_ratios[first[:10]].min()))
    shares, ten = Distribution.of(np.exp(taken).tolist()), Distribution.of(np.exp(top).tolist())
    return [str(len(found)), f"{np.mean(taus):.3f}", f"{shares.geomean:.3f} ({shares.p5:.3f})", f"{ten.geomean:.3f}"]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="collections with mttkrp16.npz")
    parser.add_argument("--matrices", type=Path, default=matrices_folder(), help="folder of real tensors")
    parser.add_argument("--measure", type=int, default=0, metavar="N", help="time N tensors of order 4 and 5, no fit")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Measure, or fit and report."""
    args = arguments(given)
    if args.measure:
        measure(args.measure, args.data[0] / MORE, args.seed)
        return 0
    found = list(cases(args.data, args.matrices))
    train = [case for case in found if not case.recipe.is_held_out]
    start = np.array(list(dataclasses.asdict(TensorRates()).values()))
    rates = fitted(train, start)
    for name, value in zip(TensorRates.__dataclass_fields__, rates, strict=True):
        print(f"{name} = {value:.3g}")
    rows = [["patterns", "rates", "n", "tau", "best over taken (5 %)", "best over top 10"]]
    for n_dims in (3, 4, 5):
        for what, is_seen in (("trained on", True), ("held out", False)):
            group = [one for one in found if one.recipe.n_dims == n_dims and one.recipe.is_held_out is not is_seen]
            for name, which in (("as they are", start), ("fitted", rates)) if group else ():
                rows.append([f"order {n_dims}, {what}", name, *quality(group, which)])
    print(markdown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
