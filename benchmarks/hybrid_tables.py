"""Reproduce STile's Tables 5 to 7 on a CPU: time of the greedy search, and costs without each of its techniques.

    python benchmarks/hybrid_tables.py [--cases NAME,NAME] [--columns 32] [--table FILE]

The tables show planned costs, and measured times of products in which generated kernels run the operators of a plan one
after the other (`peerlib/tile_times.py`). Planned costs are relative to an entry of CSR (`RATES`). Columns
"paper" repeat the paper's results, which were measured on a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import scipy.sparse as sp
from peerlib.environment import matrices_folder, start_again
from peerlib.hybrid_cases import generated
from peerlib.matrices import find_matrices, load
from peerlib.table import markdown
from peerlib.timing import Protocol

CASES: Final = ("cora", "citeseer", "pubmed", "NotreDame_www", "LogSparse", "Strided", "unstructured", "structured")
RUNS: Final = (1, 2, 4, 8, 16, 32)
RATES: Final = {"csr": (0.0, 0.75, 0.25), "block": (0.3, 0.75, 0.5), "ell": (0.3, 0.75, 0.25)}
"""Costs per tile, row of B read and stored slot, relative to an entry of CSR, by family of tiles."""
ROWS: Final = (0.5, 0.75)
"""Costs of a row of C in the first part and in each further part."""
DEPTHS_TRIED: Final = (1, 2, 10, 100)
SEARCH_S: Final = {
    "cora": ".5", "citeseer": ".6", "pubmed": "93.9", "NotreDame_www": "3015.7", "LogSparse": "1.0", "Strided": "2.3",
    "unstructured": ".1 to 12.9", "structured": ".03 to .4",
}  # fmt: skip
"""Search seconds of STile's Table 5, SpMM, by matrix."""
WITHOUT: Final = {
    "cora": "1 / 1 / 1", "citeseer": "1 / 1 / 1.3", "pubmed": "1 / 1 / 2.2", "NotreDame_www": "1.2 / 1.2 / 56.1",
}  # fmt: skip
"""STile's Table 6: latency without withdraw, without local search, and its search time, relative to the default."""
DEPTHS: Final = {
    "NotreDame_www": "1.7 1.4 1.6 1.0 / 1.1 1.3", "LogSparse": "1 1 1 1 / 1.0 1.0", "Strided": "1 1 1 1 / 1.0 2.0",
}  # fmt: skip
"""STile's Table 7, SpMM: latency at depth 1, 2, 10, 100, then of blocks and ELL alone, relative to the default."""


def matrix(name: str) -> Any | None:
    """Return the matrix of a case, or None if its file is missing."""
    folder = matrices_folder()
    found = find_matrices(folder, only=(name,)) if folder is not None else []
    if found:
        return sp.csr_array(load(found[0].path, dtype="float32"))
    return None if name in ("cora", "citeseer", "pubmed", "NotreDame_www") else sp.csr_array(generated(name))


def plans(A: Any, columns: int) -> tuple[dict[str, Any], dict[str, float]]:
    """Return greedy plans and their search seconds by name: the default (r = 1.2), ablations, and single families."""
    from autosparse.tuner.hybrid.costs import Operator, PrimitiveCosts, Rate
    from autosparse.tuner.research.hybrid.greedy import GreedyOptions, plan_tiles

    from autosparse import _native
    from autosparse.core.pattern import Pattern

    pattern = Pattern(*A.shape, A.indptr, A.indices)
    costs = PrimitiveCosts({family: Rate(*rate) for family, rate in RATES.items()}, *ROWS)
    blocks = tuple(Operator("block", r, c) for r in (1, 2, 4) for c in (1, 2, 4))
    runs = tuple(Operator("ell", 1, width) for width in RUNS)
    batches: dict[str, Any] = {"r": 1.2}
    wanted: dict[str, tuple[Sequence[Any], bool, dict[str, Any]]] = {
        "default": ((*blocks, *runs), True, batches),
        "no withdraw": ((*blocks, *runs), True, batches | {"withdraw": False}),
        "no local": ((*blocks, *runs), True, batches | {"local": False}),
        **{f"depth {depth}": ((*blocks, *runs), True, batches | {"levels": depth}) for depth in DEPTHS_TRIED},
        "blocks": (blocks, False, {}),
        "ELL": (runs, False, {}),
        "CSR": ((), True, {}),
        "r = 1": ((*blocks, *runs), True, {}),
    }
    made, seconds = {}, {}
    for name, (operators, with_csr, options) in wanted.items():
        start_s = time.perf_counter()
        made[name] = plan_tiles(
            pattern, operators, costs, _native.choose_tiles, GreedyOptions(**options), with_csr=with_csr
        )
        seconds[name] = time.perf_counter() - start_s
    return made, seconds


def rows(name: str, A: Any, args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return one row of each table: planned costs relative to the default search, and the same for measured times."""
    from peerlib.tile_times import layers, times_s  # imports autosparse, so only after `start_again`

    made, seconds = plans(A, args.columns)
    cost = {plan: one.cost for plan, one in made.items()}
    took = times_s(A, made, args.columns, Protocol(rounds=args.rounds, most_s=args.most_s))
    planned, measured = ({one: f"{of[one] / of['default']:.2f}" for one in of} for of in (cost, took))
    local_s = f"{seconds['no local'] / max(seconds['default'], 1e-9):.1f}"

    def cells(ratio: Mapping[str, str]) -> list[str]:
        depths = " ".join(ratio[f"depth {depth}"] for depth in DEPTHS_TRIED)
        return [
            f"{ratio['no withdraw']} / {ratio['no local']} / {local_s}", WITHOUT.get(name, "-"),
            f"{depths} / {ratio['blocks']} {ratio['ELL']}", DEPTHS.get(name, "-"), ratio["CSR"], ratio["r = 1"],
        ]  # fmt: skip

    head = [name, f"{A.nnz:,}"]
    return (
        [*head, f"{seconds['default']:.3f}", SEARCH_S.get(name, "-"), *cells(planned)],
        [*head, f"{1e3 * took['default']:.3f}", f"{len(layers(made['default']))}", *cells(measured)],
    )


def main() -> int:
    """Plan, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--columns", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--most-s", type=float, default=4.0, help="maximum seconds of the race per matrix; limits its rounds"
    )
    parser.add_argument("--table", type=Path, help="write the table as Markdown")
    args = parser.parse_args()
    start_again(1)
    ablations = [
        "no withdraw / no local / its time", "paper (T6)", "depth 1 2 10 100 / blocks, ELL alone", "paper (T7)",
        "CSR alone", "r = 1",
    ]  # fmt: skip
    planned = [["matrix", "entries", "search s", "paper (T5)", *ablations]]
    measured = [["matrix", "entries", "product ms", "operators", *ablations]]
    for name in args.cases.split(","):
        if (A := matrix(name)) is None:
            planned.append([name, "not there", *["-"] * 8])
            continue
        lines = rows(name, A, args)
        planned.append(lines[0])
        measured.append(lines[1])
        print(" | ".join(lines[1]), flush=True)
    text = "\n".join([
        "# STile's Tables 5 to 7 on a CPU",
        "",
        f"Greedy search with withdraw, r = 1.2, {args.columns} columns, one thread, costs relative to an entry of",
        "CSR. The paper's ratios are of latencies on an A100. NotreDame is a version with 929,849 entries (the",
        "paper: 1,497,134).",
        "",
        "## Planned costs, over those of the default search",
        "",
        "Seconds are those of one run.",
        "",
        markdown(planned),
        "",
        "## Measured times, over those of the default plan",
        "",
        "Generated kernels run the operators one after the other; plans alternate. `its time` is that of the search.",
        "Entries of ELL tiles are stored in CSR, so that ELL alone equals CSR.",
        "",
        markdown(measured),
    ])  # fmt: skip
    print(text)
    if args.table:
        args.table.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
