"""Time a product after a pause of Python code, relative to the same product in a tight loop.

    python benchmarks/pauses.py [--processes 20] [--between 1000] [--entries 60000] [--json FILE]

Every row is a set of fresh processes. Each process runs one untuned SpMV (float32, `asp.matmul(A, x, out=y)`) in a
tight loop, then with an activity between two products. The activity is a busy pause of a given number of microseconds,
or NumPy's `dot`, `axpy`, a norm or a matrix product on vectors of A's size. The table shows the median ratio to the
tight loop, the slowest process, how many processes had a second window of 100 ms above 1.4 times the tight loop, and
processor time over wall time. `--contender` measures a plain OpenMP loop or SciPy's product under the same pauses.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse
from peerlib.c_peers import address, compile_shared
from peerlib.environment import child_environment

PAUSES_US: Final = (0, 20, 80, 150, 300, 1_000, 20_000)
ENTRIES: Final = (60_000, 240_000, 1_200_000)
BETWEEN: Final = ("dot", "axpy", "norm", "matmul")
CONTENDERS: Final = ("autosparse", "openmp", "scipy")
WINDOW_S: Final = 0.1
COLUMNS: Final = (
    "between two products", "entries", "tight loop, us", "median ratio", "slowest process", "slow windows",
    "processors used",
)  # fmt: skip
SLOW: Final = 1.4
"""Ratio to the tight loop above which a window counts as slow."""

Between = Callable[[], object]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--processes", type=int, default=20, help="fresh processes per row")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of the loop with pauses, per process")
    parser.add_argument("--wait", default="auto", help="value of the setting `wait`")
    parser.add_argument("--between", action="append", default=[], help="only this activity or pause (repeatable)")
    parser.add_argument("--entries", type=int, action="append", default=[], help="only this size (repeatable)")
    parser.add_argument("--contender", default=CONTENDERS[0], choices=CONTENDERS, help="whose product")
    parser.add_argument("--json", type=Path, help="write the results of each process to this file")
    parser.add_argument("--quick", action="store_true", help="one size, two rows, one short process each")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args(given)


def between(what: str, n: int) -> Between | None:
    """Return the activity between two products, or None for none."""
    if what in BETWEEN:
        a, b, square = np.ones(n, np.float32), np.ones(n, np.float32), np.ones((200, 200), np.float32)

        def axpy() -> None:
            np.add(a, 1e-9 * b, out=a)

        return {
            "dot": lambda: a @ b,
            "axpy": axpy,
            "norm": lambda: np.linalg.norm(a),
            "matmul": lambda: square @ square,
        }[what]
    pause_s = float(what) * 1e-6

    def spin() -> None:
        end = time.perf_counter() + pause_s
        while time.perf_counter() < end:
            pass

    if pause_s >= 10e-3:
        return lambda: time.sleep(pause_s)
    return spin if pause_s else None


def product_of(contender: str, n: int, wait: str) -> Between:
    """Return the contender's product of a random matrix with n rows and a vector."""
    m = scipy.sparse.random_array((n, n), density=6 / n, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
    x, y = np.ones(n, np.float32), np.empty(n, np.float32)
    if contender == "scipy":
        return lambda: m @ x
    if contender == "openmp":
        source = Path(__file__).with_name("peerlib") / "csr_openmp.c"
        with tempfile.TemporaryDirectory() as folder:
            library = compile_shared(source, Path(folder), name="csr_openmp", extra=("-DREAL=float",))
            call = ctypes.CDLL(str(library))["plain_spmv"]
        arrays = [address(one) for one in (m.indptr, m.indices, m.data, x, y)]
        return lambda: call(ctypes.c_int64(n), *arrays, ctypes.c_int(os.cpu_count() or 1)) or (m, x, y)
    import autosparse as asp

    asp.set_options(effort="off", wait=wait)
    A = asp.csr(m)
    return lambda: asp.matmul(A, x, out=y)


def child(what: str, n_entries: int, seconds: float, wait: str, contender: str) -> dict[str, Any]:
    """Measure one process: medians of both loops (us), medians of windows, processor time over wall time."""
    n = n_entries // 6
    product = product_of(contender, n, wait)

    def loop(seconds: float, act: Between | None) -> tuple[list[float], list[float]]:
        times, windows, first = [], [], 0
        end = time.perf_counter() + seconds
        window_end = time.perf_counter() + WINDOW_S
        while (now := time.perf_counter()) < end:
            if act is not None:
                act()
            start = time.perf_counter()
            product()
            times.append(time.perf_counter() - start)
            if now > window_end:
                windows.append(statistics.median(times[first:]) * 1e6)
                first, window_end = len(times), now + WINDOW_S
        return times, windows

    act = between(what, n)
    loop(min(0.5, seconds), None)
    tight, _ = loop(min(0.5, seconds), None)
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    paused, windows = loop(seconds, act)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    skip = len(paused) // 5
    return {
        "tight_us": statistics.median(tight) * 1e6,
        "paused_us": statistics.median(paused[skip:]) * 1e6,
        "windows_us": windows,
        "cpu": cpu_s / wall_s,
        "n": len(paused),
    }


def measure(what: str, n_entries: int, args: argparse.Namespace) -> dict[str, Any]:
    """Run one fresh process."""
    given = json.dumps([what, n_entries, args.seconds, args.wait, args.contender])
    command = [sys.executable, "-W", "ignore", __file__, "--child", given]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=child_environment())
    found: dict[str, Any] = json.loads(done.stdout)
    return {"between": what, "entries": n_entries, **found}


def row(what: str, n_entries: int, found: Sequence[dict[str, Any]]) -> str:
    """Return one row of the table."""
    ratios = sorted(one["paused_us"] / one["tight_us"] for one in found)
    n_slow = sum(sum(us > SLOW * one["tight_us"] for us in one["windows_us"][1:]) > 0 for one in found)
    tight = statistics.median(one["tight_us"] for one in found)
    cpu = statistics.median(one["cpu"] for one in found)
    name = what if what in BETWEEN else f"{int(what):,} us"
    return (
        f"| {name} | {n_entries:,} | {tight:.0f} | {statistics.median(ratios):.2f} | {ratios[-1]:.2f} | "
        f"{n_slow} of {len(found)} | {cpu:.2f} |"
    )


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print."""
    args = arguments(given)
    if args.child:
        print(json.dumps(child(*json.loads(args.child))))
        return 0
    if args.quick:
        args.processes, args.seconds = 1, 0.3
    sizes = args.entries or (ENTRIES[:1] if args.quick else ENTRIES)
    whats = args.between or (("80", "dot") if args.quick else (*map(str, PAUSES_US), *BETWEEN))
    kept: list[dict[str, Any]] = []
    print(f"{args.contender}, {os.cpu_count()} processors, wait={args.wait}\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for n_entries in sizes:
        for what in whats:
            found = [measure(what, n_entries, args) for _ in range(args.processes)]
            kept += found
            print(row(what, n_entries, found), flush=True)
    if args.json:
        args.json.write_text("".join(json.dumps(one) + "\n" for one in kept), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
