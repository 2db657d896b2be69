"""asp.einsum beside the SciPy expression that a user would write: python benchmarks/einsum.py [graphs | figure7].

`graphs`: products of an adjacency matrix with itself, on real matrices (--matrices FOLDER).
`figure7`: the default program (loops in alphabetical order, no workspace) against the chosen one on uniform patterns.
Medians of interleaved runs, after the choice was made and timed. Results go to benchmarks/results/einsum-*.json.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sps

import autosparse as asp
from autosparse.asymptotic.candidates import kernel_of, name_of
from autosparse.asymptotic.choice import choose
from autosparse.asymptotic.cin.nodes import Access, Loop, reads
from autosparse.asymptotic.lower.emit import Plan
from autosparse.asymptotic.lower.kernel import compiled, execute
from autosparse.asymptotic.operands import Sparse, prepare
from autosparse.asymptotic.subscripts import read

RESULTS = Path(__file__).parent / "results"
GRAPHS = ("cora", "citeseer", "CollegeMsg", "email-Eu-core", "4elt", "wiki-Vote", "as-caida20070917", "Oregon-1")
LARGE = ("as-caida20070917",)
"""Graphs whose third power is left out: it has more than 10^8 entries, or nearly."""
EXPRESSIONS = {
    "ij,jk,kl->il": lambda A: A @ A @ A,
    "ij,ik,kj->ij": lambda A: A * (A @ A),
    "ij,jk,ik->": lambda A: ((A @ A) * A).sum(),
    "ij,jk,kl,il->": lambda A: ((A @ A @ A) * A).sum(),
}
FIGURE_7 = {"SpMV2": "ij,jk,k->i", "SpGEMM": "ik,jk->ij", "SpGEMM2": "ik,kl,jl->ij", "SpGEMMH": "ik,jk,jk->ij"}


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def graphs(folder):
    rows = []
    for name in GRAPHS:
        A = load(folder, name)
        for expression, scipys in EXPRESSIONS.items():
            if name in LARGE and "kl" in expression:
                continue
            operands = [A] * (expression.count(",") + 1)
            asp.einsum(expression, *operands)
            with asp.options(runs=100):
                asp.einsum(expression, *operands)
            theirs, ours = [], []
            n_runs = 3 if seconds(lambda: scipys(A)) > 0.5 else 7  # noqa: B023
            for _ in range(n_runs):
                theirs.append(seconds(lambda: scipys(A)))  # noqa: B023
                ours.append(seconds(lambda: asp.einsum(expression, *operands)))  # noqa: B023
            row = {"graph": name, "nnz": int(A.nnz), "expression": expression}
            row |= {"scipy_s": statistics.median(theirs), "einsum_s": statistics.median(ours)}
            rows.append(row)
            print(f"{name:18} {expression:14} {row['scipy_s'] * 1e3:9.2f} {row['einsum_s'] * 1e3:9.2f} ms", flush=True)
    for expression in EXPRESSIONS:
        ratios = [row["scipy_s"] / row["einsum_s"] for row in rows if row["expression"] == expression]
        print(f"{expression:16} geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")
    return rows


def load(folder, name):
    A = sps.csr_array(sps.load_npz(Path(folder) / f"{name}.npz"))
    n = min(A.shape)
    A = sps.csr_array(A[:n, :n], dtype=np.float64)
    A.sum_duplicates()
    A.data[:] = 1.0
    return A


def default_plan(prepared, subscripts):
    """Alphabetical loops, no workspace, locate first."""
    kernel = kernel_of(subscripts.inputs, subscripts.output, tuple(isinstance(one, Sparse) for one in prepared))
    program = Loop(kernel.indices, kernel.statement)
    steps = {}
    for access in reads(kernel.statement):
        if access.tensor in kernel.sparse:
            first = min(access.indices)
            steps[Access(access.tensor, access.indices)] = "".join("l" if i == first else "s" for i in access.indices)
    sparse = tuple(name_of(n) for n, one in enumerate(prepared) if isinstance(one, Sparse))
    dense = tuple(access for access in reads(kernel.statement) if access.tensor not in sparse)
    output = Access("R", tuple(subscripts.output))
    levels = frozenset(name for n, name in enumerate(sparse) if len(prepared[n].indices) > 1)
    return Plan(program, steps, output, len(output.indices) < 2, sparse, dense, "".join(kernel.indices), levels)


def figure7():
    rows = []
    for name, expression in FIGURE_7.items():
        for n in (64, 256, 1024, 2048):
            rng = np.random.default_rng(n)
            letters = expression.split("->")[0].split(",")
            operands = [
                sps.random_array((n, n), density=0.01, random_state=rng, format="csr")
                if len(one) > 1
                else rng.random(n)
                for one in letters
            ]
            subscripts = read(expression, [one.shape for one in operands])
            prepared = prepare(operands, subscripts, np.dtype(float))
            named = {name_of(number): one for number, one in enumerate(prepared)}
            is_dense = len(subscripts.output) < 2
            chosen = choose(prepared, subscripts, is_dense_output=is_dense).plan
            times = []
            for plan in (default_plan(prepared, subscripts), chosen):
                program = compiled(plan, named, subscripts.extents)
                execute(program, named, subscripts.extents)
                runs = [seconds(lambda: execute(program, named, subscripts.extents)) for _ in range(3)]  # noqa: B023
                times.append(statistics.median(runs))
            row = {"kernel": name, "n": n, "default_s": times[0], "chosen_s": times[1], "program": str(chosen.program)}
            rows.append(row)
            print(
                f"{name:8} {n:5} {times[0] * 1e3:10.3f} {times[1] * 1e3:10.3f} ms {times[0] / times[1]:8.2f}",
                flush=True,
            )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["graphs", "figure7"], default="graphs")
    parser.add_argument("--matrices", default="../shared/matrices", help="folder of NAME.npz")
    chosen = parser.parse_args()
    found = figure7() if chosen.what == "figure7" else graphs(chosen.matrices)
    (RESULTS / f"einsum-{chosen.what}.json").write_text(json.dumps(found, indent=0) + "\n")
