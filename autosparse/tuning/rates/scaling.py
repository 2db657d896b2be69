"""Rates of the analytic models on this machine: the shipped ones, scaled by measured rates over the reference's.

The models' rates are effective rates, fitted to times on one machine: an SpMM's multiply-adds, for example, reach a
quarter of the rate that a wide product reaches. So measured rates do not replace them. They scale them by the ratio of
this machine's measured rates to those of the machine where the models were fitted.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from typing import Final

from autosparse.core.problem import Problem
from autosparse.core.target import Target
from autosparse.tuner.analytic.matmul import CALIBRATED_LANES, CoreRates, ModelRates, VectorRates
from autosparse.tuner.features.setting import KNOWN, MachineRates
from autosparse.tuning.rates.probed import RATES, ProbedRates, RatesInUse

SHIPPED: Final[ModelRates] = (CoreRates(), VectorRates())
"""Rates of the analytic models on machines that were not measured."""
REFERENCE_THREADS: Final = 2
"""Number of threads of the rates in `machines.json`."""
STEPS_PER_OCTAVE: Final = 1
"""Steps of a rounded rate per factor of two. Two measurements of one machine differ by less than a step, mostly."""
PER_ENTRY: Final = (
    "default_entry", "gathered_entry", "gathered_narrow", "scalar_entry", "column_block", "column_cell", "block",
    "block_cell", "slice_cell", "diagonal_cell",
)  # fmt: skip
"""Fields of `VectorRates` that the rate of gathers scales."""


@functools.cache
def references() -> tuple[ProbedRates, ProbedRates]:
    """Return two records of the machine where the models were fitted, the first row of `machines.json`.

    They are its shipped rates, and its rates by `probing.measured_rates` (`benchmarks/rates.py --measure`). The shipped
    rates come from another program, which reads with vector instructions where NumPy reads and writes.
    """
    row = json.loads(KNOWN.read_text("utf-8"))[0]
    return ProbedRates.of_data(row["rates"]), ProbedRates.of_data(row["probed"])


def is_known(target: Target) -> bool:
    """Return whether `machines.json` has the rates of machines with the cores and caches of `target`."""
    rows = (row["target"] for row in json.loads(KNOWN.read_text("utf-8")))
    return any(all(getattr(target, name) == value for name, value in row.items()) for row in rows)


def comparable(rates: ProbedRates) -> ProbedRates:
    """Return probed rates in the scale of the shipped ones: multiplied by the ratio of the two `references`.

    A machine like the reference then has the shipped rates.
    """
    shipped, probed = references()
    found = {
        name: getattr(rates, name) / getattr(probed, one) * getattr(shipped, one)
        for name in (*RATES, "core_l3", "core_memory")
        for one in (name.removeprefix("core_"),)
    }
    return dataclasses.replace(rates, **found)


def usual_memory_share(target: Target) -> float:
    """Return the rate of memory over that of the last-level cache, as probed, on the machine most similar to `target`.

    Shipped rates are converted to the scale of probed ones, the inverse of `comparable`.
    """
    (shipped, probed), typical = references(), MachineRates.typical(target)
    return typical.memory / typical.l3 * (probed.memory / shipped.memory) / (probed.l3 / shipped.l3)


def rounded(rates: ProbedRates, anchor: MachineRates) -> ProbedRates:
    """Return `rates` rounded to powers of 2^(1/STEPS_PER_OCTAVE) times those of `anchor`, so that plans are stable."""
    found = {name: _rounded(getattr(rates, name), getattr(anchor, name)) for name in RATES}
    for name in ("core_l3", "core_memory"):
        found[name] = _rounded(getattr(rates, name), getattr(anchor, name.removeprefix("core_")))
    found |= {name: _rounded(getattr(rates, name), 1e-6) for name in ("start_s", "wake_s")}
    return dataclasses.replace(rates, **found)


def _rounded(value: float, anchor: float) -> float:
    if value <= 0.0:
        return 0.0
    return anchor * math.pow(2.0, round(STEPS_PER_OCTAVE * math.log2(value / anchor)) / STEPS_PER_OCTAVE)


def model_rates(problem: Problem, used: RatesInUse) -> ModelRates:
    """Return the analytic models' rates for `problem`, from the machine's rates in use.

    Without measured rates they are the shipped ones. Bandwidth beyond the L2 caches is shared: fewer threads reach the
    sum of their own bandwidths up to that of all.
    """
    rates, measured_threads = used.rates, used.threads
    if rates is None:
        return SHIPPED
    reference, probed = references()
    threads = min(problem.threads, problem.target.n_cores, measured_threads)
    core, vector = SHIPPED
    per_core = {name: getattr(rates, name) / measured_threads for name in ("l1", "l2")}
    shared = {name: _shared(rates, name, threads, measured_threads) for name in ("l3", "memory")}
    speedup = _speedup(threads)
    reference_speedup = _speedup(REFERENCE_THREADS)
    factors = {name: rate / (getattr(reference, name) / REFERENCE_THREADS) for name, rate in per_core.items()}
    factors |= {name: rate / speedup / (getattr(reference, name) / reference_speedup) for name, rate in shared.items()}
    factors["flops"] = rates.flops / measured_threads / (reference.flops / REFERENCE_THREADS)
    start_s = max(0.0, rates.start_s - probed.start_s) if threads > 1 else 0.0
    scaled = {name: getattr(core, name) * factor for name, factor in factors.items()}
    return (
        dataclasses.replace(core, **scaled, start_s=start_s),
        _vector(vector, problem, rates.gathers / measured_threads / (reference.gathers / REFERENCE_THREADS)),
    )


def _speedup(threads: int) -> float:
    """Return the speed of `threads` threads over one thread's that the models assume."""
    return 1.0 + 0.7 * (threads - 1)


def _shared(rates: ProbedRates, name: str, threads: int, measured_threads: int) -> float:
    all_threads, one = getattr(rates, name), getattr(rates, f"core_{name}")
    one = one or all_threads / measured_threads
    return float(all_threads if threads == measured_threads else min(all_threads, threads * one))


def _vector(vector: VectorRates, problem: Problem, factor: float) -> VectorRates:
    """Return `vector` with times per entry divided by `factor`, the measured rate of gathers over the reference's.

    The model itself multiplies them by a factor for narrower registers, which the measured rate contains already.
    """
    lanes = max(1, problem.target.vector_bytes // 4)
    times = factor * math.sqrt(CALIBRATED_LANES / lanes)
    return dataclasses.replace(vector, **{name: getattr(vector, name) / times for name in PER_ENTRY})
