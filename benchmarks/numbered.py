"""What dictionary-encoded values bring (docs/design/code-generation.md): SpMV of a pattern with its own and with random
values.

    python benchmarks/numbered.py --matrices ../shared/matrices --json benchmarks/results/numbered.jsonl
    python benchmarks/numbered.py --made          # larger graphs, made here; some minutes

Both are tuned by measuring, from an empty cache, and nobody else holds their arrays; beside them our default kernel and
SciPy. Medians of rounds, in each of which all four run in another order, in float64 and on all threads.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sps

import autosparse as asp
from autosparse.core.target import Target

NAMES = (
    "wiki-Vote", "email-Enron", "musae_facebook", "musae_DE", "kg_FB15K237_adj", "a9a", "gene_ontology_closure", "4elt",
    "kg_WN18_adj", "musae_ENGB", "lp_dfl001", "movielens100k", "mdual",
)  # fmt: skip
ROUNDS, EACH = 30, 10
MADE = {"4 million": (200_000, 20), "20 million": (1_000_000, 20)}
"""Rows, and entries of each: half are near, half drawn with a probability that falls with a power of their number."""


def matrices(folder: Path | None, names: tuple[str, ...]) -> Iterator[tuple[str, sps.csr_matrix]]:
    """Real ones from `folder`, or the made ones."""
    if folder is None:
        yield from ((name, made(*sizes)) for name, sizes in MADE.items())
        return
    for name in names:
        with np.load(folder / f"{name}.npz") as found:
            arrays = found["data"].astype(np.float64), found["indices"], found["indptr"]
            yield name, sps.csr_matrix(arrays, shape=tuple(found["shape"]))


def made(n: int, degree: int) -> sps.csr_matrix:
    """A graph of one value."""
    rng = np.random.default_rng(0)
    shape = n, degree
    near = (np.arange(n)[:, None] + rng.integers(-500, 501, shape)) % n
    far = (n * rng.random(shape) ** 3).astype(np.int64)
    columns = np.sort(np.where(rng.random(shape) < 0.5, near, far), axis=1).astype(np.int32)
    return sps.csr_matrix((np.ones(columns.size), columns.ravel(), np.arange(0, n * degree + 1, degree)), shape=(n, n))


def tuned(A: sps.csr_matrix, budget_s: float) -> tuple[Any, str]:
    """Our copy of A, and its format."""
    M = asp.csr(A, copy=True)
    plan = M.tune(effort="measure", budget_s=budget_s)
    return M, "" if plan.schedule is None else str(plan.schedule.format)


def measured(name: str, A: sps.csr_matrix, budget_s: float) -> dict[str, Any]:
    """Seconds of one product each."""
    x = np.random.default_rng(1).random(A.shape[1])
    other = A.copy()
    other.data = np.random.default_rng(2).random(A.nnz)
    (few, few_format), (many, many_format) = tuned(A, budget_s), tuned(other, budget_s)
    default = asp.csr(A, copy=True)

    def by_default() -> Any:
        with asp.options(effort="off"):
            return default @ x

    ways: dict[str, Callable[[], Any]] = {
        "scipy": lambda: A @ x, "default": by_default, "numbered": lambda: few @ x, "plain": lambda: many @ x,
    }  # fmt: skip
    times: dict[str, list[float]] = {way: [] for way in ways}
    each = max(1, min(EACH, int(4e7 / A.nnz)))
    for _ in range(ROUNDS):
        for way in random.sample(sorted(ways), len(ways)):
            for _ in range(2):  # its matrix comes back into the caches
                ways[way]()
            start_s = time.perf_counter()
            for _ in range(each):
                ways[way]()
            times[way].append((time.perf_counter() - start_s) / each)
    medians = {way: statistics.median(seconds) for way, seconds in times.items()}
    facts = {"name": name, "nnz": int(A.nnz), "formats": {"numbered": few_format, "plain": many_format}}
    return facts | {"seconds": medians, "model": Target.host().cpu}


def main() -> None:
    """Measure, print a table, keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrices", type=Path, default=Path("../shared/matrices"))
    parser.add_argument("--made", action="store_true", help="graphs that are made here instead")
    parser.add_argument("--only", nargs="+", default=NAMES, metavar="NAME")
    parser.add_argument("--budget-s", type=float, default=3.0)
    parser.add_argument("--json", type=Path, help="rows are appended to this file")
    chosen = parser.parse_args()
    random.seed(0)
    ratios: dict[str, list[float]] = {"plain": [], "default": [], "scipy": []}
    print("| matrix | entries | over plain | over default | over SciPy | format |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as cache, asp.options(cache_dir=cache):
        for name, A in matrices(None if chosen.made else chosen.matrices, tuple(chosen.only)):
            row = measured(name, A, chosen.budget_s)
            for way, found in ratios.items():
                found.append(row["seconds"][way] / row["seconds"]["numbered"])
            shown = " | ".join(f"{found[-1]:.2f}" for found in ratios.values())
            print(f"| {name} | {A.nnz:,} | {shown} | {row['formats']['numbered']} |", flush=True)
            if chosen.json:
                with chosen.json.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(row) + "\n")
    means = " | ".join(f"{statistics.geometric_mean(found):.2f}" for found in ratios.values())
    print(f"| geometric mean | | {means} | |")


if __name__ == "__main__":
    main()
