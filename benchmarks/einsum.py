"""Benchmark asp.einsum against other libraries and against the other programs of its own frontier.

    python benchmarks/einsum.py WHAT

`graphs`: the SciPy expression that a user would write, on real matrices (--matrices FOLDER). `choice`: the program that
the model chose, and the winner of the race, against the fastest of the frontier. `figure6`: numbers of programs and of
those in the frontier. `figure7`: the default program (alphabetical loop order, no workspace) against the chosen one on
uniform patterns, and the plot. With --only NAME ... these kernels are measured; rows of other kernels are kept from the
previous run. `scheduling`: the time that finding a
plan takes. `peers`: pydata/sparse and python-graphblas, if installed or found in the folder --packages, and TACO, if
--taco names a checkout whose library is built in its folder build. --only NAME ... selects graphs in the same way.

Each benchmark writes its rows to benchmarks/results/einsum-WHAT.json and its table into benchmarks/results/einsum.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from einsumlib import choices, figure6, figure7, graphs, inputs, peers, report, scheduling

WHAT = {
    "graphs": graphs, "choice": choices, "figure6": figure6, "figure7": figure7, "scheduling": scheduling,
    "peers": peers,
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
    options = {
        "peers": {"taco": chosen.taco, "only": chosen.only},
        "figure6": {"only": chosen.only},
        "figure7": {"only": chosen.only},
    }
    rows = one.measured(chosen.matrices, **options.get(chosen.what, {}))
    report.kept(chosen.what, rows, one.as_table(rows))
