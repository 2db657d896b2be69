"""Training epochs (WACO section 4.1.3): Adam, one pattern and 32 of its schedules per step; best weights are kept.

The order of an epoch depends on (seed, epoch) alone, and checkpoints hold weights and moments exactly. A resumed run is
therefore bit-identical to an uninterrupted one.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from autosparse.tuner.features.panels import WHOLE
from autosparse.tuner.research.networks.cost_model import NetworkCostModel
from autosparse.tuner.research.networks.extractor import Observations
from autosparse.tuner.research.training.checkpoint import Checkpoint
from autosparse.tuner.research.training.data import DataSet, TrainingCase
from autosparse.tuner.research.training.pairs import hinge_loss, known_pairs
from autosparse.tuner.research.training.ranking import WEIGHTS, Epoch, Ranking
from autosparse.tuner.research.training.weights import Meaning, read_weights, write_weights

from autosparse.log import Progress

CHECKPOINT: Final = "checkpoint.pt"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSettings:
    """Settings of a run, which determine its result together with the data."""

    extractor: str
    backend: str = "own"
    seed: int = 0
    rate: float = 1e-4
    batch: int = 32
    limit: int = WHOLE  # maximum nonzeros that waconet and minkowski read
    device: str = "cpu"


class Trainer:
    """A training run in its own folder: checkpoint, best weights, ranking."""

    def __init__(self, settings: TrainerSettings, data: DataSet, folder: Path, *, start: Path | None = None) -> None:
        self.settings, self.data, self.folder = settings, data, folder
        self.meaning = Meaning(
            op=data.op,
            extractor=settings.extractor,
            dimension=data.dimension,
            parameters=data.space.parameters,
            limit=settings.limit,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.model: NetworkCostModel = self.meaning.make_model(backend=settings.backend)
        if start is not None:
            self.model.load_weights(read_weights(start)[0].weights())
        self.model.to(settings.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=settings.rate)
        self._checkpoint = Checkpoint(folder / CHECKPOINT, self.model, self.optimizer, self.identity)
        self.history = [Epoch(**row) for row in self._checkpoint.load().get("history", ())]

    @property
    def identity(self) -> dict[str, Any]:
        """Return the facts that must match those of a checkpoint to resume it."""
        return {**asdict(self.settings), "op": self.data.op, "data": self.data.digest}

    def run(self, observe: Observations, *, epochs: int, progress: Progress | None = None) -> Iterator[Epoch]:
        """Yield one Epoch at a time until there are `epochs` of them, including those of earlier runs."""
        train, validation = self.data.of("train"), self.data.of("validation")
        while len(self.history) < epochs:
            start_s = time.perf_counter()
            at = len(self.history) + 1
            train_loss = self._train(train, observe, at, progress)
            loss, ranking = self._validate(validation, observe)
            row = Epoch.of(at, (train_loss, loss), ranking, time.perf_counter() - start_s)
            self.history.append(row)
            if self.best is row:
                self._keep_weights(ranking)
            self._checkpoint.save(history=[asdict(one) for one in self.history])
            yield row

    @property
    def best(self) -> Epoch:
        """Return the epoch whose weights are kept: most validation pairs in order, or the last without validation."""
        known = [row for row in self.history if not math.isnan(row.ordered_pairs)]
        return max(known, key=lambda row: row.ordered_pairs) if known else self.history[-1]

    def _train(
        self, cases: Sequence[TrainingCase], observe: Observations, epoch: int, progress: Progress | None
    ) -> float:
        self.model.train()
        rng = np.random.default_rng([self.settings.seed, epoch])
        losses = []
        for step, at in enumerate(rng.permutation(len(cases)).tolist()):
            if progress is not None:
                progress(step / len(cases), f"epoch {epoch}, pattern {step} of {len(cases)}")
            case = cases[at]
            chosen = rng.permutation(len(case.codes))[: self.settings.batch]
            slower, faster = known_pairs(case.ratios[chosen], case.censored[chosen])
            if not len(slower):
                continue
            self.optimizer.zero_grad()
            loss = hinge_loss(self._costs(case, observe, chosen), slower, faster)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            losses.append(loss.item())
        return float(np.mean(losses)) if losses else math.nan

    def _costs(self, case: TrainingCase, observe: Observations, chosen: np.ndarray | None = None) -> torch.Tensor:
        codes = case.codes if chosen is None else case.codes[chosen]
        costs: torch.Tensor = self.model(observe(case.recipe), torch.from_numpy(codes).to(self.settings.device))
        return costs

    def _validate(self, cases: Sequence[TrainingCase], observe: Observations) -> tuple[float, Ranking | None]:
        """Return (mean loss, ranking) over all schedules of `cases`; (nan, None) without cases."""
        self.model.eval()
        losses, scored = [], []
        with torch.no_grad():
            for case in cases:
                costs = self._costs(case, observe)
                losses.append(hinge_loss(costs, *known_pairs(case.ratios, case.censored)).item())
                scored.append((costs.cpu().numpy(), case.ratios, case.censored))
        return (float(np.mean(losses)), Ranking.of(scored)) if scored else (math.nan, None)

    def rank(self, split: str, observe: Callable[[Any], Any] | Observations) -> Ranking | None:
        """Return the ranking of a split's schedules by the best weights; None without cases."""
        best, _ = read_weights(self.folder / WEIGHTS, backend=self.settings.backend)
        current = {name: value.copy() for name, value in self.model.weights().items()}
        self.model.load_weights(best.weights())
        try:
            return self._validate(self.data.of(split), observe)[1]  # type: ignore[arg-type]  # tests pass a function
        finally:
            self.model.load_weights(current)

    def _keep_weights(self, ranking: Ranking | None) -> None:
        about = {**self.identity, "epoch": len(self.history), **self.data.about(ranking)}
        write_weights(self.folder / WEIGHTS, self.model, dataclasses.replace(self.meaning, about=about))
