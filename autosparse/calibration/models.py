"""Calibration of learned cost models to this machine: measurements in, a model file that tuning finds out."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import _native
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.errors import RecordError
from autosparse.tuner.analytic.models import predicted_ratios
from autosparse.tuner.features.setting import MachineRates, RunSetting
from autosparse.tuner.learned.codes import code_rows
from autosparse.tuner.learned.predict import PORTFOLIO, RatioScale
from autosparse.tuner.learned.safetensors import read_safetensors, write_safetensors
from autosparse.tuner.learned.scorers import BOOSTED, Scorer, guess_column, inputs, scorer_of
from autosparse.tuner.learned.training_domain import TrainingDomain
from autosparse.tuner.learned.trees import Trees
from autosparse.tuner.learned.weights import LearnedWeights
from autosparse.tuner.research.calibration.adjustments import Adjustment
from autosparse.tuner.research.calibration.choice import FEWEST_GROUPS, CalibrationChoice, choose
from autosparse.tuner.research.calibration.examples import Example
from autosparse.tuner.research.calibration.store import ModelStore
from autosparse.tuner.research.collect.files import CENSORED, REFUSED, Measurements
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.training.scale import fit_scale

N_PORTFOLIO: Final = 128
"""Number of schedules in the portfolio of a model that has none, such as a newly trained network."""
N_ADDED: Final = 64
"""Maximum number of schedules that calibration adds to a portfolio, the fastest of each measured pattern first."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Model with the measurements of this machine that may be used for training."""

    weights: LearnedWeights
    scorer: Scorer
    found: Sequence[Measurements]
    folder: Path | None  # of the real matrices that the measurements name
    rates: MachineRates | None = None

    @classmethod
    def of(
        cls, weights: Path, found: Iterable[Measurements], folder: Path | None, rates: MachineRates | None = None
    ) -> Calibration:
        """Load the model in `weights` and select those measurements `found` that may be used for training.

        `folder` holds the measured matrices; `rates` of this machine replace those missing from a measurement. Raises
        RecordError where the file has no model of these spaces, or no measurements remain.
        """
        kept = [one for one in found if not one.is_held_out]
        if not kept:
            raise RecordError.broken("measurements", reason="all are held out, none may be used for training")
        model = LearnedWeights.read(weights)
        return cls(model, scorer_of(model), kept, folder, rates)

    def write(self, source: Path, target: Path) -> CalibrationChoice | None:
        """Write the calibrated form of the model in `source` to `target`; return the chosen adjustment.

        For a network, whose costs only rank, the scale is fitted and None is returned. The schedules that were
        fastest here join the portfolio.
        """
        tensors, metadata = read_safetensors(source)
        about = json.loads(metadata.get("about", "{}"))
        choice = None
        if self.weights.extractor == BOOSTED:
            choice = choose([self._example(one, *kept) for one in self.found if len((kept := self._kept(one))[0]) > 1])
            tensors |= self._adjusted(choice.adjustment).tensors()
            about["scale"] = RatioScale().to_data()
            about["calibrated"] = {"way": choice.way, "patterns": len(self.found)}
            is_known = len({one.recipe.group for one in self.found}) >= FEWEST_GROUPS and choice.after.estimate <= 1.0
        else:
            about["scale"] = fit_scale(self.found, self._costs).to_data()
            is_known = True
        if is_known:  # unmeasured use requires that predictions beat the default kernel here
            shown = TrainingDomain.of_measurements((one.facts for one in self.found), fewest=FEWEST_GROUPS)
            about["seen"] = (TrainingDomain.of_model(self.weights.op, about) | shown).to_data()
        tensors[PORTFOLIO] = self._portfolio()
        write_safetensors(target, tensors, {**metadata, "about": json.dumps(about, sort_keys=True)})
        return choice

    def _adjusted(self, adjustment: Adjustment) -> Trees:
        trees = Trees.of(self.weights.tensors, self._n_inputs())
        trees = trees.scaled(adjustment.slope) if adjustment.slope != 1.0 else trees
        return trees if adjustment.more is None else trees.joined(adjustment.more)

    def _n_inputs(self) -> int:
        from autosparse.tuner.learned.scorers import n_inputs

        return n_inputs(self.weights.dimension)

    def _kept(self, one: Measurements) -> tuple[list[int], list[SuperSchedule]]:
        """Return (indices, schedules) of those measurements that ran and whose schedules the model can encode."""
        schedules = one.super_schedules()
        ran = (one["status"] != REFUSED) & (np.nan_to_num(one["ratio"]) > 0)
        rows = [at for at in np.flatnonzero(ran).tolist() if self._is_known(schedules[at])]
        return rows, [schedules[at] for at in rows]

    def _is_known(self, one: SuperSchedule) -> bool:
        return self.weights.space.contains(one) and _native.supports(one.operation, one) is None

    def _example(self, one: Measurements, rows: list[int], schedules: list[SuperSchedule]) -> Example:
        """Return an Example: predictions for `schedules` on one pattern, and measured ratios at indices `rows`."""
        op = OPS[one.facts["op"]]
        structure = one.recipe.make(self.folder).to_structure()
        setting = RunSetting.of_measurements(one.facts, one.target, n_dense_cols=op.n_dense_cols)
        if setting.rates is None:
            setting = dataclasses.replace(setting, rates=self.rates)
        problem = Problem(
            operation=op.operation, pattern=structure, transposed=False, n_dense_cols=setting.n_dense_cols,
            dtype=setting.dtype, threads=setting.threads, deterministic=False, target=setting.target,
        )  # fmt: skip
        features = self.scorer.features(structure)
        programs = np.hstack([self._rows(schedules), guess_column(np.asarray(predicted_ratios(problem, schedules)))])
        predicted = self.scorer.on(features, setting)(programs, None).astype(np.float64)
        return Example(
            one.recipe.group, inputs(features, setting), programs, predicted, one["ratio"][rows],
            one["status"][rows] == CENSORED,
        )  # fmt: skip

    def _costs(self, one: Measurements, schedules: list[SuperSchedule]) -> NDArray[np.float32]:
        """Return a network's cost of each schedule on the pattern of `one`; nan for schedules of other spaces."""
        known = [at for at, schedule in enumerate(schedules) if self._is_known(schedule)]
        costs = np.full(len(schedules), np.nan, np.float32)
        if known:
            op = OPS[one.facts["op"]]
            features = self.scorer.features(one.recipe.make(self.folder).to_structure())
            setting = RunSetting.of_measurements(one.facts, one.target, n_dense_cols=op.n_dense_cols)
            programs = self.scorer.programs(self._rows([schedules[at] for at in known]))
            costs[known] = self.scorer.on(features, setting)(programs, None)
        return costs

    def _rows(self, schedules: Sequence[SuperSchedule]) -> NDArray[np.int16]:
        space = self.weights.space
        return code_rows([space.encode(one) for one in schedules], space.parameters)

    def _portfolio(self) -> NDArray[Any]:
        """Return the codes of the new portfolio: the model's own programs, followed by the fastest measured here."""
        own = self.weights.tensors.get(PORTFOLIO)
        ranked = []
        for one in self.found:
            kept, schedules = self._kept(one)
            ranked.append([schedules[at] for at in np.argsort(one["ratio"][kept], kind="stable").tolist()])
        most = N_ADDED if own is not None else N_PORTFOLIO
        depth = 1 if own is not None else most
        turns = itertools.chain.from_iterable(itertools.zip_longest(*(one[:depth] for one in ranked)))
        added = self._rows(list(itertools.islice(dict.fromkeys(one for one in turns if one is not None), most)))
        rows = np.vstack([*([np.asarray(own, np.int16)] if own is not None else []), added])
        _, first = np.unique(rows, axis=0, return_index=True)
        return rows[np.sort(first)]


def calibrate(
    weights: Path, found: Iterable[Measurements], store: ModelStore, name: str, *, folder: Path | None,
    rates: MachineRates | None = None,
) -> tuple[Calibration, CalibrationChoice | None]:  # fmt: skip
    """Calibrate the model in `weights` by the measurements `found`, and write it to `store` as that of `name`.

    Returns the model with the measurements used, and the chosen adjustment (None for a network).
    """
    calibration = Calibration.of(weights, found, folder, rates)
    choice = calibration.write(weights, store.staged(name))
    LearnedWeights.read(store.staged(name))  # an unreadable file raises before it replaces the old model
    store.replace(name)
    return calibration, choice
