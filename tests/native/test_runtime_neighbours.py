"""Tests of helper threads beside other threads: off the caller's core, asleep when idle, none where cores are taken."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from autosparse._native import runtime_api

from tests.native.hooks import needs_hooks
from tests.native.runtime_cases import needs_runtime

pytestmark = [
    needs_runtime,
    needs_hooks,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are looked at in /proc, which Linux has"),
]

MANY_STALLS = 20
"""Number of stalled jobs from which a test is skipped.

A job stalls where a thread loses its core; after each, short jobs stay on one thread for a while.
"""

PRELUDE = """
import os, threading, time
from pathlib import Path
import numpy as np
from autosparse._native import runtime_api as r

n = 50_000
csr = (np.arange(n + 1, dtype=np.int32), np.arange(n, dtype=np.int32), np.ones(n, np.float32))
X, out = np.ones((n, 8), np.float32), np.empty((n, 8), np.float32)

def product(threads=2):
    r.matmul(csr, (n, n), X, out, threads=threads)

def helpers():
    return [task for task in Path("/proc/self/task").iterdir() if (task / "comm").read_text() == "autosparse\\n"]

def shared():
    counters = r.ffi.new("int64_t[3]")
    r.lib.asp_pool_counters(counters)
    return counters[0]

def cpus(task):
    line = next(line for line in (task / "status").read_text().splitlines() if line.startswith("Cpus_allowed_list"))
    for part in line.split()[1].split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
"""


def run(script: str) -> str:
    """Run PRELUDE and the script in a new process; return its output."""
    code = PRELUDE + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_helpers_stay_off_the_core_of_the_caller():
    """Check that no helper wakes on the caller's core, which would delay the product."""
    allowed = run(
        """
        r.lib.asp_force_helpers(1)
        if len(os.sched_getaffinity(0)) == 1:
            print("one core"); raise SystemExit
        os.sched_setaffinity(0, set(list(os.sched_getaffinity(0))[:2]))
        def where():
            return int(Path("/proc/thread-self/stat").read_text().rsplit(")", 1)[1].split()[36])
        ok = False
        for _ in range(200):
            before = where()
            product()
            if before == where():  # not moved meanwhile
                ok = ok or bool(helpers()) and all(before not in cpus(task) for task in helpers())
        assert ok
        print("ok")
        """
    )
    assert allowed in {"ok", "one core"}


def test_helpers_that_come_too_late_for_a_short_job_wait_for_the_next():
    """Check that helpers that wake after a job of 5 to 10 µs has ended stay awake for the next one."""
    found = run(
        """
        if len(os.sched_getaffinity(0)) == 1:
            print("one core"); raise SystemExit
        n, end = 5_000, time.monotonic() + 60
        starts, columns = np.arange(0, 3 * n + 1, 3), np.random.default_rng(0).integers(0, n, 3 * n)
        csr = (starts.astype(np.int32), columns.astype(np.int32), np.ones(3 * n, np.float32))
        x, y, most = np.ones((n, 1), np.float32), np.empty((n, 1), np.float32), 0
        for turn in range(400):
            time.sleep(0.002)  # helpers sleep
            before = shared()
            for _ in range(300):
                r.matmul(csr, (n, n), x, y, threads=2)
            most = max(most, shared() - before) if turn else 0  # a helper that was started just now is awake
            if most > 150 or time.monotonic() > end:
                break
        counters = r.ffi.new("int64_t[3]")
        r.lib.asp_pool_counters(counters)
        print("shared" if most > 150 else f"{most}, {counters[2]} stalls")
        """
    )
    if found not in {"shared", "one core"} and int(found.split()[1]) >= MANY_STALLS:
        pytest.skip(f"the machine was so busy that threads waited for their cores: {found}")
    assert found in {"shared", "one core"}


def test_a_caller_confined_to_one_core_works_alone():
    run(
        """
        r.lib.asp_force_helpers(1)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        before = shared()
        for _ in range(20):
            product(threads=4)
        assert shared() == before and (out == 1).all()
        """
    )


def test_helpers_sleep_when_nothing_is_to_do():
    """Check that idle helpers use no CPU time, which NumPy's threads may need."""
    run(
        """
        for _ in range(200):
            product()
        def used():
            return [sum(map(int, (task / "stat").read_text().rsplit(")", 1)[1].split()[11:13])) for task in helpers()]
        for _ in range(100):  # on a busy machine it takes a while until a helper has run to its end
            before = used()
            time.sleep(0.5)
            if used() == before:
                break
        assert used() == before, "ticks of 10 ms"
        """
    )


def test_products_start_no_threads_of_openmp():
    run(
        """
        r.lib.asp_force_helpers(1)
        before = len(list(Path("/proc/self/task").iterdir()))
        for _ in range(20):
            product(threads=3)
        assert len(list(Path("/proc/self/task").iterdir())) <= before + len(helpers())
        """
    )


def test_two_callers_on_two_cores_use_no_helpers():
    """Check that two callers on two cores have no helpers, which would take a core from the other.

    A thread that has not run for 20 ms is no caller. Products beside which that may have happened are not counted.
    """
    found = run(
        """
        stop, counts, ended = threading.Event(), [], [0.0]
        def other():
            Y = np.empty((n, 8), np.float32)
            while not stop.is_set():
                r.matmul(csr, (n, n), X, Y, threads=2)
                ended[0] = time.perf_counter()
        beside = threading.Thread(target=other)
        beside.start()
        while not ended[0]:
            time.sleep(0.01)
        for _ in range(300):
            before, begin, last = shared(), time.perf_counter(), ended[0]
            product()
            if time.perf_counter() - min(begin, last) < 0.01:
                counts.append(shared() - before)
        stop.set()
        beside.join()
        assert sum(counts) <= len(counts) / 3, counts
        print(len(counts))
        """
    )
    if int(found) < 20:
        pytest.skip(f"the machine was so busy that {found} of 300 products ran beside another one")


def version_1(group: str, quota: int) -> dict[str, str]:
    return {f"{group}/cpu.cfs_quota_us": f"{quota}\n", f"{group}/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("membership", "files", "cpus"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n"}, 2),
        ("0::/a\n", {"a/cpu.max": "50000 100000\n"}, 1),
        ("0::/a\n", {"a/cpu.max": "250000 100000\n", "cpu.max": "max 100000\n"}, 3),
        ("0::/a\n", {"a/cpu.max": "max 100000\n"}, 0),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/a\n", {"a/cpu.max": "nonsense\n"}, 0),
        ("nonsense\n\n3:\n", {}, 0),
        ("4:cpu,cpuacct:/x\n", version_1("cpu,cpuacct/x", 400000), 4),
        ("1:cpu:/\n", version_1("cpu", -1), 0),
    ],
)  # fmt: skip
def test_the_quota_of_a_control_group_bounds_the_threads(tmp_path, membership, files, cpus):
    for name, text in files.items():
        (tmp_path / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / name).write_text(text)
    (tmp_path / "cgroup").write_text(membership)
    found = runtime_api.lib.asp_cgroup_cpus(str(tmp_path / "cgroup").encode(), str(tmp_path / "sys").encode())
    assert found == cpus
    assert runtime_api.lib.asp_cgroup_cpus(str(tmp_path / "absent").encode(), b"/") == 0
