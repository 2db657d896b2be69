"""Time PageRank on two Dask workers with autosparse's blocks and with SciPy's, in the same program.

    python benchmarks/dask_pagerank.py                      # 78 million links, 2 workers of 2 GB, one vector
    python benchmarks/dask_pagerank.py --tune 15            # also with blocks tuned before, 15 s each
    python benchmarks/dask_pagerank.py --columns 8          # 8 personalised PageRanks at once
    python benchmarks/dask_pagerank.py --overhead           # A @ x in 16 blocks against the product in one piece

The workers make and keep both kinds of blocks; the kinds are timed in alternation on the same cluster. Half of the
links of a page come from nearby pages; the others come from random pages, low page numbers more often.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sps
from distributed import Client, LocalCluster, futures_of, wait

import autosparse as asp

DAMPING = np.float32(0.85)
STRIP = 20_000
"""Number of rows that are made at once."""


def links(i: int, j: int, *, n: int, rows: int, degree: int, kind: Callable[[Any], Any]) -> Any:
    """Make block i of DAMPING times the transposed transition matrix: rows are the linked pages."""
    rng = np.random.default_rng(i)
    columns = np.empty((rows, degree), np.int32)
    # strips keep temporaries small: a block and its construction must fit into a worker
    for first in range(0, rows, STRIP):
        here = np.arange(first, min(first + STRIP, rows))[:, None]
        shape = here.size, degree
        near = (here + i * rows + rng.integers(-500, 501, shape)) % n
        far = (n * rng.random(shape) ** 3).astype(np.int64)
        columns[first : first + STRIP] = np.sort(np.where(rng.random(shape) < 0.5, near, far), axis=1)
    starts = np.arange(0, columns.size + 1, degree, dtype=np.int32)
    values = np.full(columns.size, DAMPING / degree, np.float32)
    return kind(sps.csr_array((values, columns.ravel(), starts), shape=(rows, n)))


def graph(options: argparse.Namespace, kind: Callable[[Any], Any]) -> list[Any]:
    """Let the workers make and keep the blocks of the matrix; return their futures in order."""
    rows = options.pages // options.blocks
    make = partial(links, n=rows * options.blocks, rows=rows, degree=options.degree, kind=kind)
    made = asp.dask.from_blocks if kind is asp.dask.block else plain_blocks
    A = made(make, ([rows] * options.blocks, [rows * options.blocks]), dtype=np.float32).persist()
    wait(A)
    return sorted(futures_of(A), key=lambda one: one.key)


def plain_blocks(make: Callable[..., Any], chunks: Any, *, dtype: Any) -> da.Array:
    """Make an array of the SciPy blocks that `make` returns; the counterpart of `from_blocks`."""
    name = f"scipy-{dask.base.tokenize(make, chunks)}"
    tasks = {(name, i, 0): (make, i, 0) for i in range(len(chunks[0]))}
    return da.Array(tasks, name, tuple(map(tuple, chunks)), meta=sps.csr_array((0, 0), dtype=dtype))


def step(block: Any, jump: Any, *parts: np.ndarray) -> np.ndarray:
    """Return the rows of DAMPING * (A @ x) + jump of one block; `parts` are the blocks of x."""
    y = block @ np.concatenate(parts)
    y += jump
    return y


def pagerank(client: Client, blocks: list[Any], *, n: int, n_iterations: int, columns: int) -> np.ndarray:
    """Return ranks of shape (n,), or (n, columns) for seeds 0, 1, ...; x stays on the workers between iterations."""
    rows = n // len(blocks)
    jumps: list[Any] = [np.float32((1 - DAMPING) / n)] * len(blocks)
    parts = [client.submit(np.full, rows, np.float32(1 / n), pure=False) for _ in blocks]
    if columns > 1:
        jump = np.zeros((n, columns), np.float32)
        jump[np.arange(columns), np.arange(columns)] = 1 - DAMPING
        jumps = client.scatter([jump[at : at + rows] for at in range(0, n, rows)], hash=False)
        parts = [client.submit(np.divide, one, 1 - DAMPING, pure=False) for one in jumps]
    for _ in range(n_iterations):
        parts = [client.submit(step, one, its, *parts, pure=False) for one, its in zip(blocks, jumps, strict=True)]
    return np.concatenate(client.gather(parts))


def tuned(block: Any, columns: int, budget_s: float) -> str:
    """Tune a block's product and return the description of its plan."""
    return str(block.tune("matmul", columns=columns, effort="measure", runs=10**6, budget_s=budget_s))


def compare(client: Client, options: argparse.Namespace) -> None:
    kinds = {"SciPy": sps.csr_array, "autosparse": asp.dask.block}
    blocks = {name: graph(options, kind) for name, kind in kinds.items()}
    rows = options.pages // options.blocks
    n = rows * options.blocks
    run = partial(pagerank, client, n=n, n_iterations=options.iterations, columns=options.columns)
    print(
        f"{n * options.degree:,} links, {options.blocks} blocks, {options.columns} columns, {options.iterations} steps"
    )
    in_turns(run, blocks, options)
    if options.tune:
        start = time.perf_counter()
        plans = client.gather(client.map(tuned, blocks["autosparse"], columns=options.columns, budget_s=options.tune))
        print(f"tuned in {time.perf_counter() - start:.1f} s, of all blocks at once: {plans[0]}")
        in_turns(run, blocks, options)


def in_turns(run: Callable[..., np.ndarray], blocks: dict[str, list[Any]], options: argparse.Namespace) -> None:
    """Time each kind in alternation; print medians and the largest difference of the results."""
    took: dict[str, list[float]] = {name: [] for name in blocks}
    found: dict[str, np.ndarray] = {}
    for turn in range(options.repeats + 1):
        for name, its in blocks.items():
            start = time.perf_counter()
            found[name] = run(its)
            if turn:  # the first turn is a warm-up
                took[name].append(time.perf_counter() - start)
    apart = np.abs(found["autosparse"] - found["SciPy"]).max() / np.abs(found["SciPy"]).max()
    for name, seconds in took.items():
        print(f"  {name:<11} {statistics.median(seconds):7.2f} s (of {', '.join(f'{one:.2f}' for one in seconds)})")
    ratios = [theirs / ours for ours, theirs in zip(took["autosparse"], took["SciPy"], strict=True)]
    print(
        f"  {statistics.median(ratios):.2f} times as fast; largest difference {apart:.1e} of the largest rank",
        flush=True,
    )


def overhead(options: argparse.Namespace) -> None:
    """Time Dask's threaded scheduler: the product in 16 blocks, in one piece, and 16 tasks that do nothing."""
    n = options.pages
    m = links(0, 0, n=n, rows=n, degree=options.degree // 2, kind=sps.csr_array)
    whole, x = asp.csr(m, copy=True), np.ones(n, np.float32)
    A = asp.dask.from_csr(m, n_blocks=16).persist(scheduler="threads")
    blocked = A @ x
    empty = da.map_blocks(
        lambda one: np.empty(one.shape[0], np.float32),
        A,
        drop_axis=1,
        dtype=np.float32,
        chunks=(A.chunks[0],),
        meta=np.empty(0, np.float32),
    )
    runs = {"one piece": lambda: whole @ x, "16 blocks": blocked.compute, "no-op tasks": empty.compute}
    took: dict[str, list[float]] = {name: [] for name in runs}
    with dask.config.set(scheduler="threads"), asp.options(effort=options.effort):
        for turn in range(options.repeats * 10 + 3):
            for name, run in runs.items():
                start = time.perf_counter()
                run()
                if turn >= 3:
                    took[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(seconds) for name, seconds in took.items()}
    print(f"{m.nnz:,} entries: " + ", ".join(f"{name} {seconds * 1e3:.2f} ms" for name, seconds in middle.items()))
    net = (middle["16 blocks"] - middle["no-op tasks"]) / middle["one piece"]
    print(f"  blocks less no-op tasks, over one piece: {net:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=2_600_000)
    parser.add_argument("--degree", type=int, default=30)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--columns", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tune", type=float, default=0.0, help="seconds for each block, after the first comparison")
    parser.add_argument("--effort", default="off", help="tuning effort for --overhead")
    parser.add_argument("--overhead", action="store_true")
    options = parser.parse_args()
    if options.overhead:
        overhead(options)
        return
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="2GB", dashboard_address=None)
    with cluster, Client(cluster) as client:
        asp.dask.share_plans(client)
        compare(client, options)


if __name__ == "__main__":
    main()
