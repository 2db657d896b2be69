"""Space of MTTKRP schedules: orders and level kinds of the modes below the rows, tiles, unrolling, prefetching."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from autosparse.tuner.space import own
from autosparse.tuner.space.families import MAX_NARROW, tiles

from autosparse.core.formats import Format
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule

INDICES: Final = "iklmnop"
"""Index of the rows, then of the other modes in order; tensors with more modes keep the default kernel."""
MAX_ORDERS: Final = 6
"""Maximum number of mode orders tried: all for order 4; beyond that, those closest to the default order."""
UNROLL: Final = own.AXES["fibers"].unroll
FETCHED: Final = own.AXES["fibers"].prefetch


def members(problem: Problem, *, is_whole: bool) -> Iterator[SuperSchedule]:
    """Yield the MTTKRP schedules of `problem`: the whole space, or a few of every format unless `is_whole`."""
    widths = tiles(problem) or (0,)
    axes = itertools.product(UNROLL, FETCHED) if is_whole else ((1, 0), (2, 8))
    for (levels, bits), tile, (unroll, fetched) in itertools.product(
        _formats(problem), widths[: 3 if is_whole else 1], [*axes]
    ):
        order = [level.split(":")[0] for level in levels]
        yield SuperSchedule(
            operation=problem.operation,
            format=Format.parse(",".join(levels) + ("" if bits == 32 else f" | bits={bits}")),
            loop_order=(order[0], *(("j1",) if tile else ()), *order[1:], *(("j0",) if tile else ())),
            dense_splits=(("j", tile),) if tile else (),
            parallel="i1",
            unroll=unroll,
            prefetch=fetched,
        )


def _formats(problem: Problem) -> Iterator[tuple[list[str], int]]:
    """Yield (levels of a format, index bits): rows dense or compressed, other modes in several orders or flat."""
    shape, mode = problem.tensor.shape, problem.mode
    if len(shape) > len(INDICES):
        return
    others = [n for n in range(len(shape)) if n != mode]
    extents = {index: shape[n] for index, n in zip(INDICES, [mode, *others], strict=False)}
    index_of = dict(zip([mode, *others], INDICES, strict=False))
    few_nodes = [index_of[n] for n in problem.tensor.level_order(mode)[1:]]
    orders = list(itertools.islice(itertools.permutations(few_nodes), MAX_ORDERS))
    for order, kind in itertools.product(orders, "UC"):
        compressed = [extents[index] for index in order] + ([extents["i"]] if kind == "C" else [])
        bits = 16 if max(compressed) <= MAX_NARROW else 32
        yield [f"i1:{kind}", *(f"{index}1:C" for index in order)], bits
        if order == orders[0] and len(order) > 1:  # entry by entry, which pays where nodes have few children
            yield [f"i1:{kind}", f"{order[0]}1:N", *(f"{index}1:Q" for index in order[1:])], bits
