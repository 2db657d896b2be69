"""Compare composites on a GPU with the best single layout and torch, after Figures 7 and 9 of STile.

Every result is compared with float64 before timing. The single layouts and the composites that the cost model ranks
first are measured. Besides the best of each kind, the record holds the best of Tensor Core tiles, of ELL buckets and of
equal runs alone (STile's Table 7), and the seconds that the search for composites takes (Table 5).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from autosparse.tuner.gpu.space import vector_of
from peerlib import hybrid_cases as made

import autosparse as asp
from autosparse.cuda import matrix, solvers
from autosparse.cuda.solvers import Named, ProductKind
from autosparse.errors import PackError
from autosparse.gpu.schedule import SDDMM, DeviceSchedule
from autosparse.gpu.target import target_of
from gpulib import contenders, inputs
from gpulib.measure import TOLERANCE, Clock, error_of, exact_product, exact_sample, first_line, median_s

MEASURED: Final = 6
"""Number of single layouts, and of composites, that are measured; each family gets at least one single layout."""
DRY_MEASURED: Final = 1
FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "blocks only": ("windows", "blocks"), "ELL only": ("ell",), "1D only": ("segments", "entries")
}  # fmt: skip
"""Column of Table 7, and the layouts of a schedule of that family (ELL's longest rows are stored as equal runs)."""

Make = Callable[[], Any]


@dataclass(frozen=True)
class HybridCase:
    """One product of one matrix.

    `paper` is STile's speedup over cuSPARSE (SpMM) or DGL (SDDMM), in float16 on an A100, or None if the paper has
    none.
    """

    operation: str
    matrix: str
    columns: int
    dtype: str
    paper: float | None = None

    @property
    def name(self) -> str:
        """Name of the case in the records."""
        return f"hybrid {self.operation} {self.matrix} {self.columns} {self.dtype}"


PAPER: Final[dict[str, tuple[float, float]]] = {
    "LogSparse": (2.3, 3.3), "Strided": (3.8, 7.5), "unstructured": (3.1, 2.4), "structured": (7.6, 4.3),
    "cora": (2.4, 1.5), "citeseer": (3.3, 1.5), "pubmed": (2.5, 2.6),
}  # fmt: skip
"""Speedups of the paper by set: SpMM over cuSPARSE (Figure 7) and SDDMM over DGL (Figure 9)."""


def matrices(folder: Path | None, *, dry: bool) -> Iterator[tuple[str, Make]]:
    """Yield (set, function that makes its matrix): masks, pruned weights, planted parts, the case study, and graphs."""
    n = 64 if dry else 4096
    yield "LogSparse", lambda: made.log_sparse(n)
    yield "Strided", lambda: made.strided(n, 8 if dry else 64)
    yield "unstructured", lambda: made.pruned(64 if dry else 1024)
    yield "structured", lambda: made.pruned(64 if dry else 1024, block=32, density=0.3 if dry else 0.1)
    yield (
        "planted 16x16 + 25 % scatter",
        lambda: made.planted_blocks(n=64 if dry else 16384, side=16, per_row=1 if dry else 4),
    )
    yield "case study", lambda: made.case_study(2 if dry else 64, tail=16 if dry else 48)
    yield "power law", lambda: made.power_law(n=64 if dry else 200_000)
    if folder is not None and not dry:
        for name in ("cora", "citeseer", "pubmed"):
            yield from ((name, lambda path=path: inputs.loaded(path)) for path in folder.glob(f"{name}.npz"))
        yield from ((name, lambda A=A: A) for name, A in inputs.real(folder))


def cases(folder: Path | None, *, dry: bool) -> Iterator[tuple[HybridCase, Make]]:
    """Yield every set with every width and dtype, for SpMM and SDDMM."""
    given = [(name, functools.cache(make)) for name, make in matrices(folder, dry=dry)]
    for columns in (16,) if dry else (64, 256, 32, 512):
        for name, make in given:
            for dtype in ("float16", "float32"):
                for at, operation in enumerate(("spmm", "sddmm")):
                    paper = PAPER[name][at] if name in PAPER and dtype == "float16" else None
                    yield HybridCase(operation, name, columns, dtype, paper), make


class Products:
    """Operands of one case, and functions that compute its product."""

    def __init__(self, case: HybridCase, given: Any, place: str) -> None:
        torch.manual_seed(0)
        self.case, dtype = case, getattr(torch, case.dtype)
        arrays = [torch.from_numpy(one.astype("int32")).to(place) for one in (given.indptr, given.indices)]
        values = torch.randn(given.nnz).to(place, dtype)
        self.A = matrix.csr(torch.sparse_csr_tensor(*arrays, values, given.shape, check_invariants=False))
        n, m = self.A.shape
        self.X, self.B = (torch.randn(rows, case.columns).to(place, dtype) for rows in (n, m))
        self.is_sampled = case.operation == "sddmm"
        operation = SDDMM if self.is_sampled else "matmul"
        self.kind = ProductKind(
            operation=operation, transposed=False, n_dense_cols=case.columns, dtype=case.dtype,
            vector=vector_of(case.dtype, case.columns),
        )  # fmt: skip
        exact = exact_sample(given, self.X, self.B) if self.is_sampled else exact_product(given, values, self.B)
        self.wanted, self.scale = exact

    def torchs(self) -> contenders.Run:
        """Return torch's own product."""
        offered = contenders.of_sample(self.A, self.X, self.B) if self.is_sampled else contenders.of_product(
            self.A, self.B, None
        )  # fmt: skip
        return dict(offered)["torch"]()

    def ours(self, schedule: DeviceSchedule) -> contenders.Run:
        """Return the product by autosparse's kernel for `schedule`."""
        launch, A = solvers.launch_of(self.A.structure, self.kind, schedule), self.A
        if self.is_sampled:
            return lambda: launch.sddmm(A.values, self.X, self.B, self.B.new_empty(A.nnz))
        return lambda: launch.matmul(A.values, self.B, self.B.new_empty((A.shape[0], self.case.columns)))

    def error(self, run: contenders.Run) -> float:
        """Return the largest error of an element."""
        return error_of(run(), self.wanted, self.scale)


def measure(case: HybridCase, given: Any, clock: Clock) -> dict[str, Any]:
    """Return the record of a case: seconds of torch, the best single layout, each family, and the best composite."""
    products, start_s = Products(case, given, clock.place), time.perf_counter()
    with asp.options(hybrid=True):
        ranked = solvers.ranked(products.A.structure, products.kind, target_of(clock.name))
    search_s = time.perf_counter() - start_s
    picked = {f"{number} {name}, tile {one.tile}": one for number, (name, one) in enumerate(chosen(ranked, clock))}
    offered = {"torch": products.torchs} | {name: functools.partial(products.ours, one) for name, one in picked.items()}
    runs: dict[str, contenders.Run] = {}
    errors, failed, refused = {}, {}, {}
    for name, make in offered.items():
        try:
            run = make()
            errors[name] = products.error(run)
            runs[name] = run
        except PackError as err:  # exceeds `extra_memory`, so users do not get it either
            refused[name] = first_line(err)
        except Exception as err:  # noqa: BLE001  failures are recorded; the comparison continues
            failed[name] = first_line(err)
    schedules = {name: one for name, one in picked.items() if name in runs}
    limit = TOLERANCE[case.dtype]
    right = {name: run for name, run in runs.items() if errors[name] <= limit}
    times = {name: median_s(run, clock) for name, run in right.items()}
    return {
        "case": case.name, "part": f"hybrid {case.operation}", "nnz": int(given.nnz), "shape": list(given.shape),
        "paper": case.paper, "search_s": search_s, "errors": errors, "failed": failed,
        "refused": refused,
        "wrong": [name for name in runs if name not in right], "rejected": [],
        "n_composites": sum(one.is_composite for _, one in ranked), "times_s": times, **best_of(times, schedules),
        "served": [len(times) - ("torch" in times), len(schedules)],
        "device": clock.name, "torch": torch.__version__, "is_dry": not clock.is_gpu,
    }  # fmt: skip


def chosen(ranked: list[Named], clock: Clock) -> Iterator[Named]:
    """Yield the model's favourites among single layouts, at least one per family, and among composites."""
    most = MEASURED if clock.is_gpu else DRY_MEASURED
    singles = [one for one in ranked if not one[1].is_composite]
    taken = singles[:most]
    for layouts in FAMILIES.values():
        taken += [one for one in singles if is_of(one[1], layouts) and one not in taken][:1]
    yield from taken
    yield from [one for one in ranked if one[1].is_composite][:most]


def is_of(schedule: DeviceSchedule, layouts: tuple[str, ...]) -> bool:
    """Return whether a schedule is of a family: its first part is, and no part is of another family."""
    own = [part.layout for part in schedule.parts if part.layout != "fill"]
    return own[0] in layouts and set(own) <= {*layouts, *(("segments", "rows") if "ell" in layouts else ())}


def best_of(times: dict[str, float], schedules: dict[str, DeviceSchedule]) -> dict[str, Any]:
    """Return the fastest time of each column, and the schedules of the best single layout and composite."""
    groups: dict[str, list[str]] = {
        "single": [name for name, one in schedules.items() if not one.is_composite],
        "composite": [name for name, one in schedules.items() if one.is_composite],
    }
    for family, layouts in FAMILIES.items():
        groups[family] = [name for name in groups["single"] if is_of(schedules[name], layouts)]
    best = {
        group: min(known, key=times.__getitem__)
        for group, names in groups.items() if (known := [name for name in names if name in times])
    }  # fmt: skip
    seconds = {group: times[name] for group, name in best.items()}
    kept = {group: schedules[best[group]].to_json() for group in ("single", "composite") if group in best}
    return {"seconds": seconds | {"torch": times["torch"]} if "torch" in times else seconds, "schedules": kept}


def table(lines: list[dict[str, Any]]) -> str:
    """Format a row per case: times over the composite's, and torch's time over autosparse's best beside the paper's."""
    columns = ("torch", "single", *FAMILIES)
    rows = [f"{'times over the composite':<52}" + "".join(f"{one:>12}" for one in columns) + f"{'gain':>8}{'paper':>8}"]
    for line in lines:
        seconds = line["seconds"]
        own = seconds.get("composite")
        ratios = [f"{seconds[one] / own:12.2f}" if own and one in seconds else f"{'-':>12}" for one in columns]
        ours = min((seconds[one] for one in ("single", "composite") if one in seconds), default=None)
        gain = f"{seconds['torch'] / ours:8.2f}" if ours and "torch" in seconds else f"{'-':>8}"
        paper = f"{line['paper']:8.1f}" if line["paper"] else f"{'-':>8}"
        rows.append(f"{line['case'][7:]:<52}" + "".join(ratios) + gain + paper)
    n_wins = sum(line["seconds"].get("composite", 1e9) < 0.97 * line["seconds"].get("single", 0) for line in lines)
    rows.append(f"composites beat the best single layout by more than 3 % in {n_wins} of {len(lines)} cases")
    return "\n".join(rows)
