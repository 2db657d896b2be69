"""PageRank of a graph that exceeds the memory of one worker.

python examples/dask_pagerank.py                          two local workers of 1.5 GB, a graph of 1.6 GB
python examples/dask_pagerank.py --scheduler ADDRESS      a cluster: see dask_cluster.py for what changes
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import dask.array as da
import numpy as np
import scipy.sparse as sps
from dask_cluster import in_memory, options, workers

import autosparse as asp

DAMPING = np.float32(0.85)
DEGREE = 50
STRIP = 20_000
"""Number of rows that are made at once."""


def links(i: int, j: int, *, rows: int, n: int) -> sps.csr_array:
    """Make block i of the transposed transition matrix: rows are the linked pages, values are 1 / DEGREE.

    Half of the links come from nearby pages; the others come from random pages, low page numbers more often.
    """
    rng = np.random.default_rng(i)
    columns = np.empty((rows, DEGREE), np.int32)
    for first in range(0, rows, STRIP):  # strips keep temporaries small: a worker has little memory beyond its blocks
        here = np.arange(first, min(first + STRIP, rows))[:, None]
        shape = here.size, DEGREE
        near = (here + i * rows + rng.integers(-500, 501, shape)) % n
        far = (n * rng.random(shape) ** 3).astype(np.int64)
        columns[first : first + STRIP] = np.sort(np.where(rng.random(shape) < 0.5, near, far), axis=1)
    starts = np.arange(0, columns.size + 1, DEGREE, dtype=np.int32)
    return sps.csr_array((np.full(columns.size, 1 / DEGREE, np.float32), columns.ravel(), starts), shape=(rows, n))


def pagerank(A: da.Array, *, n_iterations: int = 20) -> da.Array:
    """Compute ranks x = DAMPING A x + (1 - DAMPING) / n by power iteration, in the row blocks of A."""
    n = A.shape[0]
    jump = (1 - DAMPING) / np.float32(n)
    x = da.full(n, 1 / n, dtype=np.float32, chunks=(A.chunks[0],))
    for _ in range(n_iterations):
        x = (DAMPING * (A @ x) + jump).persist()  # only x is sent: each worker needs all of it
    return x


def main(arguments: Sequence[str] | None = None) -> np.ndarray:
    """Run the example and return the ranks."""
    chosen = options(__doc__, arguments, entries=200_000_000, blocks=8)
    rows = max(1, chosen.entries // DEGREE // chosen.blocks)
    n = rows * chosen.blocks
    with workers(chosen, "dask_pagerank.py"):
        made = asp.dask.from_blocks(partial(links, rows=rows, n=n), ([rows] * chosen.blocks, [n]), dtype=np.float32)
        A = in_memory(made, chosen)
        start = time.perf_counter()
        ranks = pagerank(A).compute()
        print(
            f"20 iterations in {time.perf_counter() - start:.1f} s; the first pages: {np.argsort(-ranks)[:5].tolist()}"
        )
    return ranks


if __name__ == "__main__":
    main()
