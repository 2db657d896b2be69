"""Tests on a cluster of two processes: plans are shared, and a killed worker loses its blocks but no plan."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sps

pytest.importorskip("dask.array", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

import autosparse as asp  # noqa: E402

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX: kills a process")

m = sps.random_array((4000, 4000), density=2e-3, random_state=np.random.default_rng(0), format="csr", dtype=np.float32)


def tuned(block):
    return block.tune("matmul", columns=4, effort="measure", budget_s=1).remembered, os.getpid()


def n_plans():
    from autosparse import cache

    return len(cache.open_store().envelopes(("plan",)))


def own_folder(base):
    """Give each worker a cache folder of its own, as if on different machines."""
    asp.set_options(cache_dir=Path(base, str(os.getpid())))


def until(wanted, *, seconds=300.0):
    end = time.monotonic() + seconds
    while not wanted() and time.monotonic() < end:
        time.sleep(0.05)
    return wanted()


@pytest.fixture
def client(tmp_path):
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        local_directory=tmp_path,
        silence_logs=50,
        env={"AUTOSPARSE_CACHE_DIR": str(tmp_path / "restarted")},
    )
    with cluster, distributed.Client(cluster) as client, asp.options(cache_dir=tmp_path / "client"):
        client.run(own_folder, str(tmp_path))
        asp.dask.share_plans(client)
        yield client


def test_plans_are_sent_to_workers_and_survive_a_killed_worker(client):
    first, second = client.scheduler_info()["workers"]
    block = asp.dask.block(asp.csr(m, copy=True))
    remembered, pid = client.submit(tuned, block, workers=[first], pure=False).result()
    assert not remembered
    assert until(lambda: client.run(n_plans, workers=[second])[second] == 1)
    remembered, other = client.submit(tuned, block, workers=[second], pure=False).result()
    assert remembered, "the second like block uses the plan of the first"
    assert pid != other

    A = asp.dask.from_csr(m, n_blocks=6).persist()
    vectors = [np.full(4000, n, np.float32) for n in range(8)]
    running = client.compute([A @ one for one in vectors])
    os.kill(pid, signal.SIGKILL)
    for one, future in zip(vectors, running, strict=True):
        np.testing.assert_allclose(future.result(timeout=300), m @ one, rtol=1e-4, atol=1e-4)
    assert until(lambda: len(client.scheduler_info()["workers"]) == 2)
    assert asp.dask.fetch_plans(client) == 1, "the scheduler has the plan of the worker that is gone"
    assert until(lambda: set(client.run(n_plans).values()) == {1}), "the new worker was told of it"
