"""One daemon thread that does tuning steps while products go on. Ends with the process; a fork starts without it."""

from __future__ import annotations

import atexit
import functools
import os
import queue
import threading
from collections.abc import Callable
from typing import Final

EXIT_WAIT_S: Final = 5.0
"""At exit, a step in progress (a compile, at most) is waited for this long, so that no compiler is left behind."""

_jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
_worker: threading.Thread | None = None
_lock = threading.Lock()


def submit(job: Callable[[], None]) -> None:
    """Run `job` in the background thread, after the jobs before it; it must not raise."""
    global _worker
    with _lock:
        if _worker is None or not _worker.is_alive():
            _worker = threading.Thread(target=_work, name="autosparse-tuning", daemon=True)
            _worker.start()
            _register_hooks()
    _jobs.put(job)


@functools.lru_cache(maxsize=1)
def _register_hooks() -> None:
    atexit.register(_finish)
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=_forget)


def _work() -> None:
    while (job := _jobs.get()) is not None:
        job()


def _finish() -> None:
    """Drop what has not begun, and wait for what has."""
    worker = _worker
    if worker is None or not worker.is_alive():
        return
    while not _jobs.empty():
        _jobs.get()
    _jobs.put(None)
    worker.join(EXIT_WAIT_S)


def _forget() -> None:
    """In a forked child the thread does not exist; whoever asks next starts another."""
    global _worker, _jobs, _lock
    _worker, _jobs, _lock = None, queue.SimpleQueue(), threading.Lock()
