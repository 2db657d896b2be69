"""Compare the greedy search's partitions for a GPU (STile, Algorithm 2) with today's rules and with single layouts.

    python benchmarks/hybrid_gpu.py [--quick] [--only reddit] [--table PAGE.md]   # planned costs, and measurements
    python benchmarks/hybrid_gpu.py --fit                                         # fit costs to the committed tables

No GPU is needed: times are planned by costs that were fitted to the committed tables of an H100 and an H200. Columns
`measured` are the best composite's time over the best single layout's in these tables. Graphs are generated with the
published numbers of nodes and edges and a power law of the degrees; the largest needs about 8 GB of memory.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib import hybrid_cases as made
from peerlib.archives import members
from peerlib.table import markdown

GRAPHS: Final = {"ppi": (44_906, 1_271_274), "arxiv": (169_343, 1_166_243), "proteins": (132_534, 39_561_252),
                 "reddit": (232_965, 114_615_892)}  # fmt: skip
"""Name -> published nodes and edges."""
TOLERANCE: Final = 0.01
"""Maximum relative difference between a graph's number of entries and the published one."""
MAX_DRAWS: Final = 6
QUICK_DIVISOR: Final = {"ppi": 32, "arxiv": 32, "proteins": 512, "reddit": 1024}
SEARCH_S: Final = {
    "Strided": "2.3", "LogSparse": "1.0", "unstructured": ".1-12.9", "structured": ".03-.4", "ppi": "88.0",
    "arxiv": "1154.7", "proteins": "1161.8", "reddit": "2831.0",
}  # fmt: skip
"""Seconds of the search in the paper's Table 5 (SpMM)."""
FIGURE_7: Final = {"Strided": 3.8, "LogSparse": 2.3, "unstructured": 3.1, "structured": 7.6, "ppi": 2.1, "arxiv": 2.3,
                   "proteins": 12.7, "reddit": 18.0}  # fmt: skip
"""Speedups over cuSPARSE in the paper's Figure 7."""
FAMILIES: Final = {"csr": ("unrolled", "csr"), "block": ("windows", "blocks")}
DEVICES: Final = {"h100": "h100-sxm", "h200": "h200"}


def graph(n: int, n_edges: int, divisor: int) -> Any:
    """Return a graph whose degrees follow a power law, with `n_edges` / `divisor` edges unless the graph is too small.

    Edges that are drawn twice count once, so that the mean of the drawn degrees is raised until the number is right.
    """
    nodes = max(64, n // divisor)
    wanted = mean = min(nodes / 8, n_edges / n)
    for _ in range(MAX_DRAWS):
        A = made.power_law(n=nodes, mean=mean, exponent=1.6)
        found = A.nnz / nodes
        if abs(found - wanted) <= TOLERANCE * wanted:
            break
        mean *= wanted / found
    return A


def matrices(*, quick: bool) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield (kind of pattern, name, function that makes the matrix)."""
    size = 8 if quick else 1
    yield "attention", "Strided", partial(made.strided, 4096 // size)
    yield "attention", "LogSparse", partial(made.log_sparse, 4096 // size)
    yield "pruned", "unstructured", partial(made.pruned, 1024 // size)
    yield "pruned", "structured", partial(made.pruned, 1024 // size, block=32)
    yield "blocks", "planted 16x16 + 25 % scatter", partial(made.planted_blocks, n=16_384 // size, side=16, per_row=4)
    yield "blocks", "case study", partial(made.case_study, 64 // size)
    yield "power law", "power law", partial(made.power_law, n=200_000 // size)
    for name, (n, n_edges) in GRAPHS.items():
        divisor = QUICK_DIVISOR[name] if quick else 1
        yield "graph", f"{name} / {divisor}" if quick else name, partial(graph, n, n_edges, divisor)
    if not quick:
        for name in ("elast_elbow2_r1", "mdual"):
            yield "FEM", name, partial(made.real, name)


@functools.cache
def measured(device: str) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Return (matrix, columns, dtype) -> the record of the committed table of `device`."""
    found = {}
    for text in members("gpu")[f"{device}/hybrid.jsonl"].splitlines():
        line = json.loads(text)
        if line["part"] == "hybrid spmm":
            name, columns, dtype = line["case"].removeprefix("hybrid spmm ").rsplit(" ", 2)
            found[name, int(columns), dtype] = line
    return found


def rows(kind: str, name: str, A: Any, columns: int, *, has_measurements: bool) -> list[str]:
    """Return one row of the table; matrices of another size than the measured ones have no measurements."""
    from autosparse.tuner.gpu import composites
    from autosparse.tuner.gpu.space import GpuSetting
    from autosparse.tuner.research.hybrid.gpu_plan import planned
    from autosparse.tuner.research.hybrid.greedy import GreedyOptions

    from autosparse.core.pattern import Pattern
    from autosparse.gpu.target import targets

    pattern = Pattern(*A.shape, A.indptr, A.indices)
    asked = GpuSetting(operation="matmul", n_dense_cols=columns, dtype="float16", vector=8)
    tables = {device: measured(device) if has_measurements else {} for device in DEVICES}
    cells, base = [], name.split(" /", maxsplit=1)[0]
    for device, target in DEVICES.items():
        start_s = time.perf_counter()
        plan = planned(pattern, asked, targets()[target], max_nnz=A.nnz)
        search_s = time.perf_counter() - start_s
        ruled = composites.partitions(pattern, asked, targets()[target])[:1]
        line = tables[device].get((name, columns, "float16"), {"seconds": {}})["seconds"]
        ratio = f"{line['composite'] / line['single']:.2f}" if {"composite", "single"} <= set(line) else "-"
        cells += [
            f"{plan.ratio:.2f} ± {plan.sigma:.2f}", "plan" if plan.is_trusted else "rules",
            f"{ruled[0].predicted_ratio:.2f}" if ruled else "1.00", ratio,
        ]  # fmt: skip
    variants = (GreedyOptions(withdraw=False), GreedyOptions(r=1.2, local=False), GreedyOptions(levels=1))
    h100 = targets()["h100-sxm"]
    costs = [planned(pattern, asked, h100, one, max_nnz=A.nnz).plan for one in (GreedyOptions(), *variants)]
    ablation = " / ".join(f"{one.cost / max(costs[0].cost, 1e-30):.2f}" for one in costs[1:] if one and costs[0])
    torch_s = tables["h100"].get((name, columns, "float16"), {"seconds": {}})["seconds"]
    ours = [torch_s[one] for one in ("single", "composite") if one in torch_s]
    gain = f"{torch_s['torch'] / min(ours):.1f}" if ours and "torch" in torch_s else "-"
    paper = FIGURE_7.get(base)
    return [kind, name, f"{A.nnz:,}", str(columns), *cells, ablation, f"{search_s:.2f}", SEARCH_S.get(base, "-"), gain,
            "-" if paper is None else str(paper)]  # fmt: skip


def counts(A: Any) -> dict[str, float]:
    """Return the tiles of each family: entries, and blocks after empty columns of windows of 16 rows are removed."""
    entry_rows = np.repeat(np.arange(A.shape[0], dtype=np.int64), np.diff(A.indptr)) // 16
    n_blocks = np.unique(entry_rows * -(-A.shape[1] // 16) + A.indices // 16).size
    n_columns = np.unique(entry_rows * A.shape[1] + A.indices).size
    return {"csr": float(A.nnz), "block": min(n_blocks, n_columns / 16)}


def fit_tables() -> None:
    """Print the fitted costs of each device, dtype and family."""
    from autosparse.tuner.research.hybrid.gpu_plan import Sample, fit
    from gpulib.hybrid import matrices as gpu_matrices

    generated, known = dict(gpu_matrices(None, dry=False)), {}
    for device, target in DEVICES.items():
        samples: dict[tuple[str, str], list[Sample]] = {}
        for (name, columns, dtype), line in measured(device).items():
            if name not in known:
                A = generated[name]() if name in generated else made.real(name)
                known[name] = counts(A), A.shape[0]
            tiles, n_rows = known[name]
            for family, layouts in FAMILIES.items():
                times = [
                    seconds for key, seconds in line["times_s"].items()
                    if key[:1].isdigit() and key.partition(" ")[2].startswith(layouts) and "+" not in key
                ]  # fmt: skip
                if times:
                    sample = Sample(name, tiles[family], n_rows, columns, min(times))
                    samples.setdefault((dtype, family), []).append(sample)
        for (dtype, family), own in sorted(samples.items()):
            print(target, dtype, family, fit(own))


def main() -> int:
    """Print the comparison, or the fitted costs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--fit", action="store_true", help="fit the costs of tiles to the committed tables")
    parser.add_argument("--quick", action="store_true", help="matrices of an eighth of the size")
    parser.add_argument("--only", metavar="NAME", help="one matrix; tables of several runs can be joined")
    parser.add_argument("--columns", default="64,512")
    parser.add_argument("--table", type=Path, help="write the table as Markdown")
    args = parser.parse_args()
    if args.fit:
        fit_tables()
        return 0
    head = ["pattern", "matrix", "entries", "columns"]
    for device in ("H100", "H200"):
        head += [f"planned {device}", f"decides {device}", f"rules, planned {device}", f"measured {device}"]
    head += ["no withdraw / no local / depth 1 (planned)", "search s", "paper (T5)", "over cuSPARSE, measured H100",
             "paper (F7)"]  # fmt: skip
    lines = [head]
    for kind, name, make in matrices(quick=args.quick):
        if args.only and args.only != name.split(" /", maxsplit=1)[0]:
            continue
        try:
            A = make()
        except ValueError as err:
            print(err, file=sys.stderr)
            continue
        for columns in map(int, args.columns.split(",")):
            lines.append(rows(kind, name, A, columns, has_measurements=not args.quick))
            print(" | ".join(lines[-1]), flush=True)
    if args.table:
        args.table.write_text(markdown(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
