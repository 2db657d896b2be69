"""Ranking metrics that are reported for every cost model (WACO sections 5.2, 5.3), and learning curves (Fig. 15).

For one pattern, `costs` (n,) are predictions, lower is better, and `ratios` (n,) are measured times over the default
kernel's. A schedule that left its race early is `censored`: its time is at least its ratio. Pairs whose order is
therefore unknown do not count.

Curves are written as CSV and, where matplotlib is installed, as plots.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import nan
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, Sign, WideIndex
from autosparse.errors import MissingExtraError

Floats = NDArray[np.floating[Any]]
Flags = NDArray[Flag]

TOP: Final = (1, 5, 10)
LOW_QUANTILE: Final = 0.05


def known_order(ratios: Floats, censored: Flags) -> NDArray[Sign]:
    """Return sign(time_i - time_j), (n, n): 1, 0 or -1; also 0 where censoring leaves the order open."""
    sign = np.sign(ratios[:, None] - ratios[None, :])
    # i is known to be slower than j only if j's time is exact; i's may be a lower bound.
    open_pairs = ((sign >= 0) & censored[None, :]) | ((sign <= 0) & censored[:, None])
    sign[open_pairs] = 0
    return sign.astype(Sign)


def ordered_pairs(costs: Floats, ratios: Floats, censored: Flags) -> float:
    """Return the share of pairs with known order that are predicted in order; cost ties count half.

    nan without pairs.
    """
    known, predicted = _pairs(costs, ratios, censored)
    agreement = (known * predicted)[known != 0]
    return float((1 + agreement).mean() / 2) if agreement.size else float("nan")


def pooled_pairs(scored: Iterable[tuple[Floats, Floats, Flags]]) -> float:
    """Return the share of pairs with known order, over all (costs, ratios, censored), that are predicted in order.

    Cost ties count as wrong.
    """
    right = total = 0
    for costs, ratios, censored in scored:
        slower, faster = np.nonzero(known_order(ratios, censored) > 0)
        right += int(np.count_nonzero(costs[slower] > costs[faster]))
        total += len(slower)
    return right / max(1, total)


def kendall_tau(costs: Floats, ratios: Floats, censored: Flags) -> float:
    """Return Kendall's τ-b between costs and times; nan where one of them is constant.

    Pairs with unknown order count as ties of the times.
    """
    known, predicted = _pairs(costs, ratios, censored)
    n_pairs_known, n_pairs_predicted = np.count_nonzero(known), np.count_nonzero(predicted)
    if not n_pairs_known or not n_pairs_predicted:
        return float("nan")
    return float((known * predicted).sum(dtype=WideIndex) / np.sqrt(float(n_pairs_known) * n_pairs_predicted))


def _pairs(costs: Floats, ratios: Floats, censored: Flags) -> tuple[NDArray[Sign], NDArray[Sign]]:
    above = np.triu_indices(len(costs), 1)
    predicted = np.sign(costs[:, None] - costs[None, :]).astype(Sign)
    return known_order(ratios, censored)[above], predicted[above]


def top_quality(costs: Floats, ratios: Floats, k: int) -> float:
    """Return the best time over the best time among the k schedules with the lowest costs; 1 is perfect."""
    chosen = np.argsort(costs, kind="stable")[:k]
    return float(ratios.min() / ratios[chosen].min())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Ranking metrics averaged over patterns: shares arithmetically, times geometrically; `low`: 5th percentile."""

    n_patterns: int
    ordered_pairs: float
    kendall_tau: float
    top: dict[int, float]  # k -> best time / best of the top k
    top_low: dict[int, float]
    speedup: dict[int, float]  # k -> default kernel / best of the top k
    best_speedup: float  # default kernel / best schedule of all

    @classmethod
    def of(cls, scored: Sequence[tuple[Floats, Floats, Flags]]) -> Ranking:
        """Compute the metrics of (costs, ratios, censored) of each pattern; raise ValueError without patterns."""
        if not scored:
            raise ValueError("no pattern to rank schedules on: 0 given, at least 1 needed")
        quality = {k: np.array([top_quality(costs, ratios, k) for costs, ratios, _ in scored]) for k in TOP}
        best = np.array([ratios.min() for _, ratios, _ in scored])
        return cls(
            n_patterns=len(scored),
            ordered_pairs=float(np.nanmean([ordered_pairs(*one) for one in scored])),
            kendall_tau=float(np.nanmean([kendall_tau(*one) for one in scored])),
            top={k: _geometric(one) for k, one in quality.items()},
            top_low={k: float(np.quantile(one, LOW_QUANTILE)) for k, one in quality.items()},
            speedup={k: _geometric(one / best) for k, one in quality.items()},
            best_speedup=_geometric(1 / best),
        )

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Ranking:
        """Read the result of ``json.dumps(asdict(ranking))``, whose table keys are strings."""
        tables = ("top", "top_low", "speedup")
        return cls(**{**values, **{name: {int(k): one for k, one in values[name].items()} for name in tables}})


def _geometric(values: NDArray[np.floating[Any]]) -> float:
    return float(np.exp(np.log(values).mean()))


CURVE: Final = "curve.csv"
WEIGHTS: Final = "weights.safetensors"
RANKING: Final = "ranking.json"


@dataclass(frozen=True, slots=True)
class Epoch:
    """A row of the learning curve; nan where there is no validation data."""

    epoch: int  # numbered from 1
    train_loss: float
    validation_loss: float
    ordered_pairs: float
    kendall_tau: float
    top1: float
    top10: float
    seconds: float

    @classmethod
    def of(cls, epoch: int, losses: tuple[float, float], ranking: Ranking | None, seconds: float) -> Epoch:
        """Return the row of an epoch; `losses` are those of training and of validation."""
        known = (ranking.ordered_pairs, ranking.kendall_tau, ranking.top[1], ranking.top[10]) if ranking else (nan,) * 4
        return cls(epoch, *losses, *known, seconds)


def write_curve(path: Path, history: Sequence[Epoch]) -> None:
    """Write one row per epoch."""
    beside = path.with_name(f".{path.name}")
    with beside.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, [field.name for field in fields(Epoch)])
        rows.writeheader()
        rows.writerows(asdict(one) for one in history)
    beside.replace(path)


def read_curve(path: Path) -> list[Epoch]:
    """Read the result of `write_curve`."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Epoch(int(row.pop("epoch")), **{name: float(value) for name, value in row.items()})
            for row in csv.DictReader(file)
        ]


def draw_curves(path: Path, runs: Mapping[str, Sequence[Epoch]], *, title: str) -> None:
    """Plot losses (dashed: training) and ordered pairs over epochs; raise MissingExtraError without matplotlib."""
    figure_type = _figure_type()
    figure = figure_type(figsize=(9, 3.6), dpi=110, layout="constrained")
    losses, pairs = figure.subplots(1, 2)
    for at, (name, history) in enumerate(runs.items()):
        epochs = [one.epoch for one in history]
        losses.plot(epochs, [one.train_loss for one in history], color=f"C{at}", linestyle="--", linewidth=1)
        losses.plot(epochs, [one.validation_loss for one in history], color=f"C{at}", label=name)
        pairs.plot(epochs, [one.ordered_pairs for one in history], color=f"C{at}", label=name)
    losses.set(xlabel="epoch", ylabel="pairwise hinge loss (dashed: training)", title=title)
    pairs.set(xlabel="epoch", ylabel="ordered pairs, validation groups")
    for one in (losses, pairs):
        one.grid(alpha=0.3)
    if any(history for history in runs.values()):
        losses.legend()
    figure.savefig(path)


def _figure_type() -> Any:  # Any: matplotlib is optional
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: F401  # draws without a display
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError.needed("matplotlib", extra="plot", purpose="drawing learning curves") from error
    return Figure
