"""Benchmark asp.einsum against other libraries and against the other programs of its own frontier.

    python benchmarks/einsum.py WHAT

`graphs`: the SciPy expression that a user would write, on real matrices (--matrices FOLDER). `choice`: the program that
the model chose, and the winner of the race, against the fastest of the frontier. `figure6`: numbers of programs and of
those in the frontier. `figure7`: the default program (alphabetical loop order, no workspace) against the chosen one on
uniform patterns, and the plot. `figure8`: the paper's fastest programs, and the ranks of their costs in the frontier.
`scheduling`: the time that finding a plan takes. `peers`: pydata/sparse and python-graphblas, if installed or found in
the folder --packages, and TACO, if --taco names a checkout whose library is built in its folder build. With
--only NAME ... these kernels or graphs are measured; rows of other kernels are kept from the previous run.

Each benchmark writes its rows to benchmarks/results/einsum-WHAT.json and its table into benchmarks/results/einsum.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from einsumlib import choices, figure6, figure7, figure8, graphs, inputs, peers, report, scheduling

WHAT = {
    "graphs": graphs, "choice": choices, "figure6": figure6, "figure7": figure7, "figure8": figure8,
    "scheduling": scheduling, "peers": peers,
}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(WHAT))
    parser.add_argument("--matrices", type=Path, default=Path("../shared/matrices"), help="folder of NAME.npz")
    parser.add_argument("--packages", type=Path, help="folder of installed packages, searched last")
    parser.add_argument("--taco", type=Path, help="checkout of TACO")
    parser.add_argument(
        "--only", nargs="+", choices=[*figure6.NAMED, *figure7.KERNELS, *inputs.GRAPHS], help="kernels or graphs"
    )
    parser.add_argument("--record", action="store_true", help="write page and figure into benchmarks/results")
    chosen = parser.parse_args()
    if chosen.packages:
        sys.path.append(str(chosen.packages))
    one = WHAT[chosen.what]
    options: dict[str, object] = {}
    if chosen.what in ("figure6", "figure7", "figure8", "peers"):
        options["only"] = chosen.only
    if chosen.what == "peers":
        options["taco"] = chosen.taco
    rows = one.measured(chosen.matrices, **options)
    report.kept(chosen.what, rows, one.as_table(rows))
