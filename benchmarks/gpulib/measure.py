"""Measure one case of the GPU comparison: compare every result with float64, then time the correct ones.

Each timed run starts with a cold L2 cache: a buffer of twice its size is written before. Fractions are relative to the
bandwidth of a large copy, or to the rate of a large dense product, on the same device.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

import autosparse as asp
from autosparse.cuda import matrix
from autosparse.cuda.choice import PlannedProduct
from autosparse.cuda.device import serving
from autosparse.cuda.solvers import ProductKind
from autosparse.gpu.target import target_of
from gpulib import contenders
from gpulib.contenders import Run

TOLERANCE: Final = {"float16": 2e-3, "float32": 1e-5}
"""Maximum error of an element, relative to the sum of the magnitudes of its terms plus 1."""
ROUNDS: Final = 30
MAX_TURNS: Final = 3
HELD_ROWS: Final = 256
"""Number of rows of the float64 product that are compared with SciPy's."""


@dataclass(frozen=True)
class Case:
    """One product of one matrix."""

    part: str
    matrix: str
    columns: int
    dtype: str

    @property
    def name(self) -> str:
        """Name of the case in the records."""
        return f"{self.part} {self.matrix} {self.columns} {self.dtype}"


class Clock:
    """Timer of runs on one device; it also measures the device's bandwidth and rate."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.is_gpu = place == "cuda"
        device = serving(torch.empty(0, device=place))
        assert device is not None
        self.name = device.name(torch.empty(0, device=place))
        self.scratch = torch.empty(2 * target_of(self.name).l2_bytes if self.is_gpu else 1, dtype=torch.int8).to(place)

    def seconds(self, run: Callable[[], object], rounds: int = ROUNDS) -> float:
        """Return the median time of `run` with a cold L2 cache; in the interpreter, the time of a single run."""
        if not self.is_gpu:
            start_s = time.perf_counter()
            run()
            return time.perf_counter() - start_s
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(rounds)]
        for begin, end in events:
            self.scratch.zero_()
            begin.record()
            run()
            end.record()
        torch.cuda.synchronize()
        return statistics.median(begin.elapsed_time(end) * 1e-3 for begin, end in events)

    @functools.cached_property
    def copied_bytes_s(self) -> float:
        """Bytes read and written per second by a large copy."""
        source = torch.zeros(2**30 if self.is_gpu else 2**16, dtype=torch.int8, device=self.place)
        target = torch.empty_like(source)
        return 2 * source.numel() / self.seconds(lambda: target.copy_(source))

    @functools.cache  # noqa: B019  one clock a process
    def flops(self, dtype: torch.dtype) -> float:
        """Return operations per second of a large dense product."""
        n = 8192 if self.is_gpu else 64
        a = torch.randn(n, n, device=self.place).to(dtype)
        return 2 * n**3 / self.seconds(lambda: a @ a, 10)


def measure(case: Case, given: Any, clock: Clock) -> dict[str, Any]:
    """Return the record of a case: errors of all contenders, and seconds of the correct ones."""
    torch.manual_seed(0)
    dtype = getattr(torch, case.dtype)
    arrays = [torch.from_numpy(one.astype("int32")).to(clock.place) for one in (given.indptr, given.indices)]
    values = torch.randn(given.nnz).to(clock.place, dtype)
    A = matrix.csr(torch.sparse_csr_tensor(*arrays, values, given.shape, check_invariants=False))
    n, m = A.shape
    B = torch.randn(m, *(() if case.part == "spmv" else (case.columns,))).to(clock.place, dtype)
    if case.part == "sddmm":
        X = torch.randn(n, case.columns).to(clock.place, dtype)
        offered, wanted, scale = contenders.of_sample(A, X, B), *exact_sample(given, X, B)
    else:
        block = int(case.matrix.split()[1]) if case.matrix.startswith("pruned") else None
        offered, wanted, scale = contenders.of_product(A, B, block), *exact_product(given, values, B)
    runs, failed, plan_s = {}, {}, 0.0
    for name, make in offered:
        try:
            start_s = time.perf_counter()
            with asp.options(runs=10**9 if name == "autosparse" else None):
                runs[name] = make()
                runs[name]()
            plan_s = time.perf_counter() - start_s if name == "autosparse" else plan_s
        except Exception as err:  # noqa: BLE001  failures are recorded; the comparison continues
            runs.pop(name, None)
            failed[name] = first_line(err)
    errors = {name: error_of(run(), wanted, scale) for name, run in runs.items()}
    right = {name: run for name, run in runs.items() if errors[name] <= TOLERANCE[case.dtype]}
    made = next(
        iter(A.structure.choices.values()),
        PlannedProduct(
            ProductKind(operation=case.part, transposed=False, n_dense_cols=case.columns, dtype=case.dtype, vector=1)
        ),
    )  # fmt: skip  (there is no choice if autosparse failed)
    return {
        "case": case.name, "part": case.part, "nnz": int(given.nnz), "errors": errors, "failed": failed,
        "wrong": [name for name in runs if name not in right], "rejected": made.rejected, "plan_s": plan_s,
        "why": made.plan.why, "served": [int(made.launch is not None), 1],
        "schedule": None if made.schedule is None else made.schedule.to_json(),
        "candidates_s": made.measured_s, **_timed(right, case, A, clock), "device": clock.name,
        "torch": torch.__version__, "is_dry": not clock.is_gpu,
    }  # fmt: skip


def _timed(right: dict[str, Run], case: Case, A: matrix.CudaCsr, clock: Clock) -> dict[str, Any]:
    """Return medians over turns, so that changes of the clock rate affect all, and fractions of the device's limits."""
    turns: dict[str, list[float]] = {name: [] for name in right}
    for _ in range(MAX_TURNS if clock.is_gpu else 1):
        for name, run in right.items():
            turns[name].append(clock.seconds(run))
    seconds = {name: statistics.median(found) for name, found in turns.items()}
    (n, m), item = A.shape, A.values.element_size()
    n_dense = (n + m) * case.columns
    stored = A.nnz * (4 + item) + 4 * (n + 1)  # also for SDDMM, which writes the values
    flops, n_bytes = 2 * A.nnz * case.columns, stored + n_dense * item
    sparse = {name: one for name, one in seconds.items() if name != "dense"}
    return {
        "seconds": seconds,
        "of_bandwidth": {name: n_bytes / one / clock.copied_bytes_s for name, one in sparse.items()},
        "of_peak": {name: flops / one / clock.flops(A.dtype) for name, one in sparse.items()},
    }


def first_line(err: BaseException) -> str:
    """Return type and first line of an error, for records."""
    return f"{type(err).__name__}: {err}".splitlines()[0][:200]


def median_s(run: Run, clock: Clock) -> float:
    """Return the median over turns of one contender."""
    return statistics.median(clock.seconds(run) for _ in range(MAX_TURNS if clock.is_gpu else 1))


def exact_product(given: Any, values: torch.Tensor, B: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return A B and |A| |B| in float64, computed by torch on the device; some rows are compared with SciPy's."""
    arrays = [torch.from_numpy(one.astype("int32")).to(B.device) for one in (given.indptr, given.indices)]
    exact, scale = (
        torch.sparse_csr_tensor(*arrays, a.double(), given.shape, check_invariants=False) @ b.double()
        for a, b in ((values, B), (values.abs(), B.abs()))
    )
    rows = np.random.default_rng(0).choice(given.shape[0], min(given.shape[0], HELD_ROWS), replace=False)
    whole = given.copy()
    whole.data = values.cpu().double().numpy()
    wanted = torch.from_numpy(whole[rows] @ B.cpu().double().numpy())
    torch.testing.assert_close(exact[torch.from_numpy(rows).to(B.device)].cpu(), wanted, rtol=1e-10, atol=1e-9)
    return exact, scale


def exact_sample(given: Any, X: torch.Tensor, Y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ⟨X[i], Y[j]⟩ and ⟨|X[i]|, |Y[j]|⟩ in float64, computed by torch in slices of the entries."""
    x, y = X.double(), Y.double()
    rows = torch.repeat_interleave(torch.arange(given.shape[0]), torch.from_numpy(given.indptr).long().diff())
    rows, cols = rows.to(X.device), torch.from_numpy(given.indices).long().to(X.device)
    sums = []
    for i, j in zip(rows.split(2**18), cols.split(2**18), strict=True):
        terms = x[i] * y[j]
        sums.append((terms.sum(1), terms.abs().sum(1)))
    exact, scale = (torch.cat(parts) for parts in zip(*sums, strict=True))
    return exact, scale


def error_of(found: torch.Tensor, wanted: torch.Tensor, scale: torch.Tensor) -> float:
    """Return the largest relative error; infinity if the result is not finite or has another shape."""
    if found.shape != wanted.shape or not bool(found.isfinite().all()):
        return float("inf")
    return float(((found.double() - wanted).abs() / (scale + 1)).max()) if found.numel() else 0.0
