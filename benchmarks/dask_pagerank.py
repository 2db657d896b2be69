"""PageRank of a graph that is made block by block, on two Dask workers: our blocks against SciPy's, same program.

    python benchmarks/dask_pagerank.py                      # 52 million links, 2 workers of 2 GB, 8 seeds at once
    python benchmarks/dask_pagerank.py --columns 1          # one PageRank: a vector at a time
    python benchmarks/dask_pagerank.py --overhead           # A @ x in 16 blocks against the product in one piece

Each kind of block is timed in turns on the same cluster, and each makes its graph itself on the workers. Half of a
page's links go to pages near it, half to pages drawn with a probability that falls with a power of their number.
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


def links(i: int, j: int, *, n: int, rows: int, degree: int, kind: Callable[[Any], Any]) -> Any:
    """Block i of the transition matrix, transposed: rows are pages linked to, values 1/degree."""
    rng = np.random.default_rng(i)
    here = np.repeat(np.arange(rows, dtype=np.int64), degree)
    near = (here + i * rows + rng.integers(-500, 501, here.size)) % n
    far = (n * rng.random(here.size) ** 3).astype(np.int64)
    columns = np.where(rng.random(here.size) < 0.5, near, far).astype(np.int32)
    starts = np.arange(0, here.size + 1, degree, dtype=np.int32)
    block = sps.csr_array((np.full(here.size, 1 / degree, np.float32), columns, starts), shape=(rows, n))
    block.sort_indices()
    return kind(block)


def graph(client: Client, options: argparse.Namespace, kind: Callable[[Any], Any]) -> da.Array:
    """The matrix in the workers' memory."""
    rows = options.pages // options.blocks
    make = partial(links, n=rows * options.blocks, rows=rows, degree=options.degree, kind=kind)
    made = asp.dask.from_blocks if kind is asp.dask.block else plain_blocks
    A = made(make, ([rows] * options.blocks, [rows * options.blocks]), dtype=np.float32).persist()
    wait(A)
    return A


def plain_blocks(make: Callable[..., Any], chunks: Any, *, dtype: Any) -> da.Array:
    """`from_blocks` with what `make` gives, as SciPy has it."""
    name = f"scipy-{dask.base.tokenize(make, chunks)}"
    tasks = {(name, i, 0): (make, i, 0) for i in range(len(chunks[0]))}
    return da.Array(tasks, name, tuple(map(tuple, chunks)), meta=sps.csr_array((0, 0), dtype=dtype))


def step(block: Any, jump: np.ndarray, *parts: np.ndarray) -> np.ndarray:
    """The rows of DAMPING * (A @ x) + jump that one block gives; x in the parts that the blocks gave before."""
    return DAMPING * (block @ np.concatenate(parts)) + jump


def pagerank(client: Client, A: da.Array, *, n_iterations: int, columns: int) -> np.ndarray:
    """Ranks after some iterations, (n,) or (n, columns) for seeds 0, 1, ...; x stays on the workers."""
    n, rows = A.shape[0], A.chunks[0][0]
    jump = np.full(n, (1 - DAMPING) / n, np.float32)
    if columns > 1:
        jump = np.zeros((n, columns), np.float32)
        jump[np.arange(columns), np.arange(columns)] = 1 - DAMPING
    blocks = sorted(futures_of(A), key=lambda one: one.key)
    jumps = client.scatter([jump[at : at + rows] for at in range(0, n, rows)], hash=False)
    parts = [client.submit(np.divide, one, 1 - DAMPING, pure=False) for one in jumps]
    for _ in range(n_iterations):
        parts = [client.submit(step, one, its, *parts, pure=False) for one, its in zip(blocks, jumps, strict=True)]
        wait(parts)
    return np.concatenate(client.gather(parts))


def compare(client: Client, options: argparse.Namespace) -> None:
    kinds = {"autosparse": asp.dask.block, "scipy": sps.csr_array}
    took: dict[str, list[float]] = {name: [] for name in kinds}
    found: dict[str, np.ndarray] = {}
    for _ in range(options.repeats):
        for name, kind in kinds.items():
            A = graph(client, options, kind)
            start = time.perf_counter()
            found[name] = pagerank(client, A, n_iterations=options.iterations, columns=options.columns)
            took[name].append(time.perf_counter() - start)
            del A
    n_links = options.pages // options.blocks * options.blocks * options.degree
    apart = np.abs(found["autosparse"] - found["scipy"]).max() / np.abs(found["scipy"]).max()
    print(f"{n_links:,} links in {options.blocks} blocks, {options.columns} column(s), {options.iterations} iterations")
    for name, seconds in took.items():
        print(f"  {name:<11} {statistics.median(seconds):7.2f} s (of {', '.join(f'{one:.2f}' for one in seconds)})")
    ratios = [theirs / ours for ours, theirs in zip(took["autosparse"], took["scipy"], strict=True)]
    print(f"  {statistics.median(ratios):.2f} times as fast; largest difference {apart:.1e} of the largest rank")


def overhead(options: argparse.Namespace) -> None:
    """Dask's threaded scheduler: the product in 16 blocks, in one piece, and 16 tasks that do nothing."""
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
    parser.add_argument("--pages", type=int, default=650_000)
    parser.add_argument("--degree", type=int, default=80)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--effort", default="off", help="of tuning, for --overhead")
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
