"""From a trained model to files that tuning uses: fit the last layers to this machine, the scale, and the graph."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosparse import _native
from autosparse._native.waconet import PredictorWeights
from autosparse.engine.learned import convolve
from autosparse.errors import RecordError, ScheduleError
from autosparse.schedule import SuperSchedule
from autosparse.tuner.collect.files import CENSORED, REFUSED, Measurements
from autosparse.tuner.graph.build import build_graph
from autosparse.tuner.learned_embeddings import code_rows, embed_pattern, embed_programs
from autosparse.tuner.learned_fine_tune import Example, fine_tuned
from autosparse.tuner.learned_names import GRAPH_SUFFIX, MODEL_SUFFIX
from autosparse.tuner.learned_scale import fit_scale
from autosparse.tuner.learned_weights import LearnedWeights
from autosparse.tuner.safetensors import read_safetensors, write_safetensors
from autosparse.tuner.template import TemplateSpace

N_NODES: Final = 4096
"""Programs of a graph, unless measurements name more."""
VALIDATION_OF: Final = 5
MAX_REPEATS: Final = 400
"""Samples in a row that bring nothing new: the spaces have no more."""


@dataclass(slots=True)
class Calibration:
    """A model and measurements of this machine. Embeddings of patterns are computed once: they are not refitted."""

    weights: LearnedWeights
    found: Sequence[Measurements]  # not held out
    folder: Path | None  # of the real matrices that they name
    _patterns: dict[str, NDArray[np.float32]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, weights: Path, found: Iterable[Measurements], folder: Path | None) -> Calibration:
        """RecordError when the file holds no model of these spaces, or no measurements may be used."""
        kept = [one for one in found if not one.is_held_out]
        if not kept:
            raise RecordError.broken("measurements", reason="none that training may use")
        return cls(LearnedWeights.read(weights), kept, folder)

    def fit(self, source: Path, target: Path, *, epochs: int) -> tuple[float, float]:
        """Write `source` with the last layers and the scale of this machine to `target`.

        (pairs of unseen groups in order before, after); `epochs` 0 keeps the layers.
        """
        tensors, metadata = read_safetensors(source)
        before = after = float("nan")
        if epochs:
            tensors, before, after = fine_tuned(tensors, self._examples(), epochs=epochs)
        self.weights = dataclasses.replace(self.weights, tensors=tensors)
        about = json.loads(metadata.get("about", "{}"))
        about["scale"] = fit_scale(self.found, self._costs).to_data()
        write_safetensors(target, tensors, {**metadata, "about": json.dumps(about, sort_keys=True)})
        self.weights = LearnedWeights.read(target)
        return before, after

    def write_graph(self, target: Path, *, n_nodes: int = N_NODES, seed: int = 0) -> int:
        """Build the graph for the weights as they are now; its number of programs."""
        schedules = list(self._programs(n_nodes, seed))
        space = self.weights.space
        rows = code_rows([space.encode(one) for one in schedules], space.parameters)
        graph = build_graph(rows, embed_programs(rows, self.weights), model=self.weights.name, seed=seed)
        graph.save(target)
        return len(graph)

    def _programs(self, n_nodes: int, seed: int) -> Iterable[SuperSchedule]:
        """Every schedule measured (WACO builds its graph of those), then samples of the spaces in turn."""
        texts = dict.fromkeys(text for one in self.found for text in one.schedules)
        programs = dict.fromkeys(one for text in texts if self._is_known(one := SuperSchedule.from_json(text)))
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
        key = str(one.facts["sparsity_hash"])
        if key not in self._patterns:
            pattern = one.recipe.make(self.folder).to_structure()
            self._patterns[key] = embed_pattern(pattern, self.weights, convolve)
        return self._patterns[key]

    def _costs(self, one: Measurements, schedules: list[SuperSchedule]) -> NDArray[np.float32]:
        """Predicted costs; nan for schedules of other spaces."""
        known = [at for at, schedule in enumerate(schedules) if self._is_known(schedule)]
        costs = np.full(len(schedules), np.nan, np.float32)
        if known:
            predictor = PredictorWeights.of(self.weights.tensors)
            programs = self._embedded([schedules[at] for at in known])
            costs[known] = predictor.predict(self._pattern(one), predictor.share_of_programs(programs))
        return costs

    def _embedded(self, schedules: Sequence[SuperSchedule]) -> NDArray[np.float32]:
        space = self.weights.space
        return embed_programs(code_rows([space.encode(one) for one in schedules], space.parameters), self.weights)

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
                programs = self._embedded([schedules[row] for row in kept])
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
