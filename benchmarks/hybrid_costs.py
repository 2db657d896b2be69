"""Measure how often planned costs predict the winner between the best composite and the best single format.

    python benchmarks/hybrid_costs.py [--matrices FOLDER] [--columns 32,256] [--json FILE] [--report] [--table FILE]

Both candidates come from fixed lists: for every partition of the matrix the schedules that parts are tried with first,
and single formats (row orders, generated loops, blocks). They alternate in one process, float32, one thread. Planned
costs use this machine's primitives if `python -m autosparse calibrate` has measured them. Groups are families of
matrices; a margin is evaluated on groups that did not choose it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from peerlib import hybrid_cases as made
from peerlib.archives import output
from peerlib.environment import matrices_folder, start_again
from peerlib.hybrid_case import HybridCase, context_for
from peerlib.machine import machine_facts
from peerlib.matrices import load
from peerlib.records import ResultFile
from peerlib.table import markdown
from peerlib.timing import Protocol, take_turns

Line = Mapping[str, Any]
Matrix = tuple[str, str, Callable[[], Any]]
"""Group, name, and function that makes the matrix."""

ENTRIES: Final = (100_000, 1_500_000)
"""Minimum and maximum number of entries of real matrices."""
PER_GROUP: Final = 1
MARGINS: Final = (1.0, 0.97, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6)
"""Margins to try: a composite is chosen if its planned cost is below this multiple of the best single format's."""
RIGHT: Final = 0.9
"""Minimum fraction of right choices for a margin to be accepted."""
BLOCKS: Final = ((2, 2), (4, 4), (8, 8), (3, 3), (8, 2))
MEMORY: Final = 60.0


def generated() -> Iterator[Matrix]:
    """Yield the planted matrices; each kind is a group."""
    for scatter in (0.1, 0.25, 0.5):
        yield "planted", f"planted {scatter}", partial(made.planted_blocks, n=4000, scatter=scatter)
    yield "planted", "planted 8x8", partial(made.planted_blocks, n=4000, side=8, per_row=5)
    for exponent in (1.3, 1.6, 2.0):
        yield "power", f"power {exponent}", partial(made.power_law, n=20_000, exponent=exponent)
    for n_rows in (10, 40):
        yield "dense rows", f"dense {n_rows} rows", partial(_with_dense_rows, n_rows)
    yield "attention", "LogSparse", made.log_sparse
    yield "attention", "Strided", partial(made.strided, n=2048)
    yield "pruned", "unstructured", made.pruned
    yield "pruned", "structured", partial(made.pruned, block=32)


def _with_dense_rows(n_rows: int) -> Any:
    return made.with_dense_rows(made.power_law(n=6000, exponent=2.0, seed=n_rows), n_rows)


def real(folder: Path | None) -> Iterator[Matrix]:
    """Yield at most PER_GROUP matrices of each group in the folder, the smallest with enough entries."""
    from autosparse.tuner.research.collect.recipes import real_files

    seen: dict[str, int] = {}
    for file in sorted(real_files(folder), key=lambda one: one.nnz) if folder is not None else ():
        if file.n_dims == 2 and ENTRIES[0] <= file.nnz <= ENTRIES[1] and seen.get(file.group, 0) < PER_GROUP:
            seen[file.group] = seen.get(file.group, 0) + 1
            yield file.group, Path(file.name).stem, partial(load, folder / file.name, dtype="float32")


def singles(columns: int) -> dict[str, list[Any]]:
    """Return the schedules of single formats by kind of tile, "csr" or "RxC"."""
    from autosparse.tuner.hybrid.schedules import runtime, tried

    from autosparse.core.composite import REST, Blocks

    of = tried("matmul")
    found = {"csr": [runtime("matmul", order) for order in ("degree", "first")] + of("adds", REST, columns)}
    found["csr"].insert(0, runtime("matmul"))
    return found | {f"{r}x{c}": of("blocks", Blocks(r, c, 1.0), columns) for r, c in BLOCKS}


def planned_single(view: Any, kind: str, costs: Any) -> float:
    """Return the planned cost of a single format over that of CSR."""
    from autosparse.tuner.hybrid.costs import CSR, Operator
    from autosparse.tuner.hybrid.partitions import sample_of

    from autosparse import _native

    if kind == "csr":
        return 1.0
    r, c = map(int, kind.split("x"))
    fill = _native.block_fill(sample_of(view), r, c)
    tile: float = costs.tile(Operator("block", r, c), 1)
    return float((1.0 / fill).mean()) * tile / costs.tile(CSR, 1)


def composites(context: Any) -> dict[Any, float]:
    """Return the planned cost over that of CSR of composites of every partition, including unpromising ones."""
    from autosparse.tuner.hybrid.partitions import partitions

    from autosparse import _native
    from autosparse.core.composite import Part
    from autosparse.tuning.hybrid import _composite, _Place, _view, costs_of, first_schedules

    found: dict[Any, float] = {}
    problem = context.problem
    for partition in partitions(
        _view(context), problem.n_dense_cols, _native.block_fill, costs_of(context), worth=math.inf
    ):
        parts = []
        for at, (selection, kind) in enumerate(zip(partition.selections, partition.kinds, strict=True)):
            tried = first_schedules(problem, kind, selection, at)
            place = _Place(partition, at)
            parts.append([Part(selection, one) for one in tried if place.reason(problem.operation, one) is None][:2])
        for chosen in zip(*(part if len(part) > 1 else part * 2 for part in parts), strict=True):
            if (composite := _composite(problem.operation, partition, chosen)) is not None:
                found[composite] = partition.predicted_ratio
    return found


def measure(matrix: Matrix, columns: int, cache: Path, protocol: Protocol) -> dict[str, Any]:
    """Return one record: planned costs and measured times of all candidates."""
    import autosparse as asp
    from autosparse.tuning.hybrid import _view, costs_of

    group, name, make = matrix
    with asp.options(extra_memory=MEMORY, hybrid=True, cache_dir=cache, threads=1):
        A = asp.csr(sp.csr_array(make()), copy=True)
        context = context_for(A, HybridCase(name, "matmul", columns))
        view, costs = _view(context), costs_of(context)
        planned = {}
        for kind, schedules in singles(columns).items():
            ratio = planned_single(view, kind, costs)
            planned |= dict.fromkeys(schedules, ("single", kind, ratio))
        for composite, ratio in composites(context).items():
            kind = "rows" if composite.parts[0].takes_rows else "values"
            dense = kind == "rows" and composite.parts[0].schedule.format.split("k") > 1
            planned[composite] = ("composite", "dense rows" if dense else kind, ratio)
        times = _times(context, [None, *planned], protocol)
    measured = [
        [*planned[one], times[one], str(one) if planned[one][0] == "composite" else str(one.format)]
        for one in planned
        if one in times
    ]
    return {
        "kind": "case", "key": f"{name} {columns}", "group": group, "columns": columns, "nnz": int(A.nnz),
        "default_s": times[None], "measured": measured,
    }  # fmt: skip


def _times(context: Any, schedules: Sequence[Any], protocol: Protocol) -> dict[Any, float]:
    """Return median seconds of a product by schedule, for the schedules that can run."""
    trials = [context(one) for one in schedules]
    context.build([one for one in trials if one.schedule is not None])
    runs = {}
    for trial in trials:
        trial.pack()
        if (run := context.served(trial, is_fresh=False)) is not None:
            runs[trial.schedule] = run
    times = take_turns(runs, protocol)
    for trial in trials:
        trial.drop()
    return {one: timing.median_s for one, timing in times.items()}


def verdicts(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return per case the planned and measured ratio of composite to single format.

    The composite is the one with the least planned cost.
    """
    found = []
    for line in lines:
        one = [row for row in line["measured"] if row[0] == "single"]
        many = [row for row in line["measured"] if row[0] == "composite"]
        if not one or not many:
            continue
        best = min(many, key=lambda row: row[2])
        planned = best[2] / min(row[2] for row in one)
        singles_s = min(*(row[3] for row in one), line["default_s"])
        found.append({
            "key": line["key"], "group": line["group"], "columns": line["columns"], "kind": best[1],
            "planned": planned, "measured": best[3] / singles_s, "best": min(row[3] for row in many) / singles_s,
        })  # fmt: skip
    return found


def chosen_margin(cases: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the largest margin under which at least RIGHT of the chosen composites win, or None."""
    for margin in MARGINS:
        chosen = [one for one in cases if one["planned"] < margin]
        if chosen and np.mean([one["measured"] < 1.0 for one in chosen]) >= RIGHT:
            return margin
    return None


def judged(cases: Sequence[Mapping[str, Any]]) -> tuple[int, int, float]:
    """Evaluate each group with the margin of all other groups.

    Return the number of chosen composites, the number of right choices, and the product of their time ratios.
    """
    n_chosen, n_right, product = 0, 0, 1.0
    for group in sorted({one["group"] for one in cases}):
        margin = chosen_margin([one for one in cases if one["group"] != group])
        taken = [one for one in cases if one["group"] == group and margin is not None and one["planned"] < margin]
        n_chosen += len(taken)
        n_right += sum(one["measured"] < 1.0 for one in taken)
        product *= math.prod(one["measured"] for one in taken)
    return n_chosen, n_right, product


def report(lines: Sequence[Line]) -> str:
    """Format how often planned costs are right, by width and kind of partition."""
    cases = verdicts(lines)
    header = [
        "columns",
        "division",
        "cases",
        "composite wins",
        "right at 1.0",
        "chosen, held out",
        "of these right",
        "time",
    ]
    rows = [header]
    for columns in sorted({one["columns"] for one in cases}):
        for kind in ("any", "dense rows", "rows", "values"):
            some = [one for one in cases if one["columns"] == columns and kind in ("any", one["kind"])]
            if not some:
                continue
            right = np.mean([(one["planned"] < 1.0) == (one["measured"] < 1.0) for one in some])
            n, n_right, product = judged(some)
            share = f"{n_right} ({n_right / n:.0%})" if n else "-"
            wins = sum(one["measured"] < 1.0 for one in some)
            time = f"{product ** (1 / n):.2f}" if n else "-"
            rows.append([str(columns), kind, str(len(some)), str(wins), f"{right:.0%}", str(n), share, time])
    each = [["case", "division", "planned", "measured", "best composite"]]
    each += [
        [one["key"], one["kind"], f"{one['planned']:.2f}", f"{one['measured']:.2f}", f"{one['best']:.2f}"]
        for one in sorted(cases, key=lambda one: one["planned"])
    ]
    return "\n".join([
        "# Planned costs of hybrid formats",
        "",
        f"{len({one['group'] for one in cases})} groups of matrices. Ratios are composite over best single format:",
        "below 1 the composite is faster. `right at 1.0`: planned and measured ratio are on the same side of 1.",
        "`chosen, held out`: composites below the largest margin under which at least",
        f"{RIGHT:.0%} of the other groups' were faster;",
        "`time`: geometric mean of their time ratios.",
        "",
        markdown(rows),
        "",
        markdown(each),
    ])  # fmt: skip


def main() -> int:
    """Measure the cases that the results lack, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--matrices", type=Path, default=matrices_folder(), help="folder of real matrices")
    parser.add_argument("--columns", default="32,256")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--most-s", type=float, default=1.2, help="maximum measuring time per case")
    parser.add_argument(
        "--cache", type=Path, default=Path.home() / ".cache" / "autosparse-hybrid", help="persistent cache for kernels"
    )
    parser.add_argument("--json", type=Path, help="default: hybrid_costs.jsonl in build, or results with --record")
    parser.add_argument("--record", action="store_true", help="keep the default output in benchmarks/results")
    parser.add_argument("--table", type=Path, help="write the tables as Markdown")
    parser.add_argument("--report", action="store_true", help="print the tables of --json and measure nothing")
    args = parser.parse_args()
    results = ResultFile(args.json or output("hybrid_costs.jsonl", record=args.record or args.report))
    if not args.report:
        start_again(1)
        known = {line["key"] for line in results.cases()}
        results.append({"kind": "run", **machine_facts(), "threads": 1})
        protocol = Protocol(rounds=args.rounds, sample_s=5e-4, warm_s=5e-4, most_s=args.most_s, least_rounds=3)
        for matrix in (*generated(), *real(args.matrices)):
            for columns in map(int, args.columns.split(",")):
                if f"{matrix[1]} {columns}" not in known:
                    line = measure(matrix, columns, args.cache, protocol)
                    results.append(line)
                    print(line["key"], line["nnz"], flush=True)
    text = report(results.cases())
    print(text)
    if args.table:
        args.table.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
