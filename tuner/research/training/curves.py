"""Learning curves as CSV and, where matplotlib is installed, as plots (WACO Fig. 15)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import nan
from pathlib import Path
from typing import Any, Final

from autosparse.tuner.research.training.ranking import Ranking

from autosparse.errors import MissingExtraError

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
