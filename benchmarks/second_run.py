"""Measure how soon the products of a repeated short program are as fast as tuned ones.

    python benchmarks/second_run.py             # 20 runs of 0.3 s of each program
    python benchmarks/second_run.py --quick     # 3 runs of 0.05 s, to check that the script works

Every run is a process of its own; all runs share one cache. All compute the same number of products: as many as take
the given seconds by the default kernel, at the median of a process with ``effort="off"`` that runs before them. With
another cache, one process calls ``A.tune()``, and the table shows when products of the process after it were first
computed by the tuned kernel. From the tenth run on every run is followed by another such process, with which it is
compared, because the speed of machines drifts. The processor time of a run depends less on other programs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib.table import markdown

FIRST_CHECKED: Final = 10
"""First run whose products must be as fast as tuned ones."""
NEAR: Final = 1.05
"""Maximum ratio of the median product to the tuned one that counts as fast."""
SLOW: Final = 1.10
"""Ratio of a process's time to the first one's above which it counts as slow."""
SERVED_MS: Final = 10.0
"""Milliseconds of products, or SERVED_PRODUCTS of them, within which a stored plan must be used."""
SERVED_PRODUCTS: Final = 30
RTOL: Final = 1e-5


@dataclass(frozen=True)
class Run:
    """Result of one process."""

    n: int  # number of products, or of iterations of cg
    run_s: float  # seconds of all products
    median_s: float  # median seconds of one product
    life_s: float = 0.0  # seconds of the process, measured by its parent
    cpu_s: float = 0.0  # processor time of the process, on which other programs have less influence
    served_after: int | None = None  # products before the first by a tuned kernel, or None
    served_after_ms: float | None = None  # milliseconds of these products


# -- one process -----------------------------------------------------------------------------------------------------


def grid(side: int) -> Any:
    """Return the five-point Laplacian of a square grid, with 5 side² entries, plus 0.01 on the diagonal."""
    import scipy.sparse as sps

    line = sps.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    eye = sps.eye_array(side)
    return sps.csr_array(sps.kron(line, eye) + sps.kron(eye, line) + 0.01 * sps.eye_array(side * side))


def scattered(n: int) -> Any:
    """Return a matrix with twenty random entries near the diagonal in each row, without further structure."""
    import scipy.sparse as sps

    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(n), 20)
    columns = (rows + rng.integers(-300, 300, rows.size)) % n
    return sps.csr_array(sps.coo_array((rng.standard_normal(rows.size), (rows, columns)), shape=(n, n)))


def products(A: Any, seconds: float, n: int) -> tuple[list[float], float]:
    """Time `n` SpMVs, or SpMVs for `seconds` if n is 0; return the time of each and of all together."""
    x = np.ones(A.shape[1])
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < n or (not n and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        A @ x
        times.append(time.perf_counter() - start)
    return times, time.perf_counter() - begin


def solves(A: Any, seconds: float, n: int) -> tuple[list[float], float]:
    """Time `n` iterations of SciPy's cg, or iterations for `seconds` if n is 0; return the time of each and of all."""
    from scipy.sparse.linalg import cg

    b, times, begin = np.ones(A.shape[0]), list[float](), time.perf_counter()
    last = begin

    def took(_: Any) -> None:
        nonlocal last
        now = time.perf_counter()
        times.append(now - last)
        last = now

    while len(times) < n or (not n and time.perf_counter() - begin < seconds):
        last = time.perf_counter()
        cg(A, b, rtol=RTOL, maxiter=min(100, n - len(times)) if n else 100, callback=took)
    return times, time.perf_counter() - begin


PROGRAMS: Final[dict[str, tuple[Callable[[], Any], Callable[[Any, float, int], tuple[list[float], float]]]]] = {
    "SpMV, grid of 100,000 entries": (lambda: grid(142), products),
    "SpMV, grid of 288,000 entries": (lambda: grid(240), products),
    "SpMV, 500,000 scattered entries": (lambda: scattered(25_000), products),
    "cg, grid of 288,000 entries": (lambda: grid(240), solves),
}


def child(name: str, seconds: float, n: int, *, tunes: bool) -> Run:
    """Run the program in this process and return its measurements."""
    import autosparse as asp

    make, run = PROGRAMS[name]
    m = make()
    A = asp.csr(m)
    if tunes:
        A.tune()
    times, run_s = run(A, seconds, n)
    served = _served_from(A, len(times))
    return Run(
        n=len(times), run_s=run_s, median_s=statistics.median(times), served_after=served,
        served_after_ms=None if served is None else 1e3 * sum(times[:served]),
    )  # fmt: skip


def _served_from(A: Any, n: int) -> int | None:
    """Return the number of products before the first one by a tuned kernel, of `n` in all."""
    dispatcher = A._cell.dispatcher
    found = []
    for state in dispatcher.states.values() if dispatcher is not None else ():
        state.commit()
        if state.n_tuned:
            found.append(n - state.n_tuned)
    return min(found, default=None)


# -- many processes --------------------------------------------------------------------------------------------------


def run_once(name: str, cache: Path, *, seconds: float = 0.0, n: int = 0, tunes: bool = False, effort: str = "") -> Run:
    """Run the program in a process of its own, under the option `effort` if one is given."""
    command = [sys.executable, __file__, "--child", name, "--seconds", str(seconds), "--n", str(n)]
    extra = {"AUTOSPARSE_CACHE_DIR": str(cache)} | ({"AUTOSPARSE_EFFORT": effort} if effort else {})
    start, start_cpu = time.perf_counter(), children_cpu_s()
    done = subprocess.run(
        [*command, *(["--tunes"] if tunes else [])], env=os.environ | extra, stdout=subprocess.PIPE, text=True,
        check=True,
    )  # fmt: skip
    times = {"life_s": time.perf_counter() - start, "cpu_s": children_cpu_s() - start_cpu}
    return Run(**(json.loads(done.stdout) | times))


def children_cpu_s() -> float:
    """Return the processor time of all finished children of this process, in seconds."""
    found = os.times()
    return found.children_user + found.children_system


@dataclass(frozen=True)
class Outcome:
    """All runs of one program."""

    name: str
    runs: Sequence[Run]
    tuned: Run  # the process that called `tune`
    after: Run  # the process after it
    beside: Sequence[Run]  # processes with that cache, one after each run from FIRST_CHECKED on

    def ratios(self) -> list[float]:
        """Return the median product of each run from FIRST_CHECKED on over that of the tuned process beside it."""
        checked = self.runs[FIRST_CHECKED - 1 :]
        return [run.median_s / tuned.median_s for run, tuned in zip(checked, self.beside, strict=True)]

    def reasons(self) -> list[str]:
        """Return messages about limits that were missed."""
        first, found = self.runs[0], []
        slow = [at for at, run in enumerate(self.runs, 1) if run.life_s > SLOW * first.life_s]
        if slow:
            found.append(f"runs {slow} took longer than {SLOW:g} x the first")
        ratio = statistics.median(self.ratios() or [1.0])
        if ratio > NEAR:
            found.append(f"from run {FIRST_CHECKED} on products took {ratio:.2f} x tuned ones, {NEAR:g} is allowed")
        served, ms = self.after.served_after, self.after.served_after_ms
        if served is None or ms is None:
            found.append("after tune the next process was not served by the plan")
        elif served > SERVED_PRODUCTS and ms > SERVED_MS:
            found.append(f"after tune the next process was served after {served} products, {ms:.1f} ms")
        return found


def measure(name: str, *, n_runs: int, seconds: float) -> Outcome:
    """Run a program `n_runs` times with one cache, and with another one after `tune`."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        # Its first products compile bytecode, and load libraries from the disk: the first run is like later ones.
        untuned = run_once(name, Path(other), seconds=seconds, effort="off")
        n = max(1, round(seconds / untuned.median_s))
        runs, beside = [run_once(name, Path(one), n=n)], list[Run]()
        tuned = run_once(name, Path(other), n=n, tunes=True)
        after = run_once(name, Path(other), n=n)
        for at in range(2, n_runs + 1):
            runs.append(run_once(name, Path(one), n=n))
            if at >= FIRST_CHECKED:
                beside.append(run_once(name, Path(other), n=n))
    return Outcome(name, runs, tuned, after, beside)


def report(outcome: Outcome) -> str:
    """Format a row per run: process time over the first one's, median product, and that over the tuned one's."""
    first, ratios = outcome.runs[0], [""] * (FIRST_CHECKED - 1) + [f"{ratio:.2f}" for ratio in outcome.ratios()]
    rows = [[
        "run", "process, s", "over the first", "processor, s", "loop, s", "median, us", "over the tuned",
        "tuned from product",
    ]]  # fmt: skip
    named = [*((str(at), run) for at, run in enumerate(outcome.runs, 1)), ("tune", outcome.tuned)]
    for (label, run), ratio in zip_longest([*named, ("after tune", outcome.after)], ratios[: len(outcome.runs)]):
        rows.append([
            label, f"{run.life_s:.3f}", f"{run.life_s / first.life_s:.2f}", f"{run.cpu_s:.3f}",
            f"{run.run_s:.3f}", f"{run.median_s * 1e6:.1f}", ratio or "",
            "-" if run.served_after is None else str(run.served_after),
        ])  # fmt: skip
    reasons = outcome.reasons() or ["all limits met"]
    return f"{outcome.name}, {first.n:,} products\n\n{markdown(rows)}\n\n" + "".join(f"- {one}\n" for one in reasons)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.3, help="seconds of products in the first run")
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="3 runs of 0.05 s of the first program")
    parser.add_argument("--child", choices=list(PROGRAMS), help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--tunes", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run and report; return 1 if a limit was missed (never with --quick)."""
    args = arguments(given)
    if args.child is not None:
        print(json.dumps(vars(child(args.child, args.seconds, args.n, tunes=args.tunes))))
        return 0
    names, n_runs, seconds = args.programs, args.runs, args.seconds
    if args.quick:
        names, n_runs, seconds = names[:1], 3, 0.05
    outcomes = [measure(name, n_runs=n_runs, seconds=seconds) for name in names]
    print("\n".join(map(report, outcomes)))
    return int(not args.quick and any(outcome.reasons() for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
