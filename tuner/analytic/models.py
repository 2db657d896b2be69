"""The cost model from statistics of every operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from autosparse.tuner.analytic.matmul import CostModel, TrafficModel
from autosparse.tuner.analytic.mttkrp import TensorModel, tensor_facts
from autosparse.tuner.analytic.sddmm import SampledModel
from autosparse.tuner.features.counts import NUMPY, Counter
from autosparse.tuner.features.statistics import Locality, pattern_facts

from autosparse.core.problem import Problem


def _matmul_model(problem: Problem, counter: Counter) -> CostModel:
    pattern, transposed = problem.matrix, problem.transposed
    locality = None if transposed else Locality(pattern, counter)
    return TrafficModel(pattern_facts(pattern, transposed=transposed, counter=counter), locality=locality)


MODELS: Final[Mapping[str, Callable[[Problem, Counter], CostModel]]] = {
    "matmul": _matmul_model,
    "sddmm": lambda problem, counter: SampledModel(
        pattern_facts(problem.matrix, counter=counter), locality=Locality(problem.matrix, counter)
    ),
    "mttkrp": lambda problem, counter: TensorModel(tensor_facts(problem.tensor, problem.mode)),
}


def statistics_model(problem: Problem, counter: Counter = NUMPY) -> CostModel:
    """The model of the problem's operation, from a sample of its pattern that `counter` counts in."""
    return MODELS[problem.operation](problem, counter)
