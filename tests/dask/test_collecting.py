"""Tests of collecting training data on a cluster.

Each machine measures one pattern at a time, each kind of machine has a folder, and finished work is not repeated.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import os
import signal
import time
from functools import partial

import pytest
import scipy.sparse as sps
from autosparse.tuner.research.collect import files
from autosparse.tuner.research.collect.collector import Order, path_in
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.collect.recipes import Recipe

from autosparse import cli

pytest.importorskip("dask.array", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

from autosparse.dask import collecting, scheduler  # noqa: E402

RECIPES = [Recipe(kind="generated", source="mesh", group=f"mesh:{seed}", nnz=3_000, seed=seed) for seed in (1, 2, 3, 4)]


class Now:
    """Future whose value is computed when it is submitted."""

    def __init__(self, value, status="finished"):
        self.value, self.status = value, status

    def result(self):
        return self.value

    def exception(self):
        return self.value

    def cancel(self):
        pass


class FakeClient:
    """Client whose workers measure at once.

    A worker in `lost` disappears when it is given a pattern. The first letter of its address is the kind of a
    machine.
    """

    def __init__(self, addresses, lost=()):
        self.addresses, self.lost, self.jobs = list(addresses), set(lost), []
        self.scheduler = self
        self.address = "tcp://fake:1"

    def nthreads(self):
        return dict.fromkeys(self.addresses, 1)

    def run(self, function, *args, workers, on_error):
        return {one: one.rpartition("/")[2][0] for one in workers}

    def submit(self, function, order, recipe, threads, *, workers, **_):
        (worker,) = workers
        self.jobs.append((worker, recipe, [op.name for op in order.ops]))
        if worker in self.lost:
            self.addresses.remove(worker)
            return Now(OSError("lost"), "error")
        return Now({op.name: (path_in(order.out, recipe, op).name, b"x") for op in order.ops})


def collected(client, out, monkeypatch, recipes=RECIPES):
    monkeypatch.setattr(scheduler, "finished", lambda futures: futures)
    order = Order(out=out, ops=[OPS["spmv"], OPS["spmm32"]])
    return list(collecting.ClusterCollector(client, order, lambda: recipes).run())


def test_each_kind_measures_every_pattern_and_each_host_one_at_a_time(tmp_path, monkeypatch):
    client = FakeClient(["tcp://a1:1", "tcp://a1:2", "tcp://a2:1", "tcp://b1:1"])
    found = collected(client, tmp_path, monkeypatch)
    assert sorted((one.kind, one.recipe.seed) for one in found) == list(itertools.product("ab", (1, 2, 3, 4)))
    assert {worker for worker, *_ in client.jobs} == {"tcp://a1:1", "tcp://a2:1", "tcp://b1:1"}, "one worker per host"
    assert len(list(tmp_path.glob("[ab]/spm*/*.npz"))) == 16
    path_in(tmp_path / "a", RECIPES[0], OPS["spmv"]).unlink()
    again = FakeClient(["tcp://a1:1", "tcp://b1:1"])
    collected(again, tmp_path, monkeypatch)
    assert again.jobs == [("tcp://a1:1", RECIPES[0], ["spmv"])], "what is done is not done again"


def test_patterns_of_lost_workers_go_to_others_of_the_kind(tmp_path, monkeypatch):
    client = FakeClient(["tcp://a1:1", "tcp://a2:1", "tcp://b1:1"], lost={"tcp://a1:1"})
    found = collected(client, tmp_path, monkeypatch)
    assert sorted((one.kind, one.recipe.seed) for one in found) == list(itertools.product("ab", (1, 2, 3, 4)))


def test_a_pattern_at_which_three_workers_were_lost_is_left_out(tmp_path, monkeypatch):
    workers = [f"tcp://a{n}:1" for n in range(1, 5)]
    found = collected(FakeClient(workers, lost=workers[:3]), tmp_path, monkeypatch, RECIPES[:1])
    assert found == []


def test_failures_on_workers_are_reported(tmp_path, monkeypatch):
    client = FakeClient(["tcp://a1:1", "tcp://b1:1"])
    monkeypatch.setattr(client, "submit", lambda *_, **__: Now(ValueError("no memory\nTraceback"), "error"))
    monkeypatch.setattr(scheduler, "finished", lambda futures: futures)
    collector = collecting.ClusterCollector(client, Order(out=tmp_path, ops=[OPS["spmv"]]), lambda: RECIPES[:1])
    assert list(collector.run()) == []
    assert sorted((one.kind, one.job, one.reason) for one in collector.failed) == [
        ("a", RECIPES[0], "no memory"),
        ("b", RECIPES[0], "no memory"),
    ]


def test_a_cluster_without_workers_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(ConnectionError, match="tcp://fake:1 has no workers"):
        collected(FakeClient([]), tmp_path, monkeypatch)


def hold(ready):
    with scheduler.alone_on_this_machine():
        ready.set()
        time.sleep(600)


def test_the_lock_of_a_machine_is_freed_by_the_dead():
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=hold, args=(ready,), daemon=True)
    holder.start()
    assert ready.wait(300)
    os.kill(holder.pid, signal.SIGKILL)
    with scheduler.alone_on_this_machine():
        holder.join(300)
        assert holder.exitcode == -signal.SIGKILL


# One worker per host measures; the second one has to be left alone.
@pytest.mark.parametrize("n_workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_command_collects_on_other_processes_and_resumes(tmp_path, capsys, n_workers):
    """Collect with real kernels on a local cluster."""
    cluster = distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        dashboard_address=None,
        local_directory=tmp_path / "dask",
        silence_logs=50,
        env={"AUTOSPARSE_CACHE_DIR": str(tmp_path / "cache")},
    )
    out = tmp_path / "out"
    sps.save_npz(tmp_path / "eye.npz", sps.eye_array(3000, format="csr"))
    (tmp_path / "broken.npz").write_bytes(b"PK")
    times = f"bench {tmp_path} --scheduler {cluster.scheduler_address} --columns 1 --threads 1"

    def bench(*more):
        return cli.main([*times.split(), "--json", str(tmp_path / "times"), *more])

    words = f"collect --out {out} --scheduler {cluster.scheduler_address} --ops spmv --families mesh --patterns 2"
    command = partial(cli.main, [*words.split(), "--schedules", "2", "--templates", "1", "--threads", "1"])
    with cluster:
        assert command() == 0
        assert "2 new files" in capsys.readouterr().out
        assert command() == 0
        assert "0 new files" in capsys.readouterr().out
        assert bench() == 1, "a matrix was not measured"
        said = capsys.readouterr()
        assert "1 new files" in said.out
        assert "not measured: broken.npz on " in said.err
        (tmp_path / "broken.npz").unlink()
        assert bench() == 0
        assert "0 new files" in capsys.readouterr().out
        assert bench("--min-nnz", "3001") == 0, "what is too small is no failure"
    (kind,) = out.iterdir()
    written = (tmp_path / "times" / kind.name).glob("eye.npz-*.json")
    none, (row,) = sorted((json.loads(path.read_text()) for path in written), key=len)
    assert none == []
    assert row["nnz"] == 3000
    assert row["ours_s"] > 0
    first, second = files.read_folder(kind, "spmv")
    assert first.facts["threads"] == second.facts["threads"] == 1
    assert first.facts["machine"] == second.facts["machine"]
    assert first.recipe != second.recipe


def test_waiting_in_vain_is_no_error(monkeypatch):
    def wait(*_, **__):
        raise asyncio.TimeoutError  # what `distributed.wait` raises: in Python 3.10 another class than TimeoutError

    monkeypatch.setattr(scheduler, "wait", wait)
    assert scheduler.finished([]) == []
