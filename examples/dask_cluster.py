"""What the three Dask examples share: two local workers, or the cluster whose scheduler is named.

What changes on a cluster: start ``dask scheduler`` on one machine and ``dask worker ADDRESS`` on each, or let
dask-jobqueue or dask-kubernetes do it, with the same release of autosparse everywhere, and pass its address as
``--scheduler``. The modules of the program are sent to the workers. Blocks are made where they are used, so that no
matrix travels. Take two to four blocks for each worker thread, and twice as much memory for a worker as its share of
the matrix. Workers of one kind of machine tell each other their plans; machines of another kind find their own.

What must be set on a cluster, and is set here for the local one: every step reads every block, so a block that is on
disk is read at every step, and a block that is sent to an idle worker is there twice. `SCHEDULER` and `WORKER` turn off
both; the scheduler and the workers of a cluster read the same settings from their environment (``python
examples/dask_cluster.py`` prints them for a shell).
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
    "distributed.scheduler.worker-saturation": float("inf"),  # as many blocks for each worker from the beginning
    "distributed.scheduler.active-memory-manager.interval": "100ms",  # a block that was sent all the same goes soon
}
WORKER = {
    "distributed.worker.memory.target": False,  # by default blocks go to disk when they fill .6 of the memory,
    "distributed.worker.memory.spill": False,  # and others when the process fills .7
    "distributed.worker.memory.pause": False,  # what does not fit ends with an error at .95, not with waiting
}


def options(text: str | None, arguments: Sequence[str] | None, *, entries: int, blocks: int) -> argparse.Namespace:
    """What the command line says. `entries`: of the matrix, in `blocks`, unless it says other numbers; `text`: help."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=entries, help="stored entries, about (default: %(default)s)")
    parser.add_argument("--blocks", type=int, default=blocks, help="of rows (default: %(default)s)")
    parser.add_argument("--memory", default="1.5GB", help="of each of two local workers (default: %(default)s)")
    parser.add_argument("--scheduler", help="address of a cluster's scheduler, instead of two local workers")
    return parser.parse_args(arguments)


@contextmanager
def workers(chosen: argparse.Namespace, *modules: str) -> Iterator[Client]:
    """A client, whose workers share their plans. `modules`: files beside this one that a cluster's workers need."""
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
    """`A` made and kept by the workers; says how large it is beside what one of them may hold."""
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
    """`SCHEDULER` and `WORKER` for a shell, as Dask reads them on other machines."""
    chosen = {name.replace(".", "__").replace("-", "_").upper(): value for name, value in (SCHEDULER | WORKER).items()}
    return "\n".join(f"export DASK_{name}={shlex.quote(str(value))}" for name, value in chosen.items())


if __name__ == "__main__":
    print(environment())
