"""Find the learned cost models for this machine, and propose candidates with them.

Features of patterns are stored in the cache, and the price of each call is recorded.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.config import Options
from autosparse.core.dtypes import NarrowReal
from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.core.target import Target
from autosparse.core.values import dataclass
from autosparse.errors import RecordError
from autosparse.log import event
from autosparse.scalar import REAL
from autosparse.targets.priors import number
from autosparse.tuner.analytic.matmul import Proposal, Proposals
from autosparse.tuner.learned.names import MODEL_SUFFIX, op_of
from autosparse.tuner.learned.safetensors import read_metadata
from autosparse.tuner.learned.training_domain import STATISTICS, TrainingDomain
from autosparse.tuning.rates.record import rates_in_use
from autosparse.tuning.trials.context import TuningContext
from autosparse.tuning.trials.kernel_trial import KernelTrial

if TYPE_CHECKING:
    from autosparse.tuner.features.setting import MachineRates
    from autosparse.tuner.learned.predict import LearnedModel

Floats = NDArray[NarrowReal]

N_MORE: Final = 100
"""Number of a model's best candidates whose order is corrected by the model's errors so far."""
DICTIONARY_TIME: Final = number("values of kernels", "time of dictionary-encoded values")
"""Time of sliced ELL with dictionary-encoded values as a fraction of the time with plain values."""
MAX_DIMS: Final = 3
"""Maximum number of dimensions for which models exist: matrices and tensors of order 3."""
TREES: Final = "boosted"
"""Value of the option `model` that selects boosted trees."""
STATISTICS_ONLY: Final = "statistics"
"""Value of the option `model` that selects the statistics alone; "waco" names networks in files ``OP.waco``."""


def model_folders(options: Options, target: Target) -> list[Path]:
    """Return the folders that may hold models: the option `models`, else the shipped models."""
    return [shipped_folder(target) if options.models is None else options.models]


def shipped_folder(target: Target) -> Path:
    """Return the folder of models shipped with autosparse for the machine, such as ``weights/x86_64``."""
    from autosparse import tuner

    return Path(tuner.__path__[0]) / "weights" / target.machine


def weights_in_use(options: Options, target: Target, op: str) -> Path | None:
    """Return the first existing model file of `op`; None if there is none."""
    folders = model_folders(options, target)
    paths = (folder / f"{name}{MODEL_SUFFIX}" for name in names_of(options, op) for folder in folders)
    return next((path for path in paths if path.exists()), None)


def names_of(options: Options, op: str) -> list[str]:
    """Return the file names, without suffix, of models of `op` in order: the selected tier, then boosted trees."""
    if options.model == STATISTICS_ONLY:
        return []
    return [op] if options.model == TREES else [f"{op}.{options.model}", op]


def find_model(options: Options, target: Target, op: str) -> LearnedModel | None:
    """Return the model of `op`, read once per process and file; None if there is no usable one."""
    rates = rates_in_use(options, target).rates
    for name, folder in itertools.product(names_of(options, op), model_folders(options, target)):
        try:
            changed = (folder / f"{name}{MODEL_SUFFIX}").stat().st_mtime_ns
        except OSError:
            continue
        found = _read(folder, name, changed, rates)
        if found is not None:
            return found
    return None


@functools.lru_cache(maxsize=16)
def _read(folder: Path, name: str, changed: int, rates: MachineRates | None) -> LearnedModel | None:
    """Return the model `name` of `folder` with this machine's measured `rates`; None, with an event, if it is broken.

    `changed` (file time) is part of the cache key.
    """
    from autosparse.tuner.learned.predict import LearnedModel

    try:
        return LearnedModel.read(folder, name, rates=rates)
    except (RecordError, OSError) as error:
        event("fallback", f"a learned model is not used: {error}", op=name)
        return None


@functools.lru_cache(maxsize=1024)
def _numbered(one: SuperSchedule) -> SuperSchedule:
    """Return `one` with its values stored dictionary-encoded; equal schedules give the same object."""
    return dataclasses.replace(one, format=dataclasses.replace(one.format, values=DICTIONARY))


def _plain(one: SuperSchedule) -> SuperSchedule:
    """Return `one` with its values stored in the problem's dtype; equal schedules give the same object."""
    return dataclasses.replace(one, format=dataclasses.replace(one.format, values=""))


@dataclass(frozen=True, slots=True)
class LearnedProposer:
    """Proposer of schedules for the problem of `context` by a learned model; see `analytic.matmul.Proposer`."""

    context: TuningContext
    model: LearnedModel

    @property
    def price_s(self) -> float:
        """Expected seconds of a call, including the computation of features that are not cached."""
        cost_estimates = self.context.stats.cost_estimates
        search_s = cost_estimates.price_s("propose")
        if self.is_known():
            return search_s
        return search_s + cost_estimates.price_s("features", self._n_entries)

    def is_known(self) -> bool:
        """Return whether the features of this pattern are cached."""
        return self._load() is not None

    def __call__(self) -> list[Proposal]:
        """Return the model's ten best candidates whose packed copies fit into memory."""
        problem, clock, n_scored = self.context.problem, self.context.stats.clock, list[int]()
        start_s = clock()
        features = self.features()
        middle_s = clock()
        proposals = Proposals(self._stored(self.model.propose(problem, features, self._able(), note=n_scored.append)))
        end_s = clock()
        self.context.stats.cost_estimates.observe("propose", end_s - middle_s)
        if self.model.search is not None:
            seconds = f"features {middle_s - start_s:.2g} s, search {end_s - middle_s:.2g} s"
            proposals.account = (
                f"WACO's network and graph: {len(proposals)} of {len(self.model.codes):,} programs by "
                f"{sum(n_scored):,} cost evaluations; {seconds}"
            )
        event("tune", "the learned model proposes", n=len(proposals), op=self.model.weights.op)
        return proposals

    def more(self, known: Sequence[SuperSchedule]) -> list[Proposal]:
        """Return the `N_MORE` best candidates, whatever their formats, and the predictions for `known`."""
        problem, features = self.context.problem, self.features()
        named = self.model.propose(problem, features, self._able(), N_MORE, per_format=N_MORE)
        others = set(map(_plain, known)) - {one.schedule for one in named}
        return self._stored([*named, *self.model.predict(problem, features, others)])

    def _stored(self, proposals: list[Proposal]) -> list[Proposal]:
        """Return `proposals` with sliced formats dictionary-encoded, if the problem's values are stored so.

        The model is trained on plain values; predicted ratios are scaled by `DICTIONARY_TIME`.
        """
        if self.context.problem.storage != DICTIONARY:
            return proposals
        return [
            Proposal(_numbered(one.schedule), one.ratio * DICTIONARY_TIME) if one.schedule.format.is_sliced else one
            for one in proposals
        ]

    def _able(self) -> Callable[[str, SuperSchedule], str | None]:
        """Return `TuningContext.supports` extended to reject formats whose packed copy does not fit into memory.

        Without it, all ten proposals may lack memory, and `estimate` falls back to the default kernel.
        """
        context, rooms = self.context, dict[Format, bool]()

        def reason(operation: str, one: SuperSchedule) -> str | None:
            if (why := context.supports(operation, one)) is not None:
                return why
            if one.format not in rooms:
                rooms[one.format] = KernelTrial(choice_of(one), context).fits()
            return None if rooms[one.format] else "its packed copy exceeds the memory limit"

        return reason

    def features(self) -> Floats:
        """Return the features of the pattern, from the cache if they are there, else computed and stored."""
        kept = self._load()
        if kept is not None:
            return kept
        clock = self.context.stats.clock
        start_s = clock()
        problem = self.context.problem
        pattern = problem.pattern
        found = self.model.features(pattern if isinstance(pattern, Pattern) else pattern.rows_first(problem.mode))
        self.context.stats.cost_estimates.observe("features", clock() - start_s, self._n_entries)
        self.context.store.save_later("features", self._key, lambda: {"values": found.tolist()})
        return found

    @property
    def _n_entries(self) -> int:
        """Number of entries read by the feature extraction, the unit of its price."""
        return min(self.context.problem.pattern.nnz, 2 * self.model.weights.limit)

    @property
    def _key(self) -> str:
        problem = self.context.problem
        rows = f"-{problem.mode}" if problem.mode else ""
        return f"{problem.pattern.sparsity_hash}-{self.model.weights.name}{rows}"

    def _load(self) -> Floats | None:
        record = self.context.store.load("features", self._key)
        values = record.get("values") if isinstance(record, dict) else None
        try:
            found = np.array(values, NarrowReal)
        except (TypeError, ValueError, OverflowError):
            return None
        return found if found.shape == (self.model.scorer.n_features,) and np.isfinite(found).all() else None


@dataclass(frozen=True, slots=True)
class LazyProposer:
    """Proposer whose learned model this process has not read yet; its price includes reading the model."""

    context: TuningContext

    @property
    def price_s(self) -> float:
        """Expected seconds of reading the model, computing features, and searching for proposals."""
        cost_estimates, nnz = self.context.stats.cost_estimates, self.context.problem.pattern.nnz
        return (
            cost_estimates.price_s("model")
            + cost_estimates.price_s("features", nnz)
            + cost_estimates.price_s("propose")
        )

    def __call__(self) -> list[Proposal]:
        """Return the model's proposals; none if no usable model is found."""
        clock = self.context.stats.clock
        start_s = clock()
        proposer = proposer_of(self.context, live=False)
        self.context.stats.cost_estimates.observe("model", clock() - start_s)
        return proposer() if proposer is not None else []

    def more(self, known: Sequence[SuperSchedule]) -> Sequence[Proposal]:
        """Return further predictions of the model; none if no usable model is found."""
        proposer = proposer_of(self.context, live=False)
        return proposer.more(known) if proposer is not None else []


def training_domain_of(context: TuningContext, *, is_learned: bool) -> TrainingDomain:
    """Return the training domain of the learned model; of the statistics if there is none or `is_learned` is false."""
    op = op_of(context.problem)
    path = weights_in_use(context.options, context.problem.target, op) if is_learned else None
    if path is None:
        return STATISTICS
    try:
        return _domain_of(path, op, path.stat().st_mtime_ns)
    except (RecordError, OSError, ValueError):
        return TrainingDomain()


@functools.lru_cache(maxsize=16)
def _domain_of(path: Path, op: str, changed: int) -> TrainingDomain:
    """Return the training domain stated by a model file's metadata; `changed` (file time) is part of the cache key."""
    return TrainingDomain.of_model(op, json.loads(read_metadata(path).get("about", "{}")))


def proposer_of(context: TuningContext, *, live: bool) -> LearnedProposer | LazyProposer | None:
    """Return the source of learned proposals for the context's problem; None if no model applies.

    Live tuning reads no model and computes no features before products have paid for it, so both are part of the
    price. Transposed products use the statistics, since models are trained on rows of the multiplied operand. A
    tensor's rows are its slices along the product's mode.
    """
    problem = context.problem
    if problem.transposed or problem.dtype not in REAL:
        return None
    if live and "autosparse.tuner.learned.predict" not in sys.modules:
        has_model = weights_in_use(context.options, problem.target, op_of(problem)) is not None
        return LazyProposer(context) if has_model and len(problem.pattern.shape) <= MAX_DIMS else None
    model = find_model(context.options, problem.target, op_of(problem))
    if model is None or model.weights.dimension != len(problem.pattern.shape):
        return None
    return LearnedProposer(context, model)
