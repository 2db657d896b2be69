"""Forks at random moments of other threads' work.

Run as a program: forks.py KIND N_FORKS SEED; it exits 0 if no child hung or was wrong. A child that hangs prints its
stacks by `faulthandler` and is counted. No time is asserted: a child has HANG_S seconds for work of milliseconds.
"""

from __future__ import annotations

import faulthandler
import itertools
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sps

HANG_S = 200
WRONG = 3


def matrix(n: int, seed: int) -> Any:
    return sps.random_array((n, n), density=0.02, random_state=np.random.default_rng(seed), format="csr")


def in_child(work: Callable[[], bool]) -> int:
    """Fork, run `work` in the child, and return the child's exit status: 0 if `work` returns True."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking a process with threads is what this tests
        child = os.fork()
    if child == 0:
        signal.alarm(HANG_S)  # `faulthandler` prints the stacks before the signal ends the process
        code = WRONG
        try:
            code = 0 if work() else WRONG
        except BaseException as err:  # noqa: BLE001  # the child must end here after any exception
            sys.stderr.write(f"{type(err).__name__}: {err}\n")
            faulthandler.dump_traceback()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# -- while other threads tune, pack, hash, compute and write to the cache


class World:
    """Matrices that several threads share, and the work of these threads until `is_over` is set."""

    def __init__(self, seed: int) -> None:
        import autosparse as asp

        self.asp, self.seed, self.is_over = asp, seed, threading.Event()
        self.plains = [matrix(n, n) for n in (60, 150, 300)]
        self.shared = [asp.csr(plain, copy=True) for plain in self.plains]
        self.vectors = [np.random.default_rng(1).standard_normal(plain.shape[1]) for plain in self.plains]
        self.wanted = [plain @ x for plain, x in zip(self.plains, self.vectors, strict=True)]
        self.shared[-1].tune(budget_s=2)  # so that kernels exist from the beginning

    def right(self, A: Any, at: int) -> bool:
        return bool(np.allclose(A @ self.vectors[at], self.wanted[at]))

    def compute(self, **options: Any) -> None:
        with self.asp.options(overhead=1.0, runs=10**9, budget_s=1e6, **options):
            while not self.is_over.is_set():
                assert all(self.right(A, at) for at, A in enumerate(self.shared))

    def compute_beside(self) -> None:
        self.compute(background=True, threads=1)

    def tune(self) -> None:
        rng = random.Random(self.seed)
        while not self.is_over.is_set():
            at = rng.randrange(len(self.plains))
            A = self.asp.csr(self.plains[at], copy=True)
            A.tune(columns=rng.choice((1, 4)), effort="measure", budget_s=0.5)
            assert self.right(A, at)
            A.data[:] = self.plains[at].data  # makes the packed copy out of date
            assert self.right(A, at)
            self.shared[at].tune(effort=rng.choice(("estimate", "measure")), budget_s=0.2)

    def meet(self) -> None:
        for number in itertools.takewhile(lambda _: not self.is_over.is_set(), itertools.count()):
            A = self.asp.csr(matrix(40, number), copy=True)  # a new pattern, which is hashed, counted and looked up
            A.tune(columns=4, effort="estimate", budget_s=0.05)

    def child(self, choice: random.Random) -> bool:
        """Compute, tune or write in the child, and return whether all products were right."""
        found = [self.right(A, at) for at, A in enumerate(self.shared)]
        at, turn = choice.randrange(len(self.shared)), choice.randrange(6)
        if turn == 0:
            self.shared[at].tune(effort="estimate", budget_s=0.1)
        elif turn == 1:
            fresh = self.asp.csr(self.plains[at], copy=True)
            fresh.tune(effort="estimate", budget_s=0.1)
            found.append(self.right(fresh, at))
        elif turn == 2:
            self.shared[at].data[:] = self.plains[at].data
        return all([*found, *(self.right(A, at) for at, A in enumerate(self.shared))])


def busy(n_forks: int, seed: int) -> int:
    """Fork while threads take every lock; return the number of children that hung or were wrong."""
    world = World(seed)
    works = (world.compute, world.compute_beside, world.tune, world.meet)
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    rng, choice = random.Random(seed), random.Random()
    n_bad = 0
    for number in range(n_forks):
        choice.seed(f"{seed} {number}")
        time.sleep(rng.expovariate(1.0) * 2e-3)
        n_bad += in_child(lambda: world.child(choice)) != 0
    world.is_over.set()
    for thread in threads:
        thread.join(HANG_S)
    return n_bad


# -- while another thread imports


def importing(n_forks: int, seed: int) -> int:
    """Fork while a thread imports autosparse or runs its first product; return the number of bad children.

    Each fork happens in a child that has not imported autosparse before.
    """
    plain = matrix(60, 1)
    x = np.ones(plain.shape[1])
    wanted = plain @ x
    rng = random.Random(seed)

    def first() -> bool:
        import autosparse as asp

        A = asp.csr(plain)
        with asp.options(overhead=1.0, runs=10**9, compiler="no-such-compiler"), warnings.catch_warnings():
            warnings.simplefilter("ignore", asp.FallbackWarning)
            return all(bool(np.allclose(A @ x, wanted)) for _ in range(5))

    def case() -> bool:
        thread = threading.Thread(target=first, daemon=True)
        thread.start()
        # Before autosparse.forking is loaded, a fork cannot wait for a lock of ours.
        while "autosparse.forking" not in sys.modules or not hasattr(sys.modules["autosparse.forking"], "IS_WATCHING"):
            time.sleep(1e-4)
        time.sleep(delay_s)
        return in_child(first) == 0

    n_bad = 0
    for _ in range(n_forks):
        delay_s = rng.random() * 0.15
        n_bad += in_child(case) != 0
    return n_bad


if __name__ == "__main__":
    faulthandler.register(signal.SIGALRM, chain=True)
    kind, n_forks, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    n_bad = {"busy": busy, "importing": importing}[kind](n_forks, seed)
    sys.stdout.write(f"{n_bad} of {n_forks} children hung or were wrong\n")
    sys.exit(n_bad != 0)
