"""Collection of training data on a cluster: workers measure patterns, which `scheduler` distributes.

A worker returns files, as `autosparse.tuner.research.collect.files` writes them. The client stores them in the folder
of the worker's kind. Finished patterns are not measured again, and a lost worker costs only the pattern that it was
measuring.
"""

from __future__ import annotations

import functools
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosparse.calibration.collection import context_for, proposals
from autosparse.config import options
from autosparse.core.target import Target
from autosparse.dask.scheduler import Failed, HandOut, alone_on_this_machine, written
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.research.collect.collector import Collector, Order, path_in
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuning.memory.machine_facts import machine_facts

if TYPE_CHECKING:
    from distributed import Client

NOWHERE: Final = Path()
"""Placeholder of `Order.out`, so that equal orders share a collector."""

Files = Mapping[str, tuple[str, bytes]]
"""Files of one pattern: operation -> (name, contents)."""


@dataclass(frozen=True, slots=True)
class Written:
    """Record of the files stored for one pattern, measured on one machine."""

    kind: str  # name of the folder
    machine: str  # host
    recipe: Recipe
    paths: Sequence[Path]


@functools.lru_cache(maxsize=2)
def _collector(order: Order) -> Collector:
    """Return the collector for `order`, cached so that its worker pools serve many patterns."""
    from autosparse import _native

    def bench(pattern: Any, op: Any) -> Any:  # Any: see Collector's MakeBench
        return context_for(pattern, op, order.dtype)

    return Collector(order, bench, proposals, statistics_model, machine_facts(), _native.supports)


def measure(order: Order, recipe: Recipe, threads: int | None) -> Files:
    """Measure one pattern in this process, and return {operation: (file name, contents)}; `order.out` is ignored."""
    with (
        alone_on_this_machine(),
        tempfile.TemporaryDirectory(prefix="autosparse-collect-") as folder,
        options(threads=threads or Target.host().n_cores),
    ):
        collector = _collector(replace(order, ops=(), out=NOWHERE))
        collector.order = replace(order, out=Path(folder))
        made = {step.op: collector.path_of(step.recipe, step.op) for step in collector.run([recipe])}
        return {op.name: (path.name, path.read_bytes()) for op, path in made.items()}


@dataclass(slots=True)
class ClusterCollector:
    """Collector that runs an Order on the workers of `client`; each kind of machine measures all `recipes()`."""

    client: Client
    order: Order
    recipes: Callable[[], Iterable[Recipe]]
    threads: int | None = None  # of a kernel; None: all cores of the machine
    clock: Callable[[], float] = time.monotonic
    failed: list[Failed[Recipe]] = field(default_factory=list)  # patterns that `run` left out

    def run(self) -> Iterator[Written]:
        """Yield one Written per pattern and kind, until patterns or time end. Raises ConnectionError if no worker."""
        hand_out = HandOut(
            self.client, measure, self._stream, self._missing, self.threads, self.order.seconds, self.clock, self.failed
        )
        for done in hand_out.run():
            yield Written(done.kind, done.machine, done.job, self._write(done.kind, done.result))

    def _stream(self) -> Iterator[Recipe]:
        return itertools.islice(iter(self.recipes()), self.order.n_patterns)

    def _missing(self, kind: str, recipe: Recipe) -> tuple[Order, Recipe, int | None] | None:
        """Return arguments of `measure` for the operations not yet measured on this kind and pattern, or None."""
        if self.order.for_training and recipe.is_held_out:
            return None
        fitting = [op for op in self.order.ops if op.n_dims == recipe.n_dims]
        missing = tuple(op for op in fitting if not path_in(self.order.out / kind, recipe, op).exists())
        if not missing:
            return None
        return replace(self.order, ops=missing, seconds=float("inf"), n_patterns=None), recipe, self.threads

    def _write(self, kind: str, files: Files) -> list[Path]:
        return [written(self.order.out / kind / op / Path(name).name, text) for op, (name, text) in files.items()]
