"""Accelerators that files describe, simulated: what every configuration of one costs on a matrix.

import autosparse.accelerators as accelerators

target = accelerators.read("spade")             # or the path of a JSON file
cycles = accelerators.times(target, A)          # of every configuration, simulated
target.to_text(int(cycles.argmin()))            # the best one
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from autosparse._native import accelerator as native
from autosparse._native import runtime_api
from autosparse.core.pattern import Pattern
from autosparse.errors import InputError
from autosparse.tuner.targets import simulation
from autosparse.tuner.targets.accelerator import Accelerator, Configuration, Machine
from autosparse.tuner.targets.registry import find_accelerator as read

__all__ = ["Accelerator", "pattern_of", "read", "simulate", "times"]


def simulate(
    pattern: Pattern, configuration: Configuration, *, machine: Machine, operation: str = "spmm", n_columns: int = 64
) -> simulation.Traffic:
    """What one product costs on a simulated accelerator: see `tuner.targets.simulation`. In C where that was built."""
    if not runtime_api.available:
        return simulation.simulate(pattern, configuration, machine=machine, operation=operation, n_columns=n_columns)
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


def times(target: Accelerator, matrix: Any, *, operation: str = "spmm") -> NDArray[np.float64]:
    """Cycles of every configuration of `target` on `matrix` (a SciPy sparse matrix, ours or a Pattern), simulated.

    InputError for a target without a machine, and for rows whose columns do not ascend.
    """
    if target.machine is None:
        raise InputError.refused(
            f"the accelerator {target.name!r} cannot be simulated",
            given="a description without a machine",
            cure='add "machine" to the file, or measure with a simulator of your own',
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
    """The pattern of a sparse matrix with 32-bit indices; InputError where columns of a row do not ascend."""
    if not isinstance(matrix, Pattern):
        rows = scipy.sparse.csr_array(matrix)
        indptr, indices = rows.indptr.astype(np.int32), rows.indices.astype(np.int32)
        matrix = Pattern(int(rows.shape[0]), int(rows.shape[1]), indptr, indices)
    return simulation.checked(matrix)
