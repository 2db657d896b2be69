"""Searches and the race of one case of hybrid formats, each in its own process.

A process keeps compiled kernels in memory, and a cache folder keeps those of other processes. Two searches of equal
seconds are comparable only if neither finds results of the other. In the race every contender computes products as
users do, in alternation: with a new result for each product (`C = A @ B`) and with the same result (`out=C`), and with
B where NumPy allocates large arrays.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np
import scipy.sparse as sp

from peerlib.hybrid_cases import MILLION, generated
from peerlib.matrices import load
from peerlib.timing import Protocol, take_turns

P, R = ParamSpec("P"), TypeVar("R")

N_KEPT: Final = 12
"""Number of fastest schedules, and of fastest composites, of a search that are kept in its record."""
MEMORY: Final = 40.0
"""Bytes of all packed copies in the race, relative to the matrix; searches use the default limit."""
WAYS: Final = {"fresh": True, "again": False}
"""Variants of a race; the value tells whether each product gets a new result."""
DEFAULT: Final = "default"
"""Name of the default kernel among schedules, which are named by their JSON text."""
SCIPY: Final = "scipy"
"""Name of SciPy's product among schedules."""


@dataclass(frozen=True, slots=True)
class HybridCase:
    """One product of one float32 matrix, which is a file or one of `hybrid_cases.generated`."""

    name: str
    operation: str
    columns: int
    path: Path | None = None
    is_transposed: bool = False  # use the file's transpose, in CSR

    @property
    def key(self) -> str:
        """Key of the case in the results file."""
        return f"{self.title} {self.operation} {self.columns}"

    @property
    def title(self) -> str:
        """Name of the matrix."""
        return f"{self.name}, transposed" if self.is_transposed else self.name

    def make(self) -> Any:
        """Return the matrix in CSR."""
        if self.path is None:
            return sp.csr_array(generated(self.name))
        read = load(self.path, dtype="float32")
        return sp.csr_array(read.T if self.is_transposed else read)


def alone(function: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
    """Call the function in a new process that ends afterwards; return the result."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *given, **named).result()


def text_of(schedule: Any) -> str:
    """Return the full name of a schedule."""
    return DEFAULT if schedule is None else schedule.to_json()


def schedule_of(text: str) -> Any:
    """Return the schedule named by `text_of`."""
    from autosparse.core.composite import schedule_from_json

    return None if text == DEFAULT else schedule_from_json(text)


def is_composite(text: str) -> bool:
    """Return whether a name is that of a composite."""
    return '"composite"' in text


def searched(case: HybridCase, *, hybrid: bool, budget_s: float, threads: int) -> dict[str, Any]:
    """Run a full search of `budget_s` seconds with an empty cache; return its result."""
    import autosparse as asp

    A = asp.csr(case.make())
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty,
        asp.options(hybrid=hybrid, cache_dir=empty, threads=threads),
    ):
        start_s = time.perf_counter()
        plan = A.tune(case.operation, columns=case.columns, effort="full", budget_s=budget_s)
        seconds = time.perf_counter() - start_s
    times_s = {text_of(one.schedule): one.measured_s for one in plan.candidates if one.measured_s}
    fastest = sorted(times_s, key=lambda one: times_s[one])
    kept = list(dict.fromkeys([*fastest[:N_KEPT], *[one for one in fastest if is_composite(one)][:N_KEPT]]))
    return {
        "chosen": text_of(plan.schedule), "why": plan.why, "seconds": seconds, "n_measured": len(times_s),
        "times_s": {one: times_s[one] for one in kept}, "shape": list(A.shape), "nnz": int(A.nnz),
    }  # fmt: skip


def context_for(A: Any, case: HybridCase) -> Any:
    """Return the tuning context that makes and times kernels of A's product."""
    from autosparse.dispatch.state import state_for
    from autosparse.tuning.setup import context_of

    cell = A._cell
    return context_of(
        cell, state_for(cell, cell.rows or cell.validate(), case.columns, False, operation=case.operation)
    )


def ready_singles(operation: str) -> list[str]:
    """Return the runtime's single formats: row orders, which every search times, and rows side by side in panels."""
    from autosparse.tuning.solvers.row_panels import ordered, panels

    if operation != "matmul":
        return []
    return [text_of(one) for one in (*ordered(operation), *(panels(operation, n_rows) for n_rows in (1, 4, 8)))]


def proposing_s(name: str, columns: int = 256, rounds: int = 7) -> tuple[int, int, list[float]]:
    """Time the proposal of composites for a matrix of `MILLION`.

    Return its number of entries, the number of composites that need no compiler, and the seconds of each proposal.
    """
    import autosparse as asp
    from autosparse.config import Effort
    from autosparse.tuning.solvers.candidates import search_for

    A, seconds, n_found = asp.csr(MILLION[name](), copy=True), [], 0
    with asp.options(hybrid=True):
        context = context_for(A, HybridCase(name, "matmul", columns))
        for _ in range(rounds):
            start_s = time.perf_counter()
            found = search_for(context, effort=Effort.FULL, live=False).always
            seconds.append(time.perf_counter() - start_s)
            n_found = sum(is_composite(text_of(one)) for one in found)
    return int(A.nnz), n_found, seconds


def trials_of(context: Any, texts: Sequence[str]) -> dict[str, Any]:
    """Return trials by name, with their kernels built."""
    trials = {text: context(schedule_of(text)) for text in texts if text != SCIPY}
    context.build([trial for trial in trials.values() if trial.schedule is not None])
    return trials


def built(case: HybridCase, texts: Sequence[str], *, cache: Path, threads: int) -> None:
    """Compile the contenders of the race, so that no compiler runs during it."""
    import autosparse as asp

    A = asp.csr(case.make())
    with asp.options(extra_memory=MEMORY, cache_dir=cache, threads=threads):
        trials_of(context_for(A, case), texts)


def raced(
    case: HybridCase, texts: Sequence[str], *, cache: Path, threads: int, protocol: Protocol
) -> dict[str, dict[str, float]]:
    """Return median seconds of a product by name and variant, for all that can run; the default kernel always runs."""
    import autosparse as asp

    A = asp.csr(case.make())
    with asp.options(extra_memory=MEMORY, cache_dir=cache, threads=threads):
        context = context_for(A, case)
        trials = trials_of(context, dict.fromkeys([DEFAULT, *texts]))
        runs = {}
        for text, trial in trials.items():
            trial.pack()
            found = {way: context.served(trial, is_fresh=fresh) for way, fresh in WAYS.items()}
            runs |= {(text, way): run for way, run in found.items() if run is not None}
        if SCIPY in texts:
            runs[SCIPY, "fresh"] = of_scipy(case)
        timings = take_turns(runs, protocol)
        for trial in trials.values():
            trial.drop()
    times: dict[str, dict[str, float]] = {}
    for (text, way), timing in timings.items():
        times.setdefault(text, {})[way] = timing.median_s
    return times


def of_scipy(case: HybridCase) -> Callable[[], Any]:
    """Return SciPy's product, which allocates its result."""
    A = case.make()
    B = np.random.default_rng(0).standard_normal((A.shape[1], case.columns)).astype(np.float32)
    return lambda: A @ B


def mean_s(times: Mapping[str, float]) -> float:
    """Return the geometric mean of the variants' seconds."""
    return math.exp(sum(map(math.log, times.values())) / len(times))
