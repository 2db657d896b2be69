"""Mutated records of every kind, one per seed, and products that look them up.

Run as a program, it checks a range of seeds. A case passes if no product raises and every product is within rounding.
The compiler fails after MAX_KERNELS kernels: most mutants that are valid schedules differ only in what the code does
not depend on.
"""

from __future__ import annotations

import copy
import random
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sps
from autosparse.tuner.space import spaces

import autosparse as asp
from autosparse import cache
from autosparse.core.formats import PRESETS
from autosparse.core.plan import Candidate, Plan
from autosparse.core.solver import choice_of
from autosparse.dispatch.state import state_for
from autosparse.tuning import live
from autosparse.tuning.memory import history, plan_lookup
from autosparse.tuning.setup import context_of

MAX_KERNELS = 24
NASTY: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 8, 64, 1.5, -0.5, 2**31, 2**63, 2**70, -(2**70), 10**400, float("nan"), 1e308,
    float("inf"), float("-inf"), 5e-324, "", "x", "off", "full", "matmul", "sddmm", "mttkrp", "i1", "k1", "j0", "nnz",
    "dynamic", [], {}, [[]], {"a": 1}, ["i1"], ["j", 8], [["j", 32768]], [["j", 1024]], "\ud800",
    *(str(preset.format) for preset in PRESETS.values()),
    *(f"i1:U,k1:C | {setting}" for setting in (
        "values=bfloat16", "values=float16", "rows=rcm", "rows=degree", "bits=16", "bits=64", "i=4",
        "sigma=64", "k=99999999999999999999",
    )),
)  # fmt: skip


@dataclass
class World:
    """A product, its expected result, and the keys of the records for its problem."""

    name: str
    make: Callable[[], Any]  # makes an operand that has no plan yet
    product: Callable[[Any], np.ndarray]
    cell: Callable[[Any], Any]
    operation: str
    columns: int
    wanted: np.ndarray
    context: Any = None
    schedules: tuple[Any, ...] = ()

    def prepare(self) -> None:
        """Find the planner's context, from which the keys follow, and some valid schedules."""
        operand = self.cell(self.make())
        rows = operand if self.operation == "mttkrp" else operand.rows or operand.validate()
        self.kept = operand
        self.context = context_of(operand, state_for(operand, rows, self.columns, False, operation=self.operation))
        found = spaces.candidates(self.context.problem, self.context.supports)
        self.schedules = (None, *found[:: max(1, len(found) // 5)])

    def key(self, kind: str, rng: random.Random) -> str:
        """Return the key of a record of `kind` that products of this problem look up."""
        if kind == "plan":
            return plan_lookup.key_of(self.context).stable_hash()
        if kind == "failure":
            return str(self.context.spec(rng.choice(self.schedules[1:])).key())
        return self.context.stats.machine_key

    def record(self, kind: str, rng: random.Random) -> Any:
        """Return a valid record of `kind`."""
        if kind == "plan":
            schedule = rng.choice(self.schedules)
            times = {"predicted_s": 1e-5, "measured_s": 1e-5, "predicted_ratio": 0.5}
            others = tuple(Candidate(choice=choice_of(one), **times) for one in self.schedules[:2])
            made = Plan(
                choice=choice_of(schedule),
                why="w",
                effort="full",
                default_s=2e-5,
                tune_s=0.1,
                candidates=others,
                **times,
            )
            return cache.plan_to_record(made)
        if kind == "failure":
            return cache.Failure(reason="r", compiler="c", failed_at=1e9).to_record()
        tables = {"rates_s": {"pack": [1e-9, 3], "compile": [0.3, 2]}, "gains": {f"{self.operation}|8": [0.2, 4]}}
        return copy.deepcopy(tables)


def worlds() -> list[World]:
    values = np.random.default_rng(0)
    m = sps.random_array((48, 48), density=0.15, random_state=values, format="csr", dtype=np.float32)
    m = sps.csr_array(m + m.T)
    B, x = values.standard_normal((48, 8)).astype(np.float32), values.standard_normal(48).astype(np.float32)
    X, Y = values.standard_normal((48, 8)).astype(np.float32), values.standard_normal((8, 48)).astype(np.float32)
    coords = values.integers(0, 12, (3, 90))
    entries = values.standard_normal(90)
    factors = [values.standard_normal((12, 8)) for _ in range(3)]

    def matrix() -> Any:
        return asp.csr(m.copy())

    T = np.zeros((12, 12, 12))
    np.add.at(T, tuple(coords), entries)
    M = np.einsum("ikl,kj,lj->ij", T, factors[1], factors[2])
    made = [
        World("spmm", matrix, lambda A: A @ B, lambda A: A._cell, "matmul", 8, m @ B),
        World("spmv", matrix, lambda A: A @ x, lambda A: A._cell, "matmul", 1, m @ x),
        World(
            "sddmm", matrix, lambda A: asp.sddmm(A, X, Y).data, lambda A: A._cell, "sddmm", 8,
            m.multiply(X @ Y).tocsr().data,
        ),
        World(
            "mttkrp", lambda: asp.tensor(coords, entries, (12, 12, 12)), lambda one: asp.mttkrp(one, factors, 0),
            lambda one: one._unfolding(0), "mttkrp", 8, M,
        ),
    ]  # fmt: skip
    for world in made:
        world.prepare()
    return made


def plant(kind: str, key: str, record: Any) -> None:
    """Make `record` the only record in the cache."""
    store = cache.open_store()
    store.clear() if store.cache_folder is None else store._memory.forget()
    if isinstance(record, dict):
        store.save(kind, key, record)
    history._tuning_stats.pop(store, None)


def is_adopted(world: World, schedule: Any) -> bool:
    """Return whether an undamaged plan with this schedule serves one of the first eight products."""
    plan = Plan(choice=choice_of(schedule), why="w", effort="full", default_s=2e-5, measured_s=1e-5, tune_s=0.1)
    plant("plan", world.key("plan", random.Random(0)), cache.plan_to_record(plan))
    operand = world.make()
    for _ in range(8):
        world.product(operand)
        if any(state.serving is not None for state in world.cell(operand).dispatcher.states.values()):
            return True
    return False


def mutated(record: Any, rng: random.Random) -> Any:
    """Return `record` with one to four of its values replaced, changed or dropped."""
    record = copy.deepcopy(record)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        record = _changed(record, rng)
    return record


def _changed(node: Any, rng: random.Random) -> Any:
    if isinstance(node, (dict, list)) and node and rng.random() < 0.93:
        at = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        if rng.random() < 0.05:
            del node[at]
        else:
            node[at] = _changed(node[at], rng)
        return node
    if isinstance(node, str) and "|" in node and rng.random() < 0.5:
        return node + rng.choice((" | bits=16", " | values=bfloat16", ",k=3", " | symmetric=1", " | rows=first", "0"))
    if isinstance(node, int) and rng.random() < 0.3:
        return node * rng.choice((2, -1, 3, 2**40))
    return copy.deepcopy(rng.choice(NASTY))


def check(seed: int, known: list[World]) -> bool:
    """Store the record of `seed`, compute, and return whether a tuned kernel served in the end."""
    rng = random.Random(seed)
    world = rng.choice(known)
    kind = rng.choice(("plan", "plan", "plan", "machine", "failure"))
    record = mutated(world.record(kind, rng), rng)
    plant(kind, world.key(kind, rng), record)
    operand = world.make()
    bound = 3e-4 * max(1.0, float(np.abs(world.wanted).max()))
    for _ in range(8):
        got = world.product(operand)
        assert got.shape == world.wanted.shape
        assert float(np.abs(got - world.wanted).max()) <= bound, (world.name, kind, record)
    if rng.random() < 0.02:
        columns = {"columns": world.columns, "effort": "estimate", "budget_s": 0.1}
        operand.tune(world.operation, **columns)
        assert float(np.abs(world.product(operand) - world.wanted).max()) <= bound
    dispatcher = world.cell(operand).dispatcher
    return any(state.serving is not None for state in dispatcher.states.values())


def refusing_compiler(folder: Path) -> str:
    """Return the path of a compiler that fails after MAX_KERNELS kernels."""
    path = folder / "cc"
    real = shutil.which("cc") or "cc"
    path.write_text(
        f'#!/bin/sh\nn=$(cat "{folder}/n" 2>/dev/null || echo 0)\n[ "$n" -lt {MAX_KERNELS} ] || exit 1\n'
        f'echo $((n + 1)) > "{folder}/n"\nexec {real} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def main(folder: Path, first: int, n: int) -> None:
    """Print the number of cases in which a tuned kernel served in the end."""
    warnings.simplefilter("ignore")
    n_served = 0
    live.WAIT_S = 600.0  # waits for a compiler on a busy machine
    settings = {"runs": 10**7, "overhead": 1.0, "effort": "estimate", "budget_s": 1e6, "extra_memory": 100}
    with asp.options(cache=False, compiler=refusing_compiler(folder), **settings):
        known = worlds()
        for world in known:  # otherwise no plan is read, and the cases test nothing
            assert is_adopted(world, world.schedules[1]), world.name
            assert not is_adopted(world, None), world.name
        for seed in range(first, first + n):
            (folder / "seed").write_text(str(seed))
            n_served += check(seed, known)
    print(n_served)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
