"""Public interface to accelerators that are described by files: simulation, and cost models transferred to them.

    import autosparse.accelerators as accelerators

    target = accelerators.read("mine.json")                    # or the name of one that ships
    cycles = accelerators.times(target, A)                     # of every configuration, simulated
    model = accelerators.transfer(target, {"A": {17: 1.2e6, 40: 9e5}}, {"A": A})     # from measured configurations
    print(target.to_text(model.ranking(B, 5)[0]))              # the best program for another matrix

docs/transfer.md describes the file format and the method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import autosparse.tuner.research.transfer
from autosparse._native import accelerator as native
from autosparse._native import runtime_api
from autosparse.core.dtypes import NarrowIndex, NarrowReal, Real, WideIndex
from autosparse.core.pattern import Pattern
from autosparse.errors import InputError
from autosparse.tuner.research.targets import simulation
from autosparse.tuner.research.targets.accelerator import Accelerator, Configuration, Machine
from autosparse.tuner.research.targets.accelerator import find_accelerator as read
from autosparse.tuner.research.transfer.counts import COUNTED, additive
from autosparse.tuner.research.transfer.residual import (
    FEWEST,
    Corrected,
    Fitted,
    Transferred,
    can_fit,
    fit_correction,
    fit_residual,
)
from autosparse.tuner.research.transfer.source import Samples, SourceModel, best_distinct, described

__all__ = ["Accelerator", "Model", "pattern_of", "read", "simulate", "times", "transfer"]

SOURCES: Final = Path(autosparse.tuner.research.transfer.__path__[0]) / "sources"


def simulate(
    pattern: Pattern,
    configuration: Configuration,
    *,
    machine: Machine,
    operation: str = simulation.DEFAULT_OPERATION,
    n_columns: int = 64,
) -> simulation.Traffic:
    """Simulate one product on an accelerator and return its cycles and memory traffic.

    Raises InputError where the C runtime, which contains the simulator, was not built.
    """
    if not runtime_api.available:
        raise InputError.refused(
            "the C runtime simulates accelerators, and it is not there", given=runtime_api.fault,
            hint="python -m autosparse doctor",
        )  # fmt: skip
    accelerated = simulation.operation_named(operation)
    cycles, counts = native.accelerate(
        pattern,
        simulation.row_order(pattern, configuration),
        machine={
            **{name: getattr(machine, name) for name in native.MACHINE if hasattr(machine, name)},
            "port_width": machine.port_bytes_per_cycle,
            "llc_width": machine.llc_bytes_per_cycle,
            "dram_width": machine.dram_bytes_per_cycle,
        },
        operation={
            "n_columns": n_columns,
            **{name: getattr(accelerated, name) for name in native.OPERATION if hasattr(accelerated, name)},
        },
        tiling={name: getattr(configuration, name) for name in native.TILING},
    )
    return simulation.Traffic(cycles=cycles, **counts)


def times(target: Accelerator, matrix: Any, *, operation: str = simulation.DEFAULT_OPERATION) -> NDArray[Real]:
    """Return the simulated cycles of every configuration of `target` on `matrix` (SciPy, autosparse or `Pattern`).

    Raises InputError for a target without a machine description, and for rows whose column indices do not ascend.
    """
    if target.machine is None:
        raise InputError.refused(
            f"the accelerator {target.name!r} cannot be simulated",
            given="a description without a machine",
            hint='add "machine" to the file, or measure with a simulator of your own',
        )
    pattern = pattern_of(matrix)
    found = np.full(len(target.configurations), math.nan)
    for number, same in enumerate(target.distinct(*pattern.shape)):
        if same < number:
            found[number] = found[same]
            continue
        canonical = target.configurations[number].canonical(*pattern.shape, target.n_columns)
        found[number] = simulate(
            pattern, canonical, machine=target.machine, operation=operation, n_columns=target.n_columns
        ).cycles
    return found


def pattern_of(matrix: Any) -> Pattern:  # Any: anything that SciPy makes rows of
    """Return the pattern, with 32-bit indices, of a sparse matrix.

    Raises InputError where the column indices of a row do not ascend.
    """
    if not isinstance(matrix, Pattern):
        rows = scipy.sparse.csr_array(matrix)
        indptr, indices = rows.indptr.astype(NarrowIndex), rows.indices.astype(NarrowIndex)
        matrix = Pattern(int(rows.shape[0]), int(rows.shape[1]), indptr, indices)
    return simulation.checked(matrix)


@dataclass(frozen=True, eq=False)
class Sources:
    """Models of one operation fitted on other platforms, without (`plain`) and with `COUNTED` (`counting`) features."""

    plain: SourceModel = field(repr=False)
    counting: SourceModel = field(repr=False)

    def costs(self, rows: NDArray[NarrowReal]) -> NDArray[Real]:
        """Return the mean prediction of both models for rows made by `described`."""
        return np.asarray((self.plain.costs(rows[:, : -len(COUNTED)]) + self.counting.costs(rows)) / 2, Real)


@dataclass(frozen=True, eq=False)
class Model:
    """Cost model of one target: predictions of the source platforms, corrected by samples of the target.

    The correction is boosted trees (`corrected`) where scikit-learn is installed and samples of enough matrices are
    given, else an additive residual.
    """

    target: Accelerator
    sources: Sources = field(repr=False)
    transferred: Transferred
    corrected: Corrected | None = None

    def costs(self, matrix: Any) -> NDArray[Real]:
        """Return the predicted cost of every configuration: logarithms of times up to a constant; lower is better."""
        rows = described(pattern_of(matrix), self.target)
        if self.corrected is not None:
            return self.corrected.costs(rows)
        return self.transferred.costs(self.sources.costs(rows), additive(self.target))

    @property
    def correction(self) -> str:
        """Name of the correction in use, for display."""
        if self.corrected is not None:
            return "trees correct the source"
        if self.transferred.ridge is None:
            return "no correction helps: the source is used"
        return "an additive residual corrects the source"

    def ranking(self, matrix: Any, k: int | None = None) -> list[int]:
        """Return configuration numbers of `target`, best first, one per distinct program on `matrix` (first `k`)."""
        pattern = pattern_of(matrix)
        same = self.target.distinct(*pattern.shape)
        return best_distinct(self.costs(pattern), same, len(set(same)) if k is None else k)


def transfer(
    target: Accelerator,
    measured: Mapping[str, Mapping[int, float]],
    matrices: Mapping[str, Any],
    *,
    operation: str = simulation.DEFAULT_OPERATION,
) -> Model:
    """Fit a cost model of `target` from ``measured[matrix name][number of a configuration] = time``.

    `matrices` holds the matrices by the same names. Times may have any unit: only ratios on one matrix are used.
    Without samples the source models are used alone (zero-shot). With samples of `FEWEST` matrices or more, trees are
    fitted if scikit-learn is installed (extra `train`); otherwise an additive residual is fitted by NumPy. Raises
    RecordError for times <= 0 or an operation without a source model, InputError for a matrix that is not given.
    """  # fmt: skip
    missing = sorted(set(measured) - set(matrices))
    if missing:
        raise InputError.refused(
            f"samples of {missing[0]!r}, but no such matrix",
            given=f"matrices {sorted(matrices)}",
            hint="name the matrix as its samples do",
        )
    sources, phi = shipped_sources(operation), additive(target)
    rows, y, patterns = [], [], []
    for name, times_of in measured.items():
        numbers = np.array(sorted(times_of), WideIndex)
        samples = Samples(name, numbers, np.array([times_of[int(n)] for n in numbers], Real))
        rows.append(described(pattern_of(matrices[name]), target)[numbers])
        y.append(samples.y)
        patterns.append(Fitted(sources.costs(rows[-1]), phi[numbers], samples.y))
    corrected = fit_correction(sources.counting, rows, y) if len(rows) >= FEWEST and can_fit() else None
    return Model(target, sources, fit_residual(patterns), corrected)


def shipped_sources(operation: str) -> Sources:
    """Return the source models of an operation that ship with the package; raises RecordError where there are none."""
    simulation.operation_named(operation)
    plain, counting = (SourceModel.read(SOURCES / f"{operation}{of}.safetensors") for of in ("", "-counts"))
    return Sources(plain, counting)
