"""asp.einsum beside others and beside its own frontier: python benchmarks/einsum.py WHAT.

`graphs`: the SciPy expression that a user would write, on real matrices (--matrices FOLDER).
`choice`: the program that the model chose, and the one kept after the race, against the fastest of the frontier.
`figure7`: the default program (loops in alphabetical order, no workspace) against the chosen one on uniform patterns,
and the plot; --only NAME ... measures these kernels and keeps the rows of others from the run before.
`scheduling`: what finding a plan takes.
`peers`: pydata/sparse and python-graphblas, where they are installed or lie in the folder --packages, and TACO, where
--taco names a checkout with the library built in its folder build; --only NAME ... as above, of graphs.
Each writes its rows to benchmarks/results/einsum-WHAT.json and its table into benchmarks/results/einsum.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from einsumlib import choices, figure7, graphs, inputs, peers, report, scheduling

WHAT = {"graphs": graphs, "choice": choices, "figure7": figure7, "scheduling": scheduling, "peers": peers}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(WHAT))
    parser.add_argument("--matrices", type=Path, default=Path("../shared/matrices"), help="folder of NAME.npz")
    parser.add_argument("--packages", type=Path, help="folder of installed packages that are looked for last")
    parser.add_argument("--taco", type=Path, help="checkout of TACO")
    parser.add_argument("--only", nargs="+", choices=[*figure7.KERNELS, *inputs.GRAPHS], help="kernels or graphs")
    parser.add_argument("--record", action="store_true", help="write page and figure into benchmarks/results")
    chosen = parser.parse_args()
    if chosen.packages:
        sys.path.append(str(chosen.packages))
    one = WHAT[chosen.what]
    options = {"peers": {"taco": chosen.taco, "only": chosen.only}, "figure7": {"only": chosen.only}}
    rows = one.measured(chosen.matrices, **options.get(chosen.what, {}))
    report.kept(chosen.what, rows, one.as_table(rows))
