"""STile's Tables 5 to 7 on a CPU: seconds of the greedy search, and planned costs without each of its means.

python benchmarks/hybrid_tables.py [--cases NAME,NAME] [--columns 32] [--table FILE]

Planned costs, not times of products: greedy plans have no kernels here. Costs of primitives are those of this machine
if `python -m autosparse calibrate` has measured them. Beside each figure stands the paper's, of its GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import scipy.sparse as sp
from peerlib.environment import matrices_folder, start_again
from peerlib.hybrid_cases import generated
from peerlib.matrices import find_matrices, load
from peerlib.table import markdown

CASES: Final = ("cora", "citeseer", "pubmed", "NotreDame_www", "LogSparse", "Strided", "unstructured", "structured")
RUNS: Final = (1, 2, 4, 8, 16, 32)
SEARCH_S: Final = {
    "cora": ".5", "citeseer": ".6", "pubmed": "93.9", "NotreDame_www": "3015.7", "LogSparse": "1.0", "Strided": "2.3",
    "unstructured": ".1 to 12.9", "structured": ".03 to .4",
}  # fmt: skip
"""Table 5, SpMM."""
WITHOUT: Final = {
    "cora": "1 / 1 / 1", "citeseer": "1 / 1 / 1.3", "pubmed": "1 / 1 / 2.2", "NotreDame_www": "1.2 / 1.2 / 56.1",
}  # fmt: skip
"""Table 6: latency without withdraw, without local search, its search time, over the default's."""
DEPTHS: Final = {
    "NotreDame_www": "1.7 1.4 1.6 1.0 / 1.1 1.3", "LogSparse": "1 1 1 1 / 1.0 1.0", "Strided": "1 1 1 1 / 1.0 2.0",
}  # fmt: skip
"""Table 7, SpMM: latency at depth 1, 2, 10, 100, then of blocks alone and of ELL alone, over the default's."""


def matrix(name: str) -> Any | None:
    """The matrix of a case; None where its file is not there."""
    folder = matrices_folder()
    found = find_matrices(folder, only=(name,)) if folder is not None else []
    if found:
        return sp.csr_array(load(found[0].path, dtype="float32"))
    return None if name in ("cora", "citeseer", "pubmed", "NotreDame_www") else sp.csr_array(generated(name))


def costs_for(n_columns: int, columns: int) -> Any:
    """Costs of primitives: this machine's, else the default."""
    from autosparse.tuner.hybrid.divisions import DEFAULT_COSTS

    from autosparse.config import get_options
    from autosparse.tuning.learned import calibrated_folder
    from autosparse.tuning.memory.cost_table import farness, known_costs
    from autosparse.tuning.setup import target_of

    target = target_of(get_options())
    far = farness(4 * n_columns * columns, target.l2_bytes)
    return known_costs(calibrated_folder(get_options(), target)).of(columns, far=far) or DEFAULT_COSTS


def row(name: str, A: Any, columns: int) -> list[str]:
    """A line of the table: seconds, then ratios of planned cost to the default's."""
    from autosparse.tuner.hybrid.costs import Operator
    from autosparse.tuner.hybrid.greedy import GreedyOptions, plan_tiles
    from autosparse.tuner.hybrid.tiles import block_operators

    from autosparse import _native
    from autosparse.core.pattern import Pattern

    pattern, costs = Pattern(*A.shape, A.indptr, A.indices), costs_for(A.shape[1], columns)
    blocks, runs = block_operators(), tuple(Operator("ell", 1, width) for width in RUNS)

    def planned(
        operators: Sequence[Any] = (*blocks, *runs), *, with_csr: bool = True, **options: Any
    ) -> tuple[Any, float]:
        start_s = time.perf_counter()
        made = plan_tiles(pattern, operators, costs, _native.choose_tiles, GreedyOptions(**options), with_csr=with_csr)
        return made, time.perf_counter() - start_s

    default, seconds = planned(r=1.2)

    def over(made: Any) -> str:
        return f"{made.cost / default.cost:.2f}"

    withdraw, (everywhere, everywhere_s) = planned(r=1.2, withdraw=False)[0], planned(r=1.2, local=False)
    depths = " ".join(over(planned(r=1.2, levels=depth)[0]) for depth in (1, 2, 10, 100))
    alone = f"{over(planned(blocks, with_csr=False)[0])} {over(planned(runs, with_csr=False)[0])}"
    singles = planned((), with_csr=True)[0]
    return [
        name, f"{A.nnz:,}", f"{seconds:.3f}", SEARCH_S.get(name, "-"),
        f"{over(withdraw)} / {over(everywhere)} / {everywhere_s / max(seconds, 1e-9):.1f}", WITHOUT.get(name, "-"),
        f"{depths} / {alone}", DEPTHS.get(name, "-"), over(singles), over(planned()[0]),
    ]  # fmt: skip


def main() -> int:
    """Plan and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--columns", type=int, default=32)
    parser.add_argument("--table", type=Path, help="write the table as Markdown")
    args = parser.parse_args()
    start_again(1)
    rows = [[
        "matrix", "entries", "search s", "paper (T5)", "no withdraw / no local / its time", "paper (T6)",
        "depth 1 2 10 100 / blocks, ELL alone", "paper (T7)", "CSR alone", "r = 1",
    ]]  # fmt: skip
    from autosparse.tuner.hybrid.divisions import DEFAULT_COSTS

    whose = "that are the default" if costs_for(1, args.columns) == DEFAULT_COSTS else "measured on this machine"
    for name in args.cases.split(","):
        A = matrix(name)
        rows.append(row(name, A, args.columns) if A is not None else [name, "not there", *["-"] * 8])
    text = "\n".join([
        "# STile's Tables 5 to 7 on a CPU",
        "",
        f"Greedy search with withdraw, r = 1.2, {args.columns} columns, one thread, costs {whose}. Ratios are planned",
        "costs over those of the default search; the paper's are latencies on an A100. NotreDame is a version with",
        "929,849 entries (the paper: 1,497,134). Seconds are those of one run.",
        "",
        markdown(rows),
    ])  # fmt: skip
    print(text)
    if args.table:
        args.table.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
