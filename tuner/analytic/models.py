"""Selection of the analytic cost model of each operation; a model's module is imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autosparse.tuner.analytic.matmul import CoreRates, CostModel, ModelRates, TrafficModel, VectorRates
from autosparse.tuner.features.statistics import Locality, pattern_facts

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS


def matrix_product(problem: Problem, rates: ModelRates | None) -> CostModel:
    """Return the model of products of a matrix, or its transpose, with a dense operand (SpMV, SpMM)."""
    pattern, transposed = problem.matrix, problem.transposed
    core, vector = rates or (CoreRates(), VectorRates())
    facts, locality = pattern_facts(pattern, transposed=transposed), None if transposed else Locality(pattern)
    return TrafficModel(facts, core, vector, locality)


def sampled_product(problem: Problem, rates: ModelRates | None) -> CostModel:
    """Return the model of products of dense operands at the entries of a matrix (SDDMM)."""
    from autosparse.tuner.analytic.sddmm import SampledModel

    return SampledModel(pattern_facts(problem.matrix), rates[0] if rates else CoreRates(), Locality(problem.matrix))


def tensor_product(problem: Problem, rates: ModelRates | None) -> CostModel:
    """Return the model of products of a tensor with a factor for each of its other modes (MTTKRP)."""
    from autosparse.tuner.analytic.mttkrp import TensorModel, tensor_facts

    return TensorModel(tensor_facts(problem.tensor, problem.mode))


def statistics_model(problem: Problem, rates: ModelRates | None = None) -> CostModel:
    """Return the analytic model of the problem's operation, from a sample of the problem's pattern."""
    make: Callable[[Problem, ModelRates | None], CostModel] = globals()[OPS[problem.operation].tuning.model]
    return make(problem, rates)


def predicted_ratios(problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
    """Return predicted times of `schedules` over the default kernel's; cached for tuples that begin with None."""
    entrants = schedules if None in schedules[:1] else (None, *schedules)
    default_s, *times_s = statistics_model(problem).rank(problem, entrants)
    if not default_s:  # nothing is computed, so every schedule takes equally long
        return [1.0] * len(schedules)
    return [time_s / default_s for time_s in ((default_s, *times_s) if entrants is schedules else times_s)]
