"""Collection of training data on a cluster: one measurement at a time on each machine, kinds of machines never mixed.

The client hands out recipes: a machine gets its next one when its last is written. A worker returns files, as
`autosparse.tuner.collect.files` writes them, and the client puts them into the folder of the worker's kind, so that
what is done is never done again and a lost worker costs the pattern that it was at.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import itertools
import json
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosparse.calibration.collection import lab_for, machine_facts, statistics_model
from autosparse.config import options
from autosparse.core.target import Target
from autosparse.errors import MissingExtraError
from autosparse.log import event
from autosparse.tuner.collect.collector import Collector, Order, path_in
from autosparse.tuner.collect.recipes import Recipe

try:
    from distributed import wait
except ImportError as error:
    raise MissingExtraError.needed("distributed", extra="dask", purpose="collecting on a cluster") from error

if TYPE_CHECKING:
    from distributed import Client, Future

LOOK_S: Final = 2.0
"""Workers that joined, or were lost, are noticed within this time."""
MOST_LOSSES: Final = 2
"""A pattern at which more workers were lost is left out: it may be what they were lost of."""
NOWHERE: Final = Path()

Files = Mapping[str, tuple[str, bytes]]
"""Operation -> (name, contents) of the file of one pattern."""


@dataclass(frozen=True, slots=True)
class Written:
    """One pattern is done."""

    kind: str  # the folder's name
    machine: str  # the host
    recipe: Recipe
    paths: Sequence[Path]


# -- on the workers -------------------------------------------------------------------------------------------------


@contextmanager
def alone_on_this_machine() -> Iterator[None]:
    """Wait until no other measurement runs here, of whatever process of this user; the system frees it for the dead."""
    path = Path(tempfile.gettempdir(), f"autosparse-measuring-{os.getuid()}")
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def kind_of_machine(threads: int | None) -> str:
    """A folder's name: processor, instruction set, cores, and a digest of all that a time depends on here."""
    target = Target.host()
    facts = {**machine_facts(), "threads": threads or target.n_cores}
    digest = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=4).hexdigest()
    name = re.sub(r"[^A-Za-z0-9]+", "-", target.cpu).strip("-")[:40]
    return f"{name}-{target.isa}-{target.n_cores}-{digest}"


@functools.lru_cache(maxsize=2)
def _collector(order: Order) -> Collector:
    """Kept, with its pools of kernels, from pattern to pattern."""
    from autosparse import _native

    def bench(pattern: Any, op: Any) -> Any:  # Any: as Collector's MakeBench
        return lab_for(pattern, op, order.dtype)

    return Collector(order, bench, statistics_model, machine_facts(), _native.supports)


def measure(order: Order, recipe: Recipe, threads: int | None) -> Files:
    """Measure one pattern, here and now; `order.out` does not matter. Operations that do not fit give no file."""
    with (
        alone_on_this_machine(),
        tempfile.TemporaryDirectory(prefix="autosparse-collect-") as folder,
        options(threads=threads or Target.host().n_cores),
    ):
        collector = _collector(replace(order, ops=(), out=NOWHERE))
        collector.order = replace(order, out=Path(folder))
        made = {step.op: collector.path_of(step.recipe, step.op) for step in collector.run([recipe])}
        return {op.name: (path.name, path.read_bytes()) for op, path in made.items()}


# -- on the client --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ClusterCollector:
    """Runs an Order on the workers of `client`. Each kind of machine measures every pattern of `recipes()`."""

    client: Client
    order: Order
    recipes: Callable[[], Iterable[Recipe]]
    threads: int | None = None  # of a kernel; None: all cores of the machine
    clock: Callable[[], float] = time.monotonic
    _streams: dict[str, Iterator[Recipe]] = field(default_factory=dict)
    _again: dict[str, list[Recipe]] = field(default_factory=dict)
    _kinds: dict[str, str] = field(default_factory=dict)  # worker's address -> kind
    _losses: Counter[Recipe] = field(default_factory=Counter)
    _running: dict[Future, tuple[str, str, Recipe]] = field(default_factory=dict)  # -> host, worker, recipe

    def run(self) -> Iterator[Written]:
        """One Written per pattern and kind, until patterns or time end. ConnectionError when there is no worker."""
        until_s = self.clock() + self.order.seconds
        while True:
            if self.clock() < until_s:
                self._hand_out()
            if not self._running:
                if not self._workers():
                    raise ConnectionError(f"the scheduler at {self.client.scheduler.address} has no workers")
                return
            done = _finished(list(self._running))
            for future in done:
                host, worker, recipe = self._running.pop(future)
                if future.status != "finished":
                    self._note_failure(future, worker, recipe)
                    continue
                kind = self._kinds[worker]
                yield Written(kind, host, recipe, self._write(kind, future.result()))
            self._take_back()

    def _workers(self) -> Mapping[str, str]:
        """Address -> host, of the workers that there are now."""
        return {address: address.rpartition("://")[2].rpartition(":")[0] for address in self.client.nthreads()}

    def _hand_out(self) -> None:
        """A pattern for each machine that has none."""
        workers = self._workers()
        if new := [one for one in workers if one not in self._kinds]:
            self._kinds |= self.client.run(kind_of_machine, self.threads, workers=new, on_error="ignore")
        busy = {host for host, _, _ in self._running.values()}
        for worker, host in workers.items():
            if host in busy or worker not in self._kinds:
                continue
            job = self._next(self._kinds[worker])
            if job is None:
                continue
            busy.add(host)
            order, recipe = job
            future = self.client.submit(
                measure, order, recipe, self.threads, workers=[worker], allow_other_workers=False, pure=False, retries=0
            )
            self._running[future] = host, worker, recipe

    def _next(self, kind: str) -> tuple[Order, Recipe] | None:
        """The next pattern that `kind` has not done, with the operations that are missing."""
        if kind not in self._streams:
            self._streams[kind] = itertools.islice(iter(self.recipes()), self.order.n_patterns)
        for recipe in itertools.chain(_emptied(self._again.setdefault(kind, [])), self._streams[kind]):
            if self.order.for_training and recipe.is_held_out:
                continue
            fitting = [op for op in self.order.ops if op.n_dims == recipe.n_dims]
            missing = [op for op in fitting if not path_in(self.order.out / kind, recipe, op).exists()]
            if missing:
                return replace(self.order, ops=tuple(missing), seconds=float("inf"), n_patterns=None), recipe
        return None

    def _write(self, kind: str, files: Files) -> list[Path]:
        """Whole or not at all: written beside, then renamed."""
        paths = []
        for op, (name, contents) in files.items():
            path = self.order.out / kind / op / Path(name).name
            path.parent.mkdir(parents=True, exist_ok=True)
            staged = path.with_name(f".{path.name}.{os.getpid()}")
            staged.write_bytes(contents)
            staged.replace(path)
            paths.append(path)
        return paths

    def _note_failure(self, future: Future, worker: str, recipe: Recipe) -> None:
        """A pattern whose worker is gone is done by another machine of the kind; one that fails there is left out."""
        if worker not in self._workers():
            self._retry(worker, recipe)
        else:
            event("tune", f"a pattern is left out: {future.exception()}", source=recipe.source)

    def _retry(self, worker: str, recipe: Recipe) -> None:
        self._losses[recipe] += 1
        if self._losses[recipe] > MOST_LOSSES:
            event(
                "tune", f"a pattern is left out: {self._losses[recipe]} workers were lost at it", source=recipe.source
            )
        else:
            self._again[self._kinds[worker]].append(recipe)

    def _take_back(self) -> None:
        """Patterns of workers that are gone wait for another machine."""
        workers = self._workers()
        for future, (_, worker, recipe) in list(self._running.items()):
            if worker not in workers:
                del self._running[future]
                future.cancel()
                self._retry(worker, recipe)


def _emptied(waiting: list[Recipe]) -> Iterator[Recipe]:
    while waiting:
        yield waiting.pop()


def _finished(futures: list[Future]) -> list[Future]:
    """Those that have ended, after at most LOOK_S."""
    try:
        return list(wait(futures, timeout=LOOK_S, return_when="FIRST_COMPLETED").done)
    except TimeoutError:
        return []
