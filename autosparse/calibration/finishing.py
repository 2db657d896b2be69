"""Last step of training a network: give its model file what tuning needs beside the weights.

A network's costs only rank programs (WACO section 4.1.3). The scale that converts them to ratios is fitted to the
measurements that the network was trained on, and the programs that were fastest there make the portfolio. WACONet gets
thousands of programs and their graph (section 4.2.2) where hnswlib is installed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import _native
from autosparse.core.dtypes import NarrowReal, ProgramCode, SmallCode
from autosparse.core.schedule import SuperSchedule
from autosparse.errors import MissingExtraError, RecordError
from autosparse.tuner.features.setting import RunSetting
from autosparse.tuner.learned.codes import code_rows
from autosparse.tuner.learned.predict import PORTFOLIO
from autosparse.tuner.learned.safetensors import read_safetensors
from autosparse.tuner.learned.scorers import Scorer, scorer_of
from autosparse.tuner.learned.training_domain import TrainingDomain
from autosparse.tuner.learned.weights import LearnedWeights
from autosparse.tuner.research.collect.files import REFUSED, Measurements
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.research.graph.build import build_graph
from autosparse.tuner.research.inference.embeddings import embed_programs, network_weights
from autosparse.tuner.research.training.data import measured_domain
from autosparse.tuner.research.training.meaning import write_safetensors
from autosparse.tuner.research.training.scale import fit_scale

N_PORTFOLIO: Final = 128
"""Number of schedules in the portfolio."""
N_NODES: Final = 1536
"""Number of schedules in a portfolio that is searched on a graph; 65 bytes of the file each."""
SEARCHED: Final = "waconet"
"""Extractor whose programs get a graph."""
FeaturesOf = Callable[[Recipe], NDArray[NarrowReal]]
FEWEST_GROUPS: Final = 3
"""Minimum number of groups of patterns in a setting whose predictions may be used unmeasured."""


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """Network with the measurements that it was trained on."""

    weights: LearnedWeights
    scorer: Scorer
    found: Sequence[Measurements]
    folder: Path | None  # of the real matrices that the measurements name
    features_of: FeaturesOf | None = None  # instead of `folder`, where the features are known

    def scale(self) -> dict[str, Any]:
        """Return the fitted scale; raise RecordError where the measurements are too few."""
        return fit_scale(self.found, self._costs).to_data()

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the portfolio and, for WACONet with hnswlib, the graph of its programs."""
        if self.weights.extractor != SEARCHED:
            return {PORTFOLIO: self.portfolio()}
        nodes = self.portfolio(N_NODES)
        try:
            graph = build_graph(embed_programs(nodes, self.weights))
        except MissingExtraError:
            return {PORTFOLIO: nodes[:N_PORTFOLIO]}
        return {PORTFOLIO: nodes.astype(SmallCode), **graph.tensors()}

    def portfolio(self, n: int = N_PORTFOLIO) -> NDArray[Any]:
        """Return the codes of `n` programs that were fastest on the measured patterns, the best of each first."""
        ranked = []
        for one in self.found:
            kept, schedules = self._kept(one)
            ranked.append([schedules[at] for at in np.argsort(one["ratio"][kept], kind="stable").tolist()])
        turns = itertools.chain.from_iterable(itertools.zip_longest(*(one[:n] for one in ranked)))
        fastest = dict.fromkeys(one for one in turns if one is not None)
        rows = self._rows(list(itertools.islice(fastest, n)))
        _, first = np.unique(rows, axis=0, return_index=True)
        return rows[np.sort(first)]

    def _kept(self, one: Measurements) -> tuple[list[int], list[SuperSchedule]]:
        """Return (indices, schedules) of those measurements that ran and whose schedules the model can encode."""
        schedules = one.super_schedules()
        ran = (one["status"] != REFUSED) & (np.nan_to_num(one["ratio"]) > 0)
        rows = [at for at in np.flatnonzero(ran).tolist() if self._is_known(schedules[at])]
        return rows, [schedules[at] for at in rows]

    def _is_known(self, one: SuperSchedule) -> bool:
        return self.weights.space.contains(one) and _native.supports(one.operation, one) is None

    def _costs(self, one: Measurements, schedules: list[SuperSchedule]) -> NDArray[NarrowReal]:
        """Return the network's cost of each schedule on the pattern of `one`; nan for schedules of other spaces."""
        known = [at for at, schedule in enumerate(schedules) if self._is_known(schedule)]
        costs = np.full(len(schedules), np.nan, NarrowReal)
        if known:
            op = OPS[one.facts["op"]]
            make = self.features_of or (lambda recipe: self.scorer.features(recipe.make(self.folder).to_structure()))
            features = make(one.recipe)
            setting = RunSetting.of_measurements(one.facts, one.target, n_dense_cols=op.n_dense_cols)
            programs = self.scorer.programs(self._rows([schedules[at] for at in known]))
            costs[known] = self.scorer.on(features, setting)(programs, None)
        return costs

    def _rows(self, schedules: Sequence[SuperSchedule]) -> NDArray[ProgramCode]:
        space = self.weights.space
        return code_rows([space.encode(one) for one in schedules], space.parameters)


def finish(
    path: Path, found: Iterable[Measurements], folder: Path | None, features_of: FeaturesOf | None = None
) -> int:
    """Add scale, portfolio and graph to the network in `path`; return the number of patterns they come from.

    `folder` holds the real matrices among the measured ones; `features_of` returns a pattern's features instead. The
    file is replaced as a whole. Raises RecordError where no measurement may be used for training, or too few can be
    compared.
    """
    kept = [one for one in found if not one.is_held_out]
    if not kept:
        raise RecordError.broken("measurements", reason="all are held out, none may be used for training")
    weights = network_weights(LearnedWeights.read(path))
    network = TrainedNetwork(weights, scorer_of(weights), kept, folder, features_of)
    tensors, metadata = read_safetensors(path)
    about = json.loads(metadata.get("about", "{}")) | {"scale": network.scale()}
    shown = measured_domain((one.facts for one in kept), fewest=FEWEST_GROUPS)
    about["seen"] = (TrainingDomain.of_model(weights.op, about) | shown).to_data()
    tensors = {**tensors, **network.tensors()}
    write_safetensors(path, tensors, {**metadata, "about": json.dumps(about, sort_keys=True)})
    return len(kept)
