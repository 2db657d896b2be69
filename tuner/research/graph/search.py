"""Best-first search on a graph with any cost function (WACO section 4.2.2, after Tan et al., KDD 2020).

The graph is built by L2 distance between embeddings and searched by predicted cost. Costs are computed in batches,
since a predictor takes about as long for thirty programs as for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse.tuner.learned.weights import LearnedWeights
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, NarrowIndex, NarrowReal, NativeIndex, ProgramCode
from autosparse.errors import RecordError

NEIGHBOURS: Final = "graph.neighbours"
ENTRIES: Final = "graph.entries"
"""Names of the arrays in a model file; a node is a row of the file's portfolio."""


@dataclass(frozen=True, eq=False)
class ProgramGraph:
    """Graph of the programs of a model's portfolio: the neighbours of each, and the nodes at which searches start.

    Raises ValueError for numbers of nodes that do not exist.
    """

    neighbours: NDArray[NarrowIndex] = field(repr=False)  # (n, degree), -1: none
    entries: NDArray[NarrowIndex] = field(repr=False)

    def __post_init__(self) -> None:
        n = len(self)
        for name, ids, low in (("neighbours", self.neighbours, -1), ("entries", self.entries, 0)):
            if ids.size and (int(ids.min()) < low or int(ids.max()) >= n):
                raise ValueError(f"graph of programs: {name} outside {low} .. {n - 1}")
        if n and not self.entries.size:
            raise ValueError(f"graph of programs: no entries to {n} nodes")

    def __len__(self) -> int:
        return len(self.neighbours)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a model file, in the smallest integers that hold the numbers of nodes."""
        kind = ProgramCode if len(self) <= np.iinfo(ProgramCode).max else NarrowIndex
        return {NEIGHBOURS: self.neighbours.astype(kind), ENTRIES: self.entries.astype(kind)}

    @classmethod
    def of(cls, tensors: Mapping[str, NDArray[Any]]) -> ProgramGraph | None:
        """Read the result of `tensors()`; None for a model without a graph."""
        if NEIGHBOURS not in tensors:
            return None
        return cls(np.asarray(tensors[NEIGHBOURS], NarrowIndex), np.asarray(tensors[ENTRIES], NarrowIndex))


Ids = NDArray[NarrowIndex]
Costs = NDArray[NarrowReal]
Score = Callable[[Ids], Costs]
"""Function that returns the predicted costs of nodes, (n,) for ids (n,)."""

BEAM: Final = 64
BATCH: Final = 8
"""Number of nodes expanded at once."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a search: the best nodes by ascending cost.

    `trace` holds (nodes scored so far, best cost so far) during the search.
    """

    ids: Ids
    costs: Costs
    n_scored: int
    trace: tuple[tuple[int, float], ...] = field(repr=False)


def best_first(
    neighbours: Ids, score: Score, entries: Ids, *, n_best: int = 10, beam: int = BEAM, most: int | None = None
) -> Found:
    """Return the `n_best` nodes of lowest cost found by walking the graph from the nodes `entries`.

    `neighbours` is (n, degree), -1 where a node has fewer. The `beam` best nodes so far are expanded until all of
    them are, or until `most` nodes were scored (the last batch may exceed it).
    """
    n_nodes = len(neighbours)
    beam = max(beam, n_best)
    limit = n_nodes if most is None else most
    seen = np.zeros(n_nodes, Flag)
    fresh = np.unique(entries[:limit])
    ids, costs = np.zeros(0, NarrowIndex), np.zeros(0, NarrowReal)
    is_open = np.zeros(0, Flag)
    n_scored, trace = 0, []
    while fresh.size:
        seen[fresh] = True
        n_scored += fresh.size
        ids = np.concatenate([ids, fresh])
        costs = np.concatenate([costs, score(fresh)])
        is_open = np.concatenate([is_open, np.ones(fresh.size, Flag)])
        kept = _smallest(costs, beam)
        ids, costs, is_open = ids[kept], costs[kept], is_open[kept]
        trace.append((n_scored, float(costs[0])))
        fresh = np.zeros(0, NarrowIndex)
        while n_scored < limit and not fresh.size and is_open.any():
            chosen = np.flatnonzero(is_open)[:BATCH]
            is_open[chosen] = False
            around = np.unique(neighbours[ids[chosen]])
            fresh = around[(around >= 0) & ~seen[around]]
    return Found(ids[:n_best], costs[:n_best], n_scored, tuple(trace))


def search_of(weights: LearnedWeights, n_programs: int) -> Callable[[Score, int], tuple[list[tuple[int, float]], int]]:
    """Return the search on the graph of a model file, which returns (number, cost) of programs and how many it scored.

    Raises RecordError for a graph of another number of programs.
    """
    try:
        graph = ProgramGraph.of(weights.tensors)
    except (ValueError, KeyError) as error:
        raise RecordError.broken(f"graph of {weights.op}", reason=str(error)) from error
    if graph is None or len(graph) != n_programs:
        reason = f"it has {len(graph or ())} nodes for {n_programs} programs"
        raise RecordError.broken(f"graph of {weights.op}", reason=reason)

    def search(costs: Score, n: int) -> tuple[list[tuple[int, float]], int]:
        found = best_first(graph.neighbours, costs, graph.entries, n_best=n, beam=n)
        return list(zip(found.ids.tolist(), found.costs.tolist(), strict=True)), found.n_scored

    return search


def exhaustive(n_nodes: int, score: Score, *, n_best: int = 10) -> Found:
    """Return the `n_best` nodes of lowest cost, after scoring all `n_nodes` nodes."""
    ids = np.arange(n_nodes, dtype=NarrowIndex)
    costs = score(ids)
    kept = _smallest(costs, n_best)
    best = float(costs[kept[0]]) if kept.size else float("inf")
    return Found(ids[kept], costs[kept], n_nodes, ((n_nodes, best),))


def _smallest(costs: Costs, n: int) -> NDArray[NativeIndex]:
    """Return the positions of the `n` lowest costs, ascending (stable)."""
    if costs.size <= 4 * n:
        return np.argsort(costs, kind="stable")[:n]
    near = np.sort(np.argpartition(costs, n)[: n + 1])
    return near[np.argsort(costs[near], kind="stable")][:n]
