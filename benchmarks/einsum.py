"""asp.einsum beside the SciPy expression that a user would write: python benchmarks/einsum.py WHAT.

`graphs`: products of an adjacency matrix with itself, on real matrices (--matrices FOLDER).
`figure7`: the default program (loops in alphabetical order, no workspace) against the chosen one on uniform patterns.
`choice`: the program that the model chose, and the one kept after timing, against the fastest member of the frontier.
`peers`: pydata/sparse and python-graphblas, where they are installed. `scheduling`: what finding a plan takes.
Medians of interleaved runs, after the choice was made and timed. Results go to benchmarks/results/einsum-*.json.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sps

import autosparse as asp
from autosparse.asymptotic import remembered
from autosparse.asymptotic.candidates import candidates, enumerated, kernel_of, name_of
from autosparse.asymptotic.choice import choose
from autosparse.asymptotic.cin.nodes import Access, Loop, reads
from autosparse.asymptotic.lower.kernel import compiled, execute
from autosparse.asymptotic.lower.plan import Plan
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
FIGURE_7 = {
    "SpMV": "ij,j->i",
    "SpMV2": "ij,jk,k->i",
    "SpGEMM": "ik,jk->ij",
    "SpGEMM2": "ik,kl,jl->ij",
    "SpGEMMH": "ik,jk,jk->ij",
}
MOST_DEFAULT_S = 0.5
"""Sizes of Figure 7 end where the default program takes so long."""


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


def figure7(folder):  # synthetic patterns
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
            if times[0] > MOST_DEFAULT_S:
                break
    plot(rows)
    return rows


def plot(rows):
    """results/einsum-figure7.png: the default's time over ours by size, where matplotlib is installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return
    figure, axes = plt.subplots(figsize=(5, 4))
    for name in FIGURE_7:
        mine = [row for row in rows if row["kernel"] == name]
        axes.loglog([r["n"] for r in mine], [r["default_s"] / r["chosen_s"] for r in mine], marker="o", label=name)
    axes.set(xlabel="n (uniform, density 0.01)", ylabel="default schedule's time / ours")
    axes.legend()
    figure.savefig(RESULTS / "einsum-figure7.png", dpi=120, bbox_inches="tight")


def choice(folder):
    """Times of every member that a price within 50 of the least makes worth a run; a minimum of three."""
    rows = []
    for name in GRAPHS[:6]:
        A = load(folder, name)
        for expression in list(EXPRESSIONS)[1:]:
            operands = [A] * (expression.count(",") + 1)
            subscripts = read(expression, [one.shape for one in operands])
            prepared = prepare(operands, subscripts, np.dtype(float))
            named = {name_of(number): one for number, one in enumerate(prepared)}
            plans = choose(prepared, subscripts, is_dense_output=len(subscripts.output) < 2).plans
            worth = [plan for price, plan, _ in plans if price <= 50 * plans[0][0]][:12]
            programs = [compiled(plan, named, subscripts.extents) for plan in worth]
            kept = remembered.fastest(programs[: remembered.MOST_TIMED], named, subscripts.extents)
            times = []
            for program in programs:
                runs = []
                for _ in range(3):
                    for one in prepared:
                        one.stored.clear()
                        one.shared.clear()
                    runs.append(seconds(lambda: execute(program, named, subscripts.extents)))  # noqa: B023
                times.append(min(runs))
            best = min(times)
            row = {"graph": name, "expression": expression, "n_run": len(programs), "best_s": best}
            row |= {"model": times[0] / best, "timed": times[programs.index(kept)] / best}
            rows.append(row)
            print(f"{name:16} {expression:14} model {row['model']:.2f} timed {row['timed']:.2f}", flush=True)
    for how in ("model", "timed"):
        ratios = [row[how] for row in rows]
        print(f"{how}: geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.3f}, "
              f"95th percentile {np.percentile(ratios, 95):.3f}")  # fmt: skip
    return rows


def peers(folder):
    """Masked products and triangle counts by other libraries."""
    rows = []
    for name in GRAPHS:
        A = load(folder, name)
        for expression in ("ij,ik,kj->ij", "ij,jk,ik->"):
            with asp.options(runs=100):
                asp.einsum(expression, A, A, A)
            runs = {"einsum": lambda: asp.einsum(expression, A, A, A)}  # noqa: B023
            runs["scipy"] = lambda: EXPRESSIONS[expression](A)  # noqa: B023
            runs |= by_sparse(A, expression) | by_graphblas(A, expression)
            times = {one: statistics.median(seconds(run) for _ in range(3)) for one, run in runs.items()}
            rows.append({"graph": name, "expression": expression, **times})
            print(name, expression, {one: round(s * 1e3, 2) for one, s in times.items()}, flush=True)
    return rows


def by_sparse(A, expression):
    """pydata/sparse: its einsum would make all three-fold products, so the masked product by its operators."""
    try:
        import sparse
    except ImportError:
        return {}
    X = sparse.GCXS.from_scipy_sparse(A)
    (X @ X) * X  # its numba kernels are compiled on first use
    return {"sparse": (lambda: (X @ X) * X) if expression[-1] != ">" else lambda: abs((X @ X) * X).sum()}


def by_graphblas(A, expression):
    """python-graphblas: a product with a structural mask."""
    try:
        import graphblas as gb

        X = gb.io.from_scipy_sparse(A)
    except Exception as err:  # noqa: BLE001  # an installation without its library fails in its own ways
        print(f"python-graphblas: {err}")
        return {}

    def masked():
        C = gb.Matrix(float, *X.shape)
        C(X.S) << gb.semiring.plus_times(X @ X)
        return C

    return {"graphblas": masked if expression[-1] != ">" else lambda: masked().reduce_scalar().value}


def split(expression):
    inputs, output = expression.split("->")
    return tuple(inputs.split(",")), output


def scheduling(folder):
    """Milliseconds of: a shipped frontier, a new expression of three operands, and a remembered plan."""
    A = load(folder, "cora")
    rows = []
    for expression in ("ij,ik,kj->ij", "ij,jk,kl,il->"):
        letters, output = split(expression)
        candidates.cache_clear()
        find = partial(candidates, letters, output, (True,) * len(letters))
        rows.append({"what": f"shipped {expression}", "s": seconds(find)})
    for expression in ("ij,jk,ki->k", "ijk,jl,kl->i", "ij,kj,lk->il"):
        letters, output = split(expression)
        rows.append(
            {"what": f"new {expression}", "s": seconds(partial(enumerated, kernel_of(letters, output, (True,) * 3)))}
        )
    subscripts = read("ij,ik,kj->ij", [A.shape] * 3)
    prepared = prepare([A] * 3, subscripts, np.dtype(float))
    asp.einsum("ij,ik,kj->ij", A, A, A)
    key = remembered.key_of(prepared, subscripts, is_dense_output=False)
    take = partial(remembered._load, key, prepared, subscripts, is_dense_output=False)
    rows.append({"what": "plan from the disk", "s": seconds(take)})
    for row in rows:
        print(f"{row['what']:28} {row['s'] * 1e3:9.2f} ms")
    return rows


WHAT = {"graphs": graphs, "figure7": figure7, "choice": choice, "peers": peers, "scheduling": scheduling}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=sorted(WHAT), default="graphs")
    parser.add_argument("--matrices", default="../shared/matrices", help="folder of NAME.npz")
    chosen = parser.parse_args()
    found = WHAT[chosen.what](chosen.matrices)
    (RESULTS / f"einsum-{chosen.what}.json").write_text(json.dumps(found, indent=0) + "\n")
