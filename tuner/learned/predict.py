"""Prediction by a learned model: features of a pattern, the best programs of a portfolio, ratios to the default kernel.

A network ranks programs; its costs are not seconds, and their zero differs between patterns (WACO section 4.1.3). A
*scale* fitted to measurements converts costs to ratios, relative to an *anchor*: a schedule close to the default kernel
with a known ratio. It is ``log ratio(s) = anchor_log_ratio + slope * (cost(s) - cost(anchor))``. Costs of boosted trees
are log ratios already.

A model comes with a *portfolio* of programs. Boosted trees score all of it: about a hundred programs, the best of which
is nearly as fast as the best of thousands on every pattern. WACO's networks have more than a thousand and search them
on a graph (WACO section 4.2.2, `tuner/research/graph`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner import registry
from autosparse.tuner.analytic.matmul import Proposal, behind_runtime
from autosparse.tuner.analytic.models import predicted_ratios
from autosparse.tuner.features.setting import MachineRates, RunSetting
from autosparse.tuner.learned.codes import Structure, code_of, code_rows
from autosparse.tuner.learned.names import MODEL_SUFFIX
from autosparse.tuner.learned.scorers import Codes, Programs, Scorer, guess_column, scorer_of
from autosparse.tuner.learned.weights import LearnedWeights
from autosparse.tuner.space.families import MAX_NARROW
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, NarrowReal, ProgramCode
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import computed_once, dataclass, field
from autosparse.errors import RecordError, ScheduleError
from autosparse.ops import OPS
from autosparse.scalar import NARROW_INDEX

Floats = NDArray[NarrowReal]
Ids = NDArray[NarrowIndex]
Search = Callable[[Callable[[Ids | None], Floats], int], tuple[list[tuple[int, float]], int]]
"""Function (costs of programs by number, n) that returns about n best (number, cost), and how many it scored."""

PORTFOLIO: Final = "portfolio"
"""Name of the tensor of portfolio codes, (n, columns), in a weights file."""
N_PROPOSED: Final = 10
"""Number of proposals; WACO measures the ten best predicted (section 5.1)."""
PER_FORMAT: Final = 4
"""Maximum number of proposals of one format, since a model's errors are similar for similar schedules."""
GRAPH: Final = "graph.neighbours"
"""Name of a tensor of weights files whose portfolio is searched on a graph."""
SPARE: Final = 8
"""Number of programs that a search returns per proposal, since some are unsupported or resemble better ones."""
DEAR_ORDER: Final = "rcm"
"""Row order that at most half of the proposals have: computing it takes as long as many products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioScale:
    """Conversion of costs to log ratios to the default kernel; without an anchor, costs are log ratios already."""

    slope: float = 1.0
    anchor: SuperSchedule | None = None
    anchor_log_ratio: float = 0.0

    def to_data(self) -> dict[str, Any]:
        """Return the scale as JSON-ready data; `from_data` inverts it."""
        anchor = self.anchor.to_json() if self.anchor is not None else None
        return {"slope": self.slope, "anchor": anchor, "anchor_log_ratio": self.anchor_log_ratio}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> RatioScale:
        """Read the result of `to_data`; raise RecordError for anything else."""
        try:
            slope, log_ratio = float(data["slope"]), float(data["anchor_log_ratio"])
            anchor = SuperSchedule.from_json(data["anchor"]) if data["anchor"] is not None else None
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError.broken("cost model", reason=f"its scale cannot be read: {error!r}") from error
        if not (np.isfinite(slope) and slope > 0 and np.isfinite(log_ratio)):
            raise RecordError.broken("cost model", reason=f"slope {slope} and anchor log ratio {log_ratio} are invalid")
        return cls(slope=slope, anchor=anchor, anchor_log_ratio=log_ratio)


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """Learned cost model of one operation, with a portfolio of programs from which it proposes."""

    weights: LearnedWeights
    codes: Codes = field(repr=False)  # (n, columns): the portfolio
    scale: RatioScale
    scorer: Scorer = field(repr=False)
    rates: MachineRates | None = None  # measured rates of this machine
    search: Search | None = None  # None: the whole portfolio is scored
    _decoded: dict[int, SuperSchedule | None] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def read(cls, folder: Path, name: str, *, rates: MachineRates | None = None) -> LearnedModel:
        """Read ``<name>.safetensors`` in `folder`; raise FileNotFoundError, or RecordError for a broken file."""
        weights = LearnedWeights.read(folder / f"{name}{MODEL_SUFFIX}")
        if PORTFOLIO not in weights.tensors:
            raise RecordError.broken(
                f"cost model {name}", reason="it has no portfolio: `train` adds one to a trained model"
            )
        codes = np.asarray(weights.tensors[PORTFOLIO], ProgramCode)
        scale = RatioScale.from_data(weights.about.get("scale", {}))
        search = registry.load("search", "graph")(weights, len(codes)) if GRAPH in weights.tensors else None
        return cls(weights, codes, scale, scorer_of(weights), rates, search)

    def features(self, pattern: Structure) -> Floats:
        """Return the features of `pattern`, (n_features,), the expensive part; a tensor's rows must be its mode 0."""
        return self.scorer.features(pattern)

    @computed_once
    def programs(self) -> Programs:
        """Return the scorer's precomputed input for all portfolio programs, without the analytic model's ratios."""
        return self.scorer.programs(self.codes)

    def _costs(self, problem: Problem, features: Floats) -> Callable[[Programs, Ids | None], Floats]:
        return self.scorer.on(features, RunSetting.of(problem, self.rates))

    def _guesses(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> Sequence[float]:
        """Return the analytic model's predicted ratios of `schedules`; all 1 where the scorer does not read them."""
        return predicted_ratios(problem, schedules) if self.scorer.reads_guesses else [1.0] * len(schedules)

    def _with_guesses(self, programs: Programs, guesses: Sequence[float]) -> Programs:
        """Return `programs` with the analytic model's ratios appended, if the scorer reads them."""
        if not self.scorer.reads_guesses:
            return programs
        return np.hstack([np.asarray(programs, ProgramCode), guess_column(np.asarray(guesses))])

    @computed_once
    def _anchor(self) -> Programs | None:
        """Return the scorer's input for the scale's anchor schedule; None without an anchor."""
        return self.scorer.programs(self._rows([self.scale.anchor])) if self.scale.anchor is not None else None

    def _anchor_cost(self, costs: Callable[[Programs, Ids | None], Floats]) -> float:
        """Return the cost of the anchor schedule on a pattern, 0 without one; `costs` is the result of `scorer.on`."""
        return float(costs(self._anchor, None)[0]) if self._anchor is not None else 0.0

    def _rows(self, schedules: Sequence[SuperSchedule]) -> Codes:
        space = self.weights.space
        return code_rows([space.encode(one) for one in schedules], space.parameters)

    def ratios(self, problem: Problem, features: Floats, schedules: Sequence[SuperSchedule]) -> list[float]:
        """Return predicted ratios of schedules of the space; raise ScheduleError for others."""
        if not schedules:
            return []
        programs = self._with_guesses(self.scorer.programs(self._rows(schedules)), self._guesses(problem, schedules))
        costs = self._costs(problem, features)
        anchor = self._anchor_cost(costs)
        return [self._ratio(float(cost), anchor) for cost in costs(programs, None)]

    def _ratio(self, cost: float, anchor: float) -> float:
        log_ratio = self.scale.anchor_log_ratio + self.scale.slope * (cost - anchor)
        return float(np.exp(np.clip(log_ratio, -5.0, 5.0)))

    def propose(
        self,
        problem: Problem,
        features: Floats,
        supports: Callable[[str, SuperSchedule], str | None],
        n: int = N_PROPOSED,
        *,
        per_format: int = PER_FORMAT,
        note: Callable[[int], object] | None = None,
    ) -> list[Proposal]:
        """Return the best `n` supported schedules, at most `per_format` per format and n / 2 with DEAR_ORDER rows.

        `note`, if given, is called with the number of cost evaluations.
        """
        costs_of = self._costs(problem, features)
        anchor, behind = self._anchor_cost(costs_of), self._behind(problem)
        guesses: Sequence[float] = [1.0] * len(self.codes)
        if self.scorer.reads_guesses:  # otherwise no program of the portfolio needs to be decoded
            _, *guesses = self._guesses(problem, self._entrants)
        costs = partial(costs_of, self._with_guesses(self.programs, guesses))
        found, n_scored = (self.search or _ranked)(costs, SPARE * n)
        chosen = self._supported(problem, supports, n, per_format, found)
        if len(chosen) < n and len(found) < len(self.codes):  # too few of those found can be used
            found, n_scored = _ranked(costs, n)
            chosen = self._supported(problem, supports, n, per_format, found)
        if note is not None:
            note(n_scored)
        return [Proposal(schedule, behind * self._ratio(cost, anchor)) for schedule, cost in chosen]

    def _supported(
        self, problem: Problem, supports: Callable[[str, SuperSchedule], str | None], n: int, per_format: int,
        found: Sequence[tuple[int, float]],
    ) -> list[tuple[SuperSchedule, float]]:  # fmt: skip
        """Return (schedule, cost) of the first `n` programs that the problem and `propose`'s limits allow."""
        chosen: list[tuple[SuperSchedule, float]] = []
        of_format: dict[object, int] = {}
        n_dear = 0
        for node, cost in found:
            if len(chosen) == n:
                break
            schedule = self.schedule(node)
            if schedule is None:
                continue
            n_alike, is_dear = of_format.get(schedule.format, 0), schedule.format.rows == DEAR_ORDER
            if n_alike >= per_format or n_dear + is_dear > max(1, n // 2) or not suits(problem, schedule):
                continue
            if supports(problem.operation, schedule) is None:  # last, because it takes longest
                of_format[schedule.format] = n_alike + 1
                n_dear += is_dear
                chosen.append((schedule, cost))
        return chosen

    @computed_once
    def _entrants(self) -> tuple[SuperSchedule | None, ...]:
        """Return the default kernel (None) and all portfolio programs (None if unreadable); always the same tuple."""
        return None, *map(self.schedule, range(len(self.codes)))

    def predict(self, problem: Problem, features: Floats, schedules: Iterable[SuperSchedule]) -> list[Proposal]:
        """Return predicted ratios, as Proposals, of those `schedules` that have a code in the model's space."""
        space = self.weights.space
        known = [one for one in schedules if space.contains(one)]
        ratios = self.ratios(problem, features, known)
        return [Proposal(one, self._behind(problem) * ratio) for one, ratio in zip(known, ratios, strict=True)]

    def _behind(self, problem: Problem) -> float:
        """Return the factor by which generated kernels are slower since only the default kernel has certain features.

        Costs learned as ratios to the default kernel include it, costs with an anchor do not.
        """
        is_wide = OPS[problem.operation].packed == "values" and problem.n_dense_cols > 1
        return behind_runtime(problem) if is_wide and self.scale.anchor is not None else 1.0

    def schedule(self, node: int) -> SuperSchedule | None:
        """Return number `node` of the portfolio, always the same object; None for an unreadable code."""
        if node not in self._decoded:
            space = self.weights.space
            try:
                self._decoded[node] = space.decode(code_of(self.codes[node], space.parameters))
            except ScheduleError:
                self._decoded[node] = None
        return self._decoded[node]


def _ranked(costs: Callable[[Ids | None], Floats], n: int) -> tuple[list[tuple[int, float]], int]:
    """Return all programs, best first, whatever `n`; see Search."""
    found = costs(None).tolist()
    return sorted(enumerate(found), key=lambda one: one[1]), len(found)


def suits(problem: Problem, one: SuperSchedule) -> bool:
    """Return whether `one` fits the problem.

    Splits may not exceed extents, indices must be wide enough, and tiles not wider than the result. A
    precompiled loop requires a dense operand larger than the L2 cache.
    """
    shape = problem.pattern.shape[:: -1 if problem.transposed else 1]
    by_rows = (shape[problem.mode], *shape[: problem.mode], *shape[problem.mode + 1 :])
    extents = dict(zip("ikl", by_rows, strict=False))
    if any(size > max(1, extents.get(index, size)) for index, size in one.format.splits):
        return False
    if max(by_rows) > MAX_NARROW and one.format.index_bits == 16 and one.format.too_long(extents, MAX_NARROW):
        return False
    tile = one.dense_split("j")
    if problem.n_dense_cols == 1:
        return tile == 0 and not one.is_precompiled
    if one.is_precompiled:  # for smaller B or Y the default kernel is as fast
        dense_bytes = problem.matrix.n_cols * problem.n_dense_cols * np.dtype(problem.dtype).itemsize
        return problem.pattern.index_dtype == NARROW_INDEX.name and dense_bytes > problem.target.l2_bytes
    return 0 < tile < 2 * problem.n_dense_cols
