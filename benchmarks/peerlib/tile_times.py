"""Measured time of greedy plans, whose operators run one after the other, each by a generated kernel.

A plan assigns each entry to an operator. Here the entries of one operator form a matrix of their own, in blocks or in
CSR; the first operator writes C and the others add to it. Runs of rows (ELL) have no kernel, so their entries are
stored in CSR. All compared plans are computed in this way, so they differ only in the assignment of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from autosparse import _native, cache, config
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from peerlib.timing import Protocol, take_turns

Array = Any  # np.ndarray
Run = Callable[[], None]

WIDEST: Final = 64
"""Maximum number of columns of a tile."""


def schedule_of(r: int, c: int, columns: int) -> SuperSchedule:
    """Return loops over blocks of r x c cells (1 x 1: CSR), with tiled columns."""
    inner = [f"{name}0" for name, size in (("i", r), ("k", c)) if size > 1]
    splits = ",".join(f"{name}={size}" for name, size in (("i", r), ("k", c)) if size > 1)
    levels = ",".join(["i1:U", "k1:C", *(f"{name}:U" for name in inner)])
    return SuperSchedule(
        format=Format.parse(f"{levels} | {splits}" if splits else levels),
        loop_order=("i1", "j1", "k1", *inner, "j0"),
        dense_splits=(("j", min(WIDEST, columns)),),
    )


def entries_of(pattern: Pattern, chosen: Array) -> Pattern:
    """Return the pattern of the entries selected by the (nnz,) booleans."""
    rows = np.repeat(np.arange(pattern.n_rows), pattern.row_lengths)[chosen]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=pattern.n_rows))])
    return Pattern(*pattern.shape, indptr.astype(pattern.indptr.dtype), pattern.indices[: pattern.nnz][chosen])


def layers(plan: Any) -> dict[tuple[int, int], Array]:  # Any: a TilePlan
    """Return booleans of the entries that are stored in blocks, by block shape (r, c).

    Shape (1, 1) is CSR. It comes first, because the first layer writes C.
    """
    found: dict[tuple[int, int], Array] = {}
    for at, operator in enumerate(plan.operators):
        chosen = plan.owner == at
        if chosen.any():
            shape = (operator.r, operator.c) if operator.family == "block" else (1, 1)
            found[shape] = found.get(shape, False) | chosen
    return dict(sorted(found.items()))


def product(A: Any, plan: Any, columns: int) -> tuple[Run, Array, Array]:
    """Return a function that computes ``C = A @ B`` as planned on one thread in float32, and the arrays B and C."""
    pattern, values = Pattern(*A.shape, A.indptr, A.indices), np.asarray(A.data, np.float32)
    rng = np.random.default_rng(0)
    B = rng.standard_normal((A.shape[1], columns)).astype(np.float32)
    C = np.empty((A.shape[0], columns), np.float32)
    calls = []
    for at, ((r, c), chosen) in enumerate(layers(plan).items()):
        schedule = schedule_of(r, c, columns)
        part = entries_of(pattern, chosen)
        spec = _native.KernelSpec("matmul", schedule, "float32", pattern.index_dtype, Target.host().isa, adds=at > 0)
        kernel = _native.build(spec, store=cache.open_store(), compiler=config.get_options().compiler)
        packed = _native.pack(part, values[chosen], schedule.format, transposed=False)
        calls.append(kernel.bind(packed).run)

    def run() -> None:
        for call in calls:
            call(B.ctypes.data, columns, C.ctypes.data, columns, columns, 1)

    return run, B, C


def times_s(A: Any, plans: Mapping[str, Any], columns: int, protocol: Protocol) -> dict[str, float]:
    """Return median seconds of a product by plan, all in alternation; plans that store alike are timed once."""
    alike: dict[tuple[Any, ...], str] = {}
    first_of = {}
    for name, plan in plans.items():
        key = tuple((shape, chosen.tobytes()) for shape, chosen in layers(plan).items())
        first_of[name] = alike.setdefault(key, name)
    runs = {name: product(A, plans[name], columns)[0] for name in dict.fromkeys(first_of.values())}
    timings = take_turns(runs, protocol)
    return {name: timings[first].median_s for name, first in first_of.items()}
