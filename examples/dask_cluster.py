"""Options and workers of the three Dask examples: two local workers, or the cluster of a given scheduler.

To use a cluster, start ``dask scheduler`` on one machine and ``dask worker ADDRESS`` on each, or use dask-jobqueue or
dask-kubernetes. Install the same release of autosparse everywhere and pass the address as ``--scheduler``. The modules
of the example are sent to the workers. Blocks are made on the workers that use them, so no matrix is sent. Use two to
four blocks per worker thread, and give a worker twice the memory of its share of the matrix. Workers with the same kind
of machine share their plans; other machines tune their own.

Every step reads every block: a block on disk would be read in every step, and a block that is sent to an idle worker
occupies memory twice. `SCHEDULER` and `WORKER` disable both. They are set here for the local cluster; on other clusters
the scheduler and the workers read the same settings from their environment (``python examples/dask_cluster.py`` prints
them for a shell).
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from dask.utils import format_bytes, parse_bytes
from distributed import Client, LocalCluster, wait

import autosparse as asp

SCHEDULER = {
    "distributed.scheduler.work-stealing": False,  # a block that is sent to an idle worker fills its memory
    "distributed.scheduler.worker-saturation": float("inf"),  # assigns equal numbers of blocks from the start
    "distributed.scheduler.active-memory-manager.interval": "100ms",  # removes extra copies of blocks soon
}
WORKER = {
    "distributed.worker.memory.target": False,  # default: blocks are spilled above 0.6 of the memory limit,
    "distributed.worker.memory.spill": False,  # and more of them when the process exceeds 0.7
    "distributed.worker.memory.pause": False,  # out of memory is an error at 0.95, not a pause
}


def options(text: str | None, arguments: Sequence[str] | None, *, entries: int, blocks: int) -> argparse.Namespace:
    """Parse the command line. `entries` and `blocks` are the defaults for the matrix; `text` is the help."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=entries, help="stored entries, about (default: %(default)s)")
    parser.add_argument("--blocks", type=int, default=blocks, help="number of row blocks (default: %(default)s)")
    parser.add_argument(
        "--memory", default="1.5GB", help="memory limit of each of the two local workers (default: %(default)s)"
    )
    parser.add_argument("--scheduler", help="address of a cluster's scheduler, instead of two local workers")
    return parser.parse_args(arguments)


@contextmanager
def workers(chosen: argparse.Namespace, *modules: str) -> Iterator[Client]:
    """Yield a client whose workers share plans. `modules` names files beside this one that are sent to a cluster."""
    if chosen.scheduler:
        with Client(chosen.scheduler) as client:
            for name in ("dask_cluster.py", *modules):
                client.upload_file(str(Path(__file__).with_name(name)))
            asp.dask.share_plans(client)
            yield client
        return
    with (
        dask.config.set(SCHEDULER | WORKER),
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=parse_bytes(chosen.memory), dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        asp.dask.share_plans(client)
        yield client


def in_memory(A: da.Array, chosen: argparse.Namespace) -> da.Array:
    """Persist `A` on the workers and return it; print its size and the memory limit of a worker."""
    start = time.perf_counter()
    A = A.persist()
    wait(A)
    n_bytes = A.map_blocks(lambda block: np.array([[block.nbytes]]), dtype=int, chunks=(1, 1)).sum().compute()
    limit = "on a cluster" if chosen.scheduler else f"on two workers of {format_bytes(parse_bytes(chosen.memory))}"
    print(
        f"{A.shape[0]:,} x {A.shape[1]:,}, {format_bytes(n_bytes)} in {A.npartitions} blocks {limit}, "
        f"made in {time.perf_counter() - start:.1f} s"
    )
    return A


def environment() -> str:
    """Return `SCHEDULER` and `WORKER` as shell commands that set Dask's environment variables."""
    chosen = {name.replace(".", "__").replace("-", "_").upper(): value for name, value in (SCHEDULER | WORKER).items()}
    return "\n".join(f"export DASK_{name}={shlex.quote(str(value))}" for name, value in chosen.items())


if __name__ == "__main__":
    print(environment())
