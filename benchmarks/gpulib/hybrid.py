"""Composites on a GPU against the best single layout and torch's path: the GPU form of STile's Figures 7 and 9.

Every contender's result is held against float64 before anything is timed. Of single layouts and of composites those are
measured that the model likes best; beside the best of each kind, the best of Tensor Core tiles, of ELL buckets and of
equal runs alone are told (Table 7), and the seconds that looking for composites takes (Table 5).
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
from autosparse.cuda import choice, matrix
from autosparse.cuda.choice import Candidate, ProductKind
from autosparse.errors import PackError
from autosparse.gpu.schedule import SDDMM, DeviceSchedule
from autosparse.gpu.target import target_of
from gpulib import contenders, inputs
from gpulib.measure import TOLERANCE, Clock, error_of, exact_product, exact_sample, first_line, median_s

MEASURED: Final = 6
"""Of the single layouts, and of the composites, those that are measured; of each family one at least."""
DRY_MEASURED: Final = 1
FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "blocks only": ("windows", "blocks"), "ELL only": ("ell",), "1D only": ("segments", "entries")
}  # fmt: skip
"""Column of Table 7 -> layouts of which a schedule of that family is made (ELL's longest rows are equal runs)."""

Make = Callable[[], Any]


@dataclass(frozen=True)
class HybridCase:
    """One product of one matrix.

    `paper`: STile's speed over cuSPARSE (SpMM) or DGL (SDDMM), in float16 on an A100, where it tells one.
    """

    operation: str
    matrix: str
    columns: int
    dtype: str
    paper: float | None = None

    @property
    def name(self) -> str:
        """What stands in the records."""
        return f"hybrid {self.operation} {self.matrix} {self.columns} {self.dtype}"


PAPER: Final[dict[str, tuple[float, float]]] = {
    "LogSparse": (2.3, 3.3), "Strided": (3.8, 7.5), "unstructured": (3.1, 2.4), "structured": (7.6, 4.3),
    "cora": (2.4, 1.5), "citeseer": (3.3, 1.5), "pubmed": (2.5, 2.6),
}  # fmt: skip
"""Set -> (SpMM over cuSPARSE, Figure 7; SDDMM over DGL, Figure 9)."""


def matrices(folder: Path | None, *, dry: bool) -> Iterator[tuple[str, Make]]:
    """(set, what makes its matrix): masks, pruned weights, planted parts, the case study, and graphs."""
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
    """Every set by every width and dtype, SpMM and SDDMM in turn."""
    given = [(name, functools.cache(make)) for name, make in matrices(folder, dry=dry)]
    for columns in (16,) if dry else (64, 256, 32, 512):
        for name, make in given:
            for dtype in ("float16", "float32"):
                for at, operation in enumerate(("spmm", "sddmm")):
                    paper = PAPER[name][at] if name in PAPER and dtype == "float16" else None
                    yield HybridCase(operation, name, columns, dtype, paper), make


class Products:
    """The operands of one case, torch's product, and products by launches."""

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
        """By torch's own path."""
        offered = contenders.of_sample(self.A, self.X, self.B) if self.is_sampled else contenders.of_product(
            self.A, self.B, None
        )  # fmt: skip
        return dict(offered)["torch"]()

    def ours(self, schedule: DeviceSchedule) -> contenders.Run:
        """By a kernel of ours."""
        launch, A = choice.launch_of(self.A.structure, self.kind, schedule), self.A
        if self.is_sampled:
            return lambda: launch.sddmm(A.values, self.X, self.B, self.B.new_empty(A.nnz))
        return lambda: launch.matmul(A.values, self.B, self.B.new_empty((A.shape[0], self.case.columns)))

    def error(self, run: contenders.Run) -> float:
        """Largest error of an element."""
        return error_of(run(), self.wanted, self.scale)


def measure(case: HybridCase, given: Any, clock: Clock) -> dict[str, Any]:
    """The record of a case: seconds of torch, of the best single layout, of each family, and of the best composite."""
    products, start_s = Products(case, given, clock.place), time.perf_counter()
    with asp.options(hybrid=True):
        ranked = choice.candidates(products.A.structure, products.kind, target_of(clock.name), deterministic=True)
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
        except PackError as err:  # more memory than `extra_memory` allows: no product of a user takes it either
            refused[name] = first_line(err)
        except Exception as err:  # noqa: BLE001  what cannot do it is told, and does not end the comparison
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


def chosen(ranked: list[Candidate], clock: Clock) -> Iterator[Candidate]:
    """The model's favourites of single layouts, of each family, and of composites."""
    most = MEASURED if clock.is_gpu else DRY_MEASURED
    singles = [one for one in ranked if not one[1].is_composite]
    taken = singles[:most]
    for layouts in FAMILIES.values():
        taken += [one for one in singles if is_of(one[1], layouts) and one not in taken][:1]
    yield from taken
    yield from [one for one in ranked if one[1].is_composite][:most]


def is_of(schedule: DeviceSchedule, layouts: tuple[str, ...]) -> bool:
    """Whether a schedule is of a family: its first part is, and no part is of another one."""
    own = [part.layout for part in schedule.parts if part.layout != "fill"]
    return own[0] in layouts and set(own) <= {*layouts, *(("segments", "rows") if "ell" in layouts else ())}


def best_of(times: dict[str, float], schedules: dict[str, DeviceSchedule]) -> dict[str, Any]:
    """Fastest of each column, and the schedules of those that the comparison is about."""
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
    """A row for each case: times over the composite's, and torch's time over the fastest of ours beside the paper's."""
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
