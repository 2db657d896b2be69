"""Hybrid formats: the best single format and the best composite that searches of equal length find, taking turns.

python benchmarks/hybrid.py [--cases TEXT] [--matrices FOLDER] [--budget-s 20] [--json FILE] [--report] [--table FILE]

Each case is searched twice with the same number of seconds, first with ``hybrid=False``, then with ``hybrid=True``, the
second without what the first remembered. What won takes turns in one process, and so do composites of the schedules
that parts are tried with first ("fixed"), which tell what a search of parts missed. float32; a case that the file of
results holds already is not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import scipy.sparse as sp
from peerlib import hybrid_cases as made
from peerlib.environment import matrices_folder, start_again
from peerlib.hybrid_table import report
from peerlib.machine import machine_facts
from peerlib.matrices import find_matrices, load
from peerlib.records import ResultFile
from peerlib.timing import Protocol, take_turns

N_RACED: Final = 2
"""Of the single formats, of the composites that were searched, and of the fixed ones: those that take turns."""
N_FIXED: Final = 9
MEMORY: Final = 40.0
"""Bytes of all contenders' packed copies, relative to the matrix."""
LEAST_NNZ: Final = 100_000


@dataclass(frozen=True, slots=True)
class HybridCase:
    """One matrix and product; `make` is called when its turn comes."""

    name: str
    make: Callable[[], Any]
    operation: str
    columns: int

    @property
    def key(self) -> str:
        """In the file of results."""
        return f"{self.name} {self.operation} {self.columns}"


def generated(folder: Path | None) -> Iterator[HybridCase]:
    """Matrices with planted parts, and the paper's masks, weights and case study."""
    planted: dict[str, tuple[Callable[[], Any], tuple[tuple[str, int], ...]]] = {
        "planted 4x4 + 25 % scatter": (made.planted_blocks, (("matmul", 256), ("sddmm", 256))),
        "power law 1.6": (made.power_law, (("matmul", 32),)),
        "power law 1.3": (lambda: made.power_law(exponent=1.3, seed=1), (("matmul", 32),)),
        "power law 2.0": (lambda: made.power_law(exponent=2.0, seed=2), (("matmul", 32),)),
        "LogSparse": (made.log_sparse, (("matmul", 64), ("sddmm", 64))),
        "Strided": (made.strided, (("matmul", 64), ("sddmm", 64))),
        "unstructured": (made.pruned, (("matmul", 128), ("sddmm", 128))),
        "structured": (lambda: made.pruned(block=32), (("matmul", 128), ("sddmm", 128))),
        "case study": (made.case_study, (("matmul", 32),)),
    }
    for name in ("cora", "citeseer", "pubmed"):
        if folder is not None and (graph := find_matrices(folder, only=(name,))):
            planted[name] = partial(load, graph[0].path, dtype="float32"), (("matmul", 128), ("sddmm", 128))
    if folder is not None and (base := find_matrices(folder, only=("elast_cube_sphere_r1",))):
        file = base[0].path
        planted["FEM + 40 dense rows"] = lambda: made.with_dense_rows(load(file, dtype="float32")), (("matmul", 256),)
    for name, (make, products) in planted.items():
        for operation, columns in products:
            yield HybridCase(name, make, operation, columns)


def real(folder: Path | None, limit: int | None, columns: Sequence[int]) -> Iterator[HybridCase]:
    """Matrices of the folder with enough entries."""
    for file in find_matrices(folder, min_nnz=LEAST_NNZ, limit=limit) if folder is not None else ():
        for n in columns:
            yield HybridCase(file.name, partial(load, file.path, dtype="float32"), "matmul", n)


def searched(A: Any, case: HybridCase, budget_s: float, *, hybrid: bool) -> tuple[Any, list[Any], float]:
    """(the plan, schedules that were measured, fastest first, seconds) of a search without memory."""
    import autosparse as asp

    start_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as fresh, asp.options(hybrid=hybrid, cache_dir=fresh):
        plan = A.tune(case.operation, columns=case.columns, effort="full", budget_s=budget_s)
    seconds = time.perf_counter() - start_s
    times_s = {one.schedule: one.measured_s for one in plan.candidates if one.measured_s}
    return plan, sorted(times_s, key=lambda one: times_s[one]), seconds


def lab_for(A: Any, case: HybridCase) -> Any:
    """What makes and times kernels of A's product."""
    from autosparse.dispatch.state import state_for
    from autosparse.tuning.setup import lab_of

    cell = A._cell
    return lab_of(cell, state_for(cell, cell.rows or cell.validate(), case.columns, False, operation=case.operation))


def fixed_composites(lab: Any) -> list[Any]:
    """Composites of the divisions that a search looks into, of the schedules that their parts are tried with first."""
    from autosparse._native import composite_unsupported

    from autosparse.config import Effort
    from autosparse.core.composite import Composite, Part
    from autosparse.tuning.hybrid import divider_of, first_schedules

    divider = divider_of(lab, effort=Effort.FULL, budget_s=1.0, known=None, clock=time.perf_counter)
    found: list[Any] = []
    for division in divider.divisions() if divider is not None else ():
        tried = [
            first_schedules(lab.problem, kind, selection, at)
            for at, (selection, kind) in enumerate(zip(division.selections, division.kinds, strict=True))
        ]
        for chosen in itertools.product(*tried):
            parts = tuple(Part(selection, one) for selection, one in zip(division.selections, chosen, strict=True))
            composite = Composite(parts=parts)
            if composite_unsupported(lab.problem.operation, composite) is None:
                found.append(composite)
    return found[:N_FIXED]


def name_of(schedule: Any) -> str:
    """Names a contender whole; "default" for the runtime's own kernel."""
    return "default" if schedule is None else schedule.to_json()


def runners(lab: Any, schedules: Sequence[Any]) -> tuple[dict[str, Callable[[], object]], list[Any]]:
    """(name -> one product, trials) of the schedules whose kernels could be built and packed."""
    trials = [lab(schedule) for schedule in schedules]
    lab.build([trial for trial in trials if trial.schedule is not None])
    runs = {}
    for trial in trials:
        if trial.failed is None and trial.schedule is not None:
            trial.pack()
        run = lab.runner(trial)
        if run is not None:
            runs[name_of(trial.schedule)] = run
    return runs, trials


def measure(case: HybridCase, budget_s: float, protocol: Protocol) -> dict[str, Any]:
    """One line of the results."""
    import autosparse as asp
    from autosparse.core.composite import Composite

    matrix = sp.csr_array(case.make())
    with asp.options(extra_memory=MEMORY):
        alone, singles, alone_s = searched(asp.csr(matrix, copy=True), case, budget_s, hybrid=False)
        hybrid, found, hybrid_s = searched(asp.csr(matrix, copy=True), case, budget_s, hybrid=True)
        A = asp.csr(matrix, copy=True)
        with asp.options(hybrid=True):
            lab = lab_for(A, case)
        composites = [one for one in found if isinstance(one, Composite)]
        fixed = [one for one in fixed_composites(lab) if one not in composites]
        contenders = {
            "single": list(dict.fromkeys([alone.schedule, *singles[:N_RACED]])),
            "chosen": [hybrid.schedule],
            "composite": composites[:N_RACED],
            "fixed": fixed,
        }
        everything = list(dict.fromkeys(one for group in contenders.values() for one in group))
        runs, trials = runners(lab, everything)
        times = take_turns(runs, protocol)
        for trial in trials:
            trial.drop()
    group_s = {
        kind: min(((times[name].median_s, name) for one in group if (name := name_of(one)) in times), default=None)
        for kind, group in contenders.items()
    }
    return {
        "kind": "case", "key": case.key, "name": case.name, "operation": case.operation, "columns": case.columns,
        "shape": list(matrix.shape), "nnz": int(matrix.nnz), "budget_s": budget_s, "search_s": [alone_s, hybrid_s],
        "why": hybrid.why, "is_composite": isinstance(hybrid.schedule, Composite), "fastest": group_s,
        "times_s": {name: timing.median_s for name, timing in times.items()},
    }  # fmt: skip


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", default="", help="cases whose key contains one of these, separated by commas")
    parser.add_argument("--matrices", type=Path, help="folder of real matrices, measured too")
    parser.add_argument("--columns", default="32,256", help="of the real matrices' products")
    parser.add_argument("--limit", type=int, help="most real matrices")
    parser.add_argument("--budget-s", type=float, default=20.0, help="of each of the two searches")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "hybrid.jsonl")
    parser.add_argument("--table", type=Path, help="write the tables as Markdown")
    parser.add_argument("--report", action="store_true", help="print what --json holds and measure nothing")
    return parser.parse_args(given)


def main() -> int:
    """Measure what is missing and print."""
    args = arguments()
    results = ResultFile(args.json)
    if not args.report:
        start_again(args.threads)
        import autosparse as asp

        asp.set_options(threads=args.threads)
        known = {line["key"] for line in results.cases(budget_s=args.budget_s)}
        columns = [int(one) for one in args.columns.split(",")]
        cases = [*generated(matrices_folder()), *real(args.matrices, args.limit, columns)]
        wanted = [case for case in cases if any(text in case.key for text in args.cases.split(","))]
        missing = [case for case in wanted if case.key not in known]
        if missing:
            results.append({"kind": "run", **machine_facts(), "threads": args.threads})
        for case in missing:
            line = measure(case, args.budget_s, Protocol(rounds=args.rounds, most_s=6.0))
            results.append(line)
            print(case.key, *((kind, one and one[0]) for kind, one in line["fastest"].items()), flush=True)
    text = report(results.cases())
    print(text)
    if args.table:
        args.table.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
