"""Collector that measures recipes and operations until time or recipes end, and skips finished measurements."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from autosparse.tuner.analytic.matmul import CostModel
from autosparse.tuner.research.collect.batches import QUIET_LOAD, Batches, Load, wait_for_quiet
from autosparse.tuner.research.collect.files import MEASURED, Measurements, write
from autosparse.tuner.research.collect.operations import Op
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.research.collect.sampling import KernelPool, Shares, first_draw, neighbourhood
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.research.space.waco import waco_space
from autosparse.tuner.space.own import own_space
from autosparse.tuner.space.spaces import everything
from autosparse.tuner.space.template import Supports

from autosparse.core.dtypes import WideIndex
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.log import event
from autosparse.scalar import SINGLE

if TYPE_CHECKING:
    from autosparse.tuning.trials.context import TuningContext

N_BEST: Final = 3
"""Number of fastest schedules whose neighbours are measured at the end."""
DUTY_PATIENCE: Final = 2
"""Maximum number of repetitions of a batch that other processes disturbed, with `duty`."""


OUTLINES: Final[Mapping[int, Sequence[tuple[int, ...]]]] = {
    2: ((1, 1 << 15), (1, 1 << 20), (1 << 17, 1 << 20)),
    3: ((1, 2, 3), (1, 3, 2), (1, 2, 1 << 20), (1, 1 << 20, 2)),
}
"""Number of dimensions -> shapes that together have nearly all schedules.

They cover 16- and 32-bit coordinates, and either mode as the longer one.
"""


def path_in(folder: Path, recipe: Recipe, op: Op) -> Path:
    """Return the path in `folder` of the measurements of `op` on the pattern of `recipe`."""
    source = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(recipe.source).stem)[:40]
    return folder / op.name / f"{recipe.kind}-{source}-{recipe.digest()}.npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Order to a `Collector`: what to measure, where to write the measurements, and when to stop."""

    out: Path
    ops: Sequence[Op]
    dtype: str = SINGLE.name
    folder: Path | None = None  # folder of real matrices
    seed: int = 0
    n_schedules: int = 64
    n_template_kernels: int = 400
    n_patterns: int | None = None  # maximum number of recipes, including finished ones
    seconds: float = float("inf")
    pair_s: float = 10.0  # seconds after which no new batch of a (pattern, operation) starts
    duty: bool = False  # wait until the machine is quiet, and repeat disturbed batches
    n_proposed: int = 0  # proposals of the learned model in addition to n_schedules
    for_training: bool = False  # leave out patterns that training may not use


@dataclass(frozen=True, slots=True)
class Step:
    """Progress of a `Collector` after it has measured one operation on one pattern."""

    op: Op
    recipe: Recipe
    nnz: int
    n_times: int
    took_s: float
    n_pairs: int  # (pattern, operation) pairs measured by this run
    n_found: int  # pairs measured earlier
    elapsed_s: float
    left_s: float  # estimated seconds until the order ends
    best_ratio: float


@dataclass(slots=True)
class Collector:
    """Collector that runs an Order.

    `make_bench` provides kernels, `proposals` the learned model's best schedules and `model_of` the analytic model.
    """

    order: Order
    make_bench: Callable[[Coordinates, Op], Any]  # Any: a context manager of TuningContext
    proposals: Callable[[Any, int], Sequence[SuperSchedule]]  # of a TuningContext, so many
    model_of: Callable[[Problem], CostModel]
    machine: Mapping[str, Any]
    supports: Supports  # returns why no kernel can be made of a schedule
    clock: Callable[[], float] = time.monotonic
    _began_s: float = 0.0
    _n_pairs: int = 0
    _n_found: int = 0
    _pools: dict[str, KernelPool] = field(default_factory=dict)

    def run(self, recipes: Iterable[Recipe]) -> Iterator[Step]:
        """Measure all recipes, yielding one Step per (pattern, operation)."""
        self._began_s = self.clock()
        for at, recipe in enumerate(itertools.islice(recipes, self.order.n_patterns)):
            if self._is_late():
                return
            if self.order.for_training and recipe.is_held_out:
                continue
            waiting = [op for op in self.order.ops if op.n_dims == recipe.n_dims and not self._is_done(recipe, op)]
            self._n_found += sum(op.n_dims == recipe.n_dims for op in self.order.ops) - len(waiting)
            if not waiting:
                continue
            try:
                pattern = recipe.make(self.order.folder)
            except (OSError, ValueError, KeyError) as err:
                event("tune", f"a pattern is left out: {err}", source=recipe.source)
                continue
            for op in waiting:
                if self._is_late():
                    return
                if op.fits(pattern.shape, self.order.dtype) and pattern.nnz:
                    yield self._measure(recipe, pattern, op, at)

    def kernels_ahead(self, op: Op) -> list[SuperSchedule]:
        """Return schedules of `op` whose kernels most patterns need, to be compiled before measurements."""
        found = dict.fromkeys(self._pool(op).members)
        for shape in OUTLINES[op.n_dims]:
            corner = Coordinates.of(shape, [np.zeros(1, WideIndex)] * op.n_dims)
            with self.make_bench(corner, op) as bench:
                found |= dict.fromkeys(everything(bench.problem, bench.supports))
        return list(found)

    def _is_late(self) -> bool:
        return self.clock() - self._began_s >= self.order.seconds

    def path_of(self, recipe: Recipe, op: Op) -> Path:
        """Return the path of the measurements of `recipe`."""
        return path_in(self.order.out, recipe, op)

    def _is_done(self, recipe: Recipe, op: Op) -> bool:
        return self.path_of(recipe, op).exists()

    def _measure(self, recipe: Recipe, pattern: Coordinates, op: Op, at: int) -> Step:
        start_s = self.clock()
        with self.make_bench(pattern, op) as bench:
            batches = self._batches(bench)
            until_s = batches.clock() + self.order.pair_s
            rng = np.random.default_rng([self.order.seed, int(recipe.digest(), 16), len(op.name), op.n_dense_cols])
            shares = Shares.of(self.order.n_schedules)
            problem = bench.problem
            pool = self._pool(op)
            drawn = first_draw(
                problem, bench.supports, self.model_of(problem), rng=rng, shares=shares, template=pool.sample,
                proposed=self.proposals(bench, self.order.n_proposed),
            )  # fmt: skip
            batches.run(drawn, until_s=until_s)
            near = neighbourhood(
                problem,
                bench.supports,
                batches.best(N_BEST),
                drawn,
                n=shares.neighbours,
                rng=rng,
                homes=[own_space(op.algorithm), pool.space],
            )
            batches.run(near, until_s=until_s)
            self._write(recipe, pattern, op, batches, problem)
        took_s = self.clock() - start_s
        self._n_pairs += 1
        best = min((one.ratio for one in batches.timings if one.status == MEASURED), default=float("nan"))
        return Step(
            op=op, recipe=recipe, nnz=pattern.nnz, n_times=len(batches.timings), took_s=took_s, n_pairs=self._n_pairs,
            n_found=self._n_found, elapsed_s=self.clock() - self._began_s, left_s=self._left_s(at), best_ratio=best,
        )  # fmt: skip

    def _pool(self, op: Op) -> KernelPool:
        """Return the kernels drawn from WACO's template for `op`; all patterns share them to save compilations."""
        if op.algorithm not in self._pools:
            space = waco_space(op.algorithm)
            self._pools[op.algorithm] = KernelPool(
                space, self.order.n_template_kernels, seed=self.order.seed, supports=self.supports
            )
        return self._pools[op.algorithm]

    def _batches(self, bench: TuningContext) -> Batches:
        if not self.order.duty:
            return Batches(bench)

        def wait() -> None:
            wait_for_quiet(most_load=QUIET_LOAD, until_s=self._began_s + self.order.seconds, clock=self.clock)

        return Batches(bench, patience=DUTY_PATIENCE if Load.now() else 0, before_batch=wait)

    def _left_s(self, at: int) -> float:
        """Return the estimated seconds until the order ends, `at` being the number of the present recipe.

        The time limit and the mean time per recipe so far decide.
        """
        spent_s = self.clock() - self._began_s
        by_time_s = self.order.seconds - spent_s
        if self.order.n_patterns is None:
            return max(0.0, by_time_s)
        n_left = self.order.n_patterns - at - 1
        per_recipe = len(self.order.ops) / len({op.n_dims for op in self.order.ops})
        return max(0.0, min(by_time_s, n_left * per_recipe * spent_s / max(1, self._n_pairs)))

    def _write(self, recipe: Recipe, pattern: Coordinates, op: Op, batches: Batches, problem: Problem) -> None:
        columns, batch_columns = batches.columns()
        facts = {
            "op": op.name,
            "operation": op.operation,
            "n_dense_cols": op.n_dense_cols,
            "dtype": self.order.dtype,
            "threads": problem.threads,
            "recipe": asdict(recipe),
            "held_out": recipe.is_held_out,
            "shape": list(pattern.shape),
            "nnz": pattern.nnz,
            "sparsity_hash": problem.pattern.sparsity_hash,
            "seed": self.order.seed,
            "measured_at": int(time.time()),
            "machine": dict(self.machine),
        }
        schedules = [one.schedule.to_json() for one in batches.timings]
        write(self.path_of(recipe, op), Measurements(facts, schedules, columns, batch_columns))
