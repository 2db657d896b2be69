"""Distribution of measurements on a cluster: one at a time on each machine, separately for each kind of machine.

The client sends a machine its next job when the last one is finished. Each kind of machine does every job. If a worker
is lost, its job goes to another machine of the same kind; a job that raises an error is left out.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from autosparse.core.target import Target
from autosparse.errors import MissingExtraError
from autosparse.log import event
from autosparse.tuning.memory.machine_facts import machine_facts

try:
    from distributed import wait
except ImportError as error:
    raise MissingExtraError.needed("distributed", extra="dask", purpose="measuring on a cluster") from error

if TYPE_CHECKING:
    from distributed import Client, Future

LOOK_S: Final = 2.0
"""Seconds between two checks for workers that have joined or were lost."""
MAX_LOSSES: Final = 2
"""Maximum number of workers lost during a job before it is left out: the job itself may crash them."""

Job = TypeVar("Job")
Arguments = tuple[Any, ...]  # Any: arguments of the task, which the caller defines


@dataclass(frozen=True, slots=True)
class Done(Generic[Job]):
    """Record of a job finished on one kind of machine."""

    kind: str
    machine: str  # host
    job: Job
    result: Any  # Any: the task's result


@dataclass(frozen=True, slots=True)
class Failed(Generic[Job]):
    """Record of a job left out on one kind of machine."""

    kind: str
    job: Job
    reason: str  # first line of the error's text


# -- on the workers -------------------------------------------------------------------------------------------------


@contextmanager
def alone_on_this_machine() -> Iterator[None]:
    """Hold a lock against other measurements of this user on this machine; it is released if the process dies."""
    path = Path(tempfile.gettempdir(), f"autosparse-measuring-{os.getuid()}")
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def kind_of_machine(threads: int | None) -> str:
    """Return a folder name: CPU model, instruction set, cores, and a digest of all facts that affect timings."""
    target = Target.host()
    facts = {**machine_facts(), "threads": threads or target.n_cores}
    digest = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=4).hexdigest()
    name = re.sub(r"[^A-Za-z0-9]+", "-", target.cpu).strip("-")[:40]
    return f"{name}-{target.isa}-{target.n_cores}-{digest}"


# -- on the client --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class HandOut(Generic[Job]):
    """Scheduler that runs ``task(*arguments_of(kind, job))`` once for each job and each kind of worker machine."""

    client: Client
    task: Callable[..., Any]
    jobs: Callable[[], Iterable[Job]]
    arguments_of: Callable[[str, Job], Arguments | None]  # None: already done, or not for this kind
    threads: int | None = None  # of a kernel; None: all cores of the machine
    seconds: float = float("inf")
    clock: Callable[[], float] = time.monotonic
    failed: list[Failed[Job]] = field(default_factory=list)  # jobs that `run` left out
    _streams: dict[str, Iterator[Job]] = field(default_factory=dict)
    _again: dict[str, list[Job]] = field(default_factory=dict)
    _kinds: dict[str, str] = field(default_factory=dict)  # worker's address -> kind
    _losses: Counter[Job] = field(default_factory=Counter)
    _running: dict[Future, tuple[str, str, Job]] = field(default_factory=dict)  # -> host, worker, job

    def run(self) -> Iterator[Done[Job]]:
        """Yield a Done for each finished job and kind of machine, until no jobs or time are left.

        Raises ConnectionError when there is no worker.
        """
        until_s = self.clock() + self.seconds
        while True:
            if self.clock() < until_s:
                self._hand_out()
            if not self._running:
                if not self._workers():
                    raise ConnectionError(f"the scheduler at {self.client.scheduler.address} has no workers")
                return
            for future in finished(list(self._running)):
                host, worker, job = self._running.pop(future)
                if future.status == "finished":
                    yield Done(self._kinds[worker], host, job, future.result())
                else:
                    self._note_failure(future, worker, job)
            self._take_back()

    def _workers(self) -> Mapping[str, str]:
        """Return {address: host} of the workers that are present."""
        return {address: address.rpartition("://")[2].rpartition(":")[0] for address in self.client.nthreads()}

    def _hand_out(self) -> None:
        """Submit a job for each worker machine on which none is running."""
        workers = self._workers()
        if new := [one for one in workers if one not in self._kinds]:
            self._kinds |= self.client.run(kind_of_machine, self.threads, workers=new, on_error="ignore")
        busy = {host for host, _, _ in self._running.values()}
        for worker, host in workers.items():
            if host in busy or worker not in self._kinds or (found := self._next(self._kinds[worker])) is None:
                continue
            busy.add(host)
            job, arguments = found
            future = self.client.submit(
                self.task, *arguments, workers=[worker], allow_other_workers=False, pure=False, retries=0
            )
            self._running[future] = host, worker, job

    def _next(self, kind: str) -> tuple[Job, Arguments] | None:
        """Return the next (job, arguments) that machines of `kind` have not done, or None if there is no more."""
        stream = self._streams.setdefault(kind, iter(self.jobs()))
        waiting = self._again.setdefault(kind, [])
        while (job := waiting.pop() if waiting else next(stream, None)) is not None:
            if (arguments := self.arguments_of(kind, job)) is not None:
                return job, arguments
        return None

    def _note_failure(self, future: Future, worker: str, job: Job) -> None:
        """Submit the job again later if its worker is gone; otherwise record it as failed."""
        if worker not in self._workers():
            self._retry(worker, job)
        else:
            self._leave_out(worker, job, str(future.exception()))

    def _retry(self, worker: str, job: Job) -> None:
        self._losses[job] += 1
        if self._losses[job] > MAX_LOSSES:
            self._leave_out(worker, job, f"{self._losses[job]} workers were lost while running it")
        else:
            self._again[self._kinds[worker]].append(job)

    def _leave_out(self, worker: str, job: Job, reason: str) -> None:
        self.failed.append(Failed(self._kinds[worker], job, next(iter(reason.splitlines()), "no reason was given")))
        event("tune", f"a measurement is left out: {reason}", job=str(job))

    def _take_back(self) -> None:
        """Cancel the jobs of workers that are gone, and submit them again later."""
        workers = self._workers()
        for future, (_, worker, job) in list(self._running.items()):
            if worker not in workers:
                del self._running[future]
                future.cancel()
                self._retry(worker, job)


def finished(futures: list[Future]) -> list[Future]:
    """Wait at most LOOK_S seconds until one of the futures ends; return all that have ended."""
    try:
        return list(wait(futures, timeout=LOOK_S, return_when="FIRST_COMPLETED").done)
    except asyncio.TimeoutError:  # the class of its own that Python 3.10 has
        return []


def written(path: Path, contents: bytes) -> Path:
    """Write `contents` to `path` atomically, by a temporary file that is renamed; return `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_bytes(contents)
    staged.replace(path)
    return path
