"""Fit of a network's dense layers to whole patterns; its convolutions are given and stay as they are.

Convolutions learn on samples of patterns (`train --limit`), because an epoch over whole patterns takes a hundred times
as long. The means of all layers over a whole pattern are then computed once, by the runtime, and kept in a folder. From
these the dense layers of pattern, programs and predictor are fitted with the same loss (WACO section 4.1.3), several
patterns per step.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from autosparse.tuner.features.panels import WHOLE
from autosparse.tuner.learned.weights import LearnedWeights
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.research.inference.embeddings import (
    dequantised,
    embed_seen,
    network_weights,
    pooled_layers,
    shape_facts,
)
from autosparse.tuner.research.networks.cost_model import NetworkCostModel
from autosparse.tuner.research.networks.extractor import FACTS_WIDTH
from autosparse.tuner.research.networks.waconet import CHANNELS, N_LAYERS
from autosparse.tuner.research.training.data import UNSEEN, DataSet, TrainingCase
from autosparse.tuner.research.training.pairs import NOISE
from autosparse.tuner.research.training.ranking import WEIGHTS, Epoch, Ranking
from autosparse.tuner.research.training.weights import Meaning, quantised, write_weights
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal, WideIndex
from autosparse.log import Progress

Floats = NDArray[NarrowReal]

SCHEDULES: Final = 32
"""Schedules of one pattern in a step, as in the paper."""
DROPOUT: Final = 0.1
DECAY: Final = 0.01
"""Weight decay of Adam; with DROPOUT it delays overfitting to a thousand patterns."""
FEWEST_PAIRS: Final = 1e-6
"""Minimum weight of all pairs of a case by which its loss is divided."""
MIN_SPREAD: Final = 1e-6
"""Minimum standard deviation by which a pooled number is divided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSettings:
    """Settings of a fit, which determine its result together with the data."""

    seed: int = 0
    rate: float = 2e-3
    patterns: int = 16  # per step
    epochs: int = 30
    focus: float = 0.0
    """Exponent of a pair's weight, which is the faster schedule's share of the oracle; 0 gives all pairs one weight.

    A greater exponent fits the head of the list at the expense of the order of slow schedules.
    """
    layers: int = N_LAYERS
    """Number of first convolutions whose means enter the dense layers; means of later ones have weight 0.

    Later layers see features of the size of a whole pattern. Those of few training patterns do not describe others.
    """


class PooledPatterns:
    """Means of a network's layers over whole patterns and the patterns' sizes, computed once per recipe.

    `folder` keeps them; `matrices` holds the real matrices that recipes name.
    """

    def __init__(self, weights: Mapping[str, NDArray[Any]], folder: Path, matrices: Path | None) -> None:
        self._weights, self._folder, self._matrices = weights, folder, matrices

    def __call__(self, recipe: Recipe) -> Floats:
        """Return the means of all layers, then `shape_facts`; raise FileNotFoundError without the real matrix."""
        path = self._folder / f"{recipe.digest()}.npy"
        if path.exists():
            known: Floats = np.load(path, allow_pickle=False)
            return known
        pattern = recipe.make(self._matrices).to_structure()
        pooled = pooled_layers(pattern, self._weights, WHOLE)
        found = np.concatenate([pooled, shape_facts((*pattern.shape, pattern.nnz))])
        self._folder.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part.npy")
        np.save(beside, found, allow_pickle=False)
        beside.replace(path)
        return found


class HeadRun:
    """Fit of the dense layers for `data`, starting from the model file `start`, to a weights file in `folder`.

    All weights of `start` whose names and shapes fit are taken over; the others are random.
    """

    def __init__(self, data: DataSet, start: Path, folder: Path, settings: HeadSettings, matrices: Path | None) -> None:
        self.data, self.settings, self.folder = data, settings, folder
        self.meaning = Meaning(
            op=data.op, extractor="waconet", dimension=data.dimension, parameters=data.space.parameters, limit=WHOLE
        )
        torch.manual_seed(settings.seed)
        self.model: NetworkCostModel = self.meaning.make_model()
        self._start_from(start)
        # What inference reads is rounded, so the dense layers are fitted to the results of rounded convolutions.
        rounded = dequantised(quantised(self.model.weights()))
        self.pooled = PooledPatterns(rounded, folder / "pooled", matrices)
        self.inputs: dict[Recipe, Floats] = {}
        self.rankings: dict[str, Ranking] = {}  # of the splits in UNSEEN, after `run`

    def _start_from(self, start: Path) -> None:
        from autosparse.tuner.research.training.weights import tensors_of

        own, stored = self.model.weights(), tensors_of(start)
        if stored["layer1.0.kernel"].shape != own["layer1.0.kernel"].shape:
            raise ValueError(f"convolutions of {start.name} are not of {self.data.dimension} dimensions")
        same = {name for name, value in own.items() if name in stored and stored[name].shape == value.shape}
        self.model.load_weights({name: stored[name] if name in same else value for name, value in own.items()})

    def run(self, progress: Progress | None = None) -> Iterator[Epoch]:
        """Fit, yielding one Epoch at a time; the weights file is written after the last one."""
        cases = [case for case in self.data.cases if case.split != "sealed"]
        self.inputs = {
            case.recipe: self._input(case.recipe, at / len(cases), progress) for at, case in enumerate(cases)
        }
        train = self.data.of("train")
        mean, spread = _moments([self.inputs[recipe] for recipe in dict.fromkeys(case.recipe for case in train)])
        n = self._n_pooled
        self._drop_later_layers()
        self._unfold(mean[:n], spread[:n])
        is_read = np.arange(n) < self._n_read
        self.inputs = {
            recipe: np.concatenate([is_read * (one[:n] - mean[:n]) / spread[:n], one[n:]]).astype(NarrowReal)
            for recipe, one in self.inputs.items()
        }
        for row in self._epochs(train):
            yield row
        self.rankings = {split: found for split in UNSEEN if (found := self.rank(split)) is not None}
        about = self._about(row)
        self._fold(mean[:n], spread[:n])
        self.folder.mkdir(parents=True, exist_ok=True)
        meaning = dataclasses.replace(self.meaning, about=about)
        write_weights(self.folder / WEIGHTS, self.model, meaning, is_rounded=True)

    def _input(self, recipe: Recipe, done: float, progress: Progress | None) -> Floats:
        if progress is not None:
            progress(done, f"reading whole patterns, {done:.0%}")
        return self.pooled(recipe)

    @property
    def _n_pooled(self) -> int:
        return self._first.in_features - FACTS_WIDTH

    @property
    def _first(self) -> torch.nn.Linear:
        layer = self.model.extractor.matrix_embedding[0]
        assert isinstance(layer, torch.nn.Linear)
        return layer

    @property
    def _n_read(self) -> int:
        """Return the number of pooled numbers that the dense layers read."""
        return min(self.settings.layers * CHANNELS, self._n_pooled)

    @torch.no_grad()
    def _drop_later_layers(self) -> None:
        """Set the weights of means that are not read to 0; without inputs they stay so."""
        self._first.weight[:, self._n_read : self._n_pooled] = 0

    @torch.no_grad()
    def _unfold(self, mean: Floats, spread: Floats) -> None:
        """Change the first layer so that it reads standardised numbers."""
        weight = self._first.weight[:, : mean.size]
        self._first.bias.add_(weight @ torch.from_numpy(mean))
        weight *= torch.from_numpy(spread)

    @torch.no_grad()
    def _fold(self, mean: Floats, spread: Floats) -> None:
        """Invert `_unfold`."""
        weight = self._first.weight[:, : mean.size]
        weight /= torch.from_numpy(spread)
        self._first.bias.sub_(weight @ torch.from_numpy(mean))

    def _epochs(self, train: Sequence[TrainingCase]) -> Iterator[Epoch]:
        rng, settings = np.random.default_rng(self.settings.seed), self.settings
        trained = [one for name, one in self.model.named_parameters() if not name.startswith("extractor.layer")]
        optimizer = torch.optim.AdamW(trained, lr=settings.rate, weight_decay=DECAY)
        n_steps = max(1, -(-len(train) // settings.patterns))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.rate, total_steps=settings.epochs * n_steps)
        for at in range(1, settings.epochs + 1):
            start_s, losses = time.perf_counter(), []
            for chosen in np.array_split(rng.permutation(len(train)), n_steps):
                optimizer.zero_grad()
                loss = self._loss([train[one] for one in chosen], rng)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
            yield self._row(at, float(np.mean(losses)), start_s)

    def _loss(self, cases: Sequence[TrainingCase], rng: np.random.Generator) -> torch.Tensor:
        """Return the hinge loss of SCHEDULES schedules of each case, averaged; pairs are weighted by `focus`."""
        picked = [_picked(len(case.codes), rng) for case in cases]
        ratios = np.stack([case.ratios[ids] for case, ids in zip(cases, picked, strict=True)])
        censored = np.stack([case.censored[ids] for case, ids in zip(cases, picked, strict=True)])
        is_known = (ratios[:, :, None] > (1 + NOISE) * ratios[:, None, :]) & ~censored[:, None, :]
        shares = (ratios.min(axis=1, keepdims=True) / ratios) ** self.settings.focus
        known = torch.from_numpy((is_known * shares[:, None, :]).astype(NarrowReal))
        codes = np.concatenate([case.codes[ids] for case, ids in zip(cases, picked, strict=True)])
        costs = self._costs(cases, torch.from_numpy(codes), is_training=True).view(len(cases), SCHEDULES)
        missed = torch.clamp(1.0 - (costs[:, :, None] - costs[:, None, :]), min=0.0) * known
        loss: torch.Tensor = (missed.sum((1, 2)) / known.sum((1, 2)).clamp(min=FEWEST_PAIRS)).mean()
        return loss

    def _costs(self, cases: Sequence[TrainingCase], codes: torch.Tensor, *, is_training: bool) -> torch.Tensor:
        """Return the costs of `codes`, equally many for each of the cases."""
        extractor, n = self.model.extractor, self._n_pooled
        given = torch.from_numpy(np.stack([self.inputs[case.recipe] for case in cases]))
        seen = torch.cat([given[:, :n], extractor.feature(given[:, n:])], dim=1)
        seen = torch.nn.functional.dropout(seen, DROPOUT, is_training)
        hidden = torch.nn.functional.dropout(torch.relu(self._first(seen)), DROPOUT, is_training)
        patterns = extractor.matrix_embedding[2](hidden).repeat_interleave(len(codes) // len(cases), 0)
        costs: torch.Tensor = self.model.final(torch.cat([patterns, self.model.program(codes)], dim=1))
        return costs.squeeze(1)

    @torch.no_grad()
    def _row(self, at: int, train_loss: float, start_s: float) -> Epoch:
        found = self.rank("validation") if at % 5 == 0 or at == self.settings.epochs else None
        return Epoch.of(at, (train_loss, math.nan), found, time.perf_counter() - start_s)

    @torch.no_grad()
    def rank(self, split: str) -> Ranking | None:
        """Return the ranking of the schedules of a split by the present weights; None without patterns."""
        cases = self.data.of(split)
        scored = [
            (self._costs([case], torch.from_numpy(case.codes), is_training=False).numpy(), case.ratios, case.censored)
            for case in cases
        ]
        return Ranking.of(scored) if scored else None

    def _about(self, last: Epoch) -> dict[str, Any]:
        return {
            **asdict(self.settings), "op": self.data.op, "data": self.data.digest, "epoch": last.epoch,
            "n_patterns": len({case.recipe for case in self.data.of("train")}),
            **self.data.about(self.rank("validation")),
        }  # fmt: skip


def known_features(path: Path, pooled: PooledPatterns) -> Callable[[Recipe], Floats]:
    """Return a function that computes features as inference does with the model file `path`, from known means."""
    weights = network_weights(LearnedWeights.read(path))
    n_facts = weights.dimension + 1

    def features(recipe: Recipe) -> Floats:
        found = pooled(recipe)
        return embed_seen(found[:-n_facts], found[-n_facts:], weights)

    return features


def _picked(n: int, rng: np.random.Generator) -> NDArray[WideIndex]:
    """Return SCHEDULES indices below `n`: without repetition where there are enough."""
    return rng.permutation(n)[:SCHEDULES] if n >= SCHEDULES else rng.integers(0, n, SCHEDULES)


def _moments(inputs: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each number."""
    stacked = np.stack(inputs)
    return stacked.mean(axis=0), np.maximum(stacked.std(axis=0), MIN_SPREAD)
