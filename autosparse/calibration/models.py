"""From a trained model to files that tuning uses: fit the last layers to this machine, the scale, and the graph."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosparse import _native
from autosparse.core.schedule import SuperSchedule
from autosparse.errors import RecordError, ScheduleError
from autosparse.tuner.collect.files import CENSORED, REFUSED, Measurements
from autosparse.tuner.graph.build import build_graph
from autosparse.tuner.learned.boosting import more_trees
from autosparse.tuner.learned.embeddings import code_rows
from autosparse.tuner.learned.fine_tune import Example, fine_tuned
from autosparse.tuner.learned.names import GRAPH_SUFFIX, MODEL_SUFFIX
from autosparse.tuner.learned.predict import Scale
from autosparse.tuner.learned.safetensors import read_safetensors, write_safetensors
from autosparse.tuner.learned.scale import fit_scale
from autosparse.tuner.learned.scorers import BOOSTED, Scorer, costs_of
from autosparse.tuner.learned.seen import Seen
from autosparse.tuner.learned.weights import LearnedWeights
from autosparse.tuner.space.template import TemplateSpace
from autosparse.tuning.learned import scorer_of

N_NODES: Final = 4096
"""Programs of a graph."""
MEASURED_SHARE: Final = 0.75
"""Most of them that were measured; the others are samples of the spaces."""
VALIDATION_OF: Final = 5
MAX_REPEATS: Final = 400
"""Samples in a row that bring nothing new: the spaces have no more."""


@dataclass(slots=True)
class Calibration:
    """A model and measurements of this machine. Embeddings of patterns are computed once: they are not refitted."""

    weights: LearnedWeights
    found: Sequence[Measurements]  # not held out
    folder: Path | None  # of the real matrices that they name
    scorer: Scorer
    _patterns: dict[str, NDArray[np.float32]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, weights: Path, found: Iterable[Measurements], folder: Path | None) -> Calibration:
        """RecordError when the file holds no model of these spaces, or no measurements may be used."""
        kept = [one for one in found if not one.is_held_out]
        if not kept:
            raise RecordError.broken("measurements", reason="none that training may use")
        model = LearnedWeights.read(weights)
        return cls(model, kept, folder, scorer_of(model))

    def fit(self, source: Path, target: Path, *, epochs: int) -> tuple[float, float]:
        """Write `source` with the last layers and the scale of this machine to `target`.

        (pairs of unseen groups in order before, after); `epochs` 0 keeps the layers.
        """
        tensors, metadata = read_safetensors(source)
        before = after = float("nan")
        if epochs:
            refine = more_trees if self.weights.extractor == BOOSTED else fine_tuned
            tensors, before, after = refine(tensors, self._examples(), epochs=epochs)
        self._use(dataclasses.replace(self.weights, tensors=tensors))
        about = json.loads(metadata.get("about", "{}"))
        shown = Seen.of_measurements(one.facts for one in self.found)
        about["seen"] = (Seen.of_model(self.weights.op, about) | shown).to_data()
        is_log_ratio = self.weights.extractor == BOOSTED
        about["scale"] = (Scale() if is_log_ratio else fit_scale(self.found, self._costs)).to_data()
        write_safetensors(target, tensors, {**metadata, "about": json.dumps(about, sort_keys=True)})
        self._use(LearnedWeights.read(target))
        return before, after

    def _use(self, weights: LearnedWeights) -> None:
        self.weights, self.scorer = weights, scorer_of(weights)

    def write_graph(self, target: Path, *, n_nodes: int = N_NODES, seed: int = 0) -> int:
        """Build the graph for the weights as they are now; its number of programs."""
        schedules = list(self._programs(n_nodes, seed))
        rows = self._rows(schedules)
        graph = build_graph(rows, self.scorer.embeddings(rows), model=self.weights.name, seed=seed)
        if not self.scorer.reads_embeddings:
            graph = dataclasses.replace(graph, embeddings=graph.embeddings[:, :0])
        graph.save(target)
        return len(graph)

    def _programs(self, n_nodes: int, seed: int) -> Iterable[SuperSchedule]:
        """Schedules measured (WACO builds its graph of those), then samples of the spaces in turn.

        Of many measured, those that came nearest to the best on some pattern.
        """
        loss: dict[str, float] = {}
        for found in self.found:
            ratios = np.where(found["status"] == REFUSED, np.inf, found["ratio"])
            best = float(np.nanmin(ratios, initial=np.inf))
            for text, ratio in zip(found.schedules, (ratios / best).tolist(), strict=True):
                loss[text] = min(loss.get(text, np.inf), ratio if np.isfinite(ratio) else np.inf)
        texts = sorted(loss, key=lambda text: (loss[text], text))
        known = (one for text in texts if self._is_known(one := SuperSchedule.from_json(text)))
        programs = dict.fromkeys(itertools.islice(known, int(MEASURED_SHARE * n_nodes)))
        rng = np.random.default_rng(seed)
        n_repeats = 0
        while len(programs) < n_nodes and n_repeats < MAX_REPEATS:
            made = _sample(self.weights.space.spaces[n_repeats % len(self.weights.space.spaces)], rng)
            is_new = made is not None and made not in programs and self._is_known(made)
            if is_new and made is not None:
                programs[made] = None
            n_repeats = 0 if is_new else n_repeats + 1
        return programs

    def _is_known(self, one: SuperSchedule) -> bool:
        try:
            self.weights.space.encode(one)
        except ScheduleError:
            return False
        return _native.supports(one.operation, one) is None

    def _pattern(self, one: Measurements) -> NDArray[np.float32]:
        key = f"{one.facts['sparsity_hash']}-{one.target.key()}"
        if key not in self._patterns:
            pattern = one.recipe.make(self.folder).to_structure()
            self._patterns[key] = self.scorer.features(pattern, one.target)
        return self._patterns[key]

    def _costs(self, one: Measurements, schedules: list[SuperSchedule]) -> NDArray[np.float32]:
        """Predicted costs; nan for schedules of other spaces."""
        known = [at for at, schedule in enumerate(schedules) if self._is_known(schedule)]
        costs = np.full(len(schedules), np.nan, np.float32)
        if known:
            costs[known] = costs_of(self.scorer, self._pattern(one), self._rows([schedules[at] for at in known]))
        return costs

    def _rows(self, schedules: Sequence[SuperSchedule]) -> NDArray[np.int16]:
        space = self.weights.space
        return code_rows([space.encode(one) for one in schedules], space.parameters)

    def _examples(self) -> list[Example]:
        """One in VALIDATION_OF patterns decides when to stop."""
        examples = []
        for at, one in enumerate(self.found):
            schedules = one.super_schedules()
            kept = [
                row
                for row, schedule in enumerate(schedules)
                if one["status"][row] != REFUSED and self._is_known(schedule)
            ]
            if len(kept) > 1:
                rows = self._rows([schedules[row] for row in kept])
                programs = rows if self.weights.extractor == BOOSTED else self.scorer.embeddings(rows)
                is_censored = one["status"][kept] == CENSORED
                validates = at % VALIDATION_OF == 0
                examples.append(Example(self._pattern(one), programs, one["ratio"][kept], is_censored, validates))
        return examples


def _sample(space: TemplateSpace, rng: np.random.Generator) -> SuperSchedule | None:
    try:
        return space.sample(rng, _native.supports)
    except ScheduleError:
        return None


def calibrate(
    weights: Path, found: Iterable[Measurements], out: Path, *, folder: Path | None, epochs: int, n_nodes: int = N_NODES
) -> tuple[Calibration, tuple[float, float], int]:
    """Write ``<op>.safetensors`` and ``<op>.graph.safetensors`` to `out`: (calibration, pairs in order, programs)."""
    calibration = Calibration.of(weights, found, folder)
    op = calibration.weights.op
    # The graph goes first out of the way: a graph of other weights is refused, a missing one is simply not used.
    (out / f"{op}{GRAPH_SUFFIX}").unlink(missing_ok=True)
    pairs = calibration.fit(weights, out / f"{op}{MODEL_SUFFIX}", epochs=epochs)
    return calibration, pairs, calibration.write_graph(out / f"{op}{GRAPH_SUFFIX}", n_nodes=n_nodes)
