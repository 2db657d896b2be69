"""A daemon thread that runs tuning steps while products continue. It ends with the process; a forked child has none."""

from __future__ import annotations

import atexit
import functools
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from autosparse import forking
from autosparse.operands.unfolding import while_reading
from autosparse.targets.priors import number

if TYPE_CHECKING:
    from queue import SimpleQueue

    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuner.search.trial import Work

EXIT_WAIT_S: Final = 0.5
"""Seconds that exit waits for the running step, before its compiler is ended."""
END_WAIT_S: Final = number("background", "wait at exit s")
"""Seconds that exit waits after that for steps that are no compilation, such as packing or writing a file."""

_jobs: SimpleQueue[Callable[[], None] | None] | None = None
"""Jobs of the thread, from its start on: few processes tune in the background."""
_worker: threading.Thread | None = None
_is_over = False
_lock = forking.lock()


def perform(step: Work, operand: AnyOperand | None) -> None:
    """Perform a step; arrays of `operand` that the program replaces meanwhile are kept, as the step may read them.

    Compilations do not read arrays and take seconds, in which a program may replace large arrays many times.
    """
    while_reading(None if step.may_hang else operand, step.do)


def submit(job: Callable[[], None]) -> bool:
    """Queue `job`, which must not raise, for the background thread; return False if no job can run any more."""
    global _worker, _jobs
    with _lock:
        if _is_over:
            return False
        if _jobs is None:
            from queue import SimpleQueue

            _jobs = SimpleQueue()
        if _worker is None or not _worker.is_alive():
            worker = threading.Thread(target=_work, args=(_jobs,), name="autosparse-tuning", daemon=True)
            try:
                worker.start()
            except RuntimeError:  # the interpreter is ending, or the system has no thread left
                return False
            _worker = worker
            _at_exit()
        _jobs.put(job)
    return True


def _work(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()


def _finish() -> None:
    """Drop the jobs that have not begun, and wait for the running one."""
    global _is_over
    worker, jobs, _is_over = _worker, _jobs, True
    if worker is None or jobs is None or not worker.is_alive():
        return
    while not jobs.empty():
        jobs.get()
    jobs.put(None)
    worker.join(EXIT_WAIT_S)
    builder = sys.modules.get("autosparse._native.c.build")
    if worker.is_alive() and builder is not None:
        builder.cancel_all()
        worker.join(END_WAIT_S)


@forking.in_child
def _forget() -> None:
    """Reset the module in a forked child, where the thread does not exist; the next `submit` starts another."""
    global _worker, _jobs
    _worker = _jobs = None


_at_exit: Final = functools.cache(lambda: atexit.register(_finish))  # registered once, when the thread is first started
