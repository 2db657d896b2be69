"""Tests of the graph of programs: built by hnswlib, kept as arrays, searched with any cost."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse.tuner.research.graph import ProgramGraph, best_first, exhaustive
from autosparse.tuner.research.graph.build import build_graph

N = 3_000


def points(n: int = N, width: int = 16) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, width)).astype(np.float32)


def ring(n: int, degree: int = 2) -> np.ndarray:
    """Return a connected graph that links each node with `degree` // 2 nodes on either side."""
    steps = [step for k in range(1, degree // 2 + 1) for step in (-k, k)]
    return ((np.arange(n)[:, None] + steps) % n).astype(np.int32)


def graph_of(embeddings: np.ndarray) -> ProgramGraph:
    pytest.importorskip("hnswlib")
    return build_graph(embeddings)


def smooth_cost(embeddings: np.ndarray, seed: int):
    """Return a cost function like a predictor, a small network on the embedding, and the list of ids asked for."""
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal((embeddings.shape[1], 32)), rng.standard_normal(32)
    costs = (np.maximum(embeddings @ first, 0) @ second).astype(np.float32)
    asked: list[int] = []

    def score(ids):
        asked.extend(ids.tolist())
        return costs[ids]

    return score, costs, asked


def test_lists_are_the_ones_that_hnswlib_keeps():
    """Check that most true nearest neighbours are found, no node is its own neighbour, and all can be reached."""
    data = points()
    graph = graph_of(data)
    assert graph.neighbours.shape == (N, 16)
    assert not np.any(graph.neighbours == np.arange(N)[:, None])
    hits = 0
    for node in range(0, N, 100):
        nearest = np.argsort(((data - data[node]) ** 2).sum(axis=1))[1:3]
        hits += len(set(nearest.tolist()) & set(graph.neighbours[node].tolist()))
    assert hits > 0.8 * 60, "the two nearest are neighbours; HNSW leaves out others that lie behind them"
    reached = best_first(graph.neighbours, lambda ids: np.zeros(ids.size, np.float32), graph.entries, beam=N)
    assert reached.n_scored > 0.99 * N


def test_building_again_gives_the_same_graph():
    one, two = graph_of(points(400)), graph_of(points(400))
    assert np.array_equal(one.neighbours, two.neighbours)
    assert np.array_equal(one.entries, two.entries)


def test_search_finds_nearly_the_best_with_few_looks():
    data = points()
    graph = graph_of(data)
    found_ranks, shares = [], []
    for seed in range(20):
        score, costs, asked = smooth_cost(data, seed)
        found = best_first(graph.neighbours, score, graph.entries, n_best=10)
        assert len(set(asked)) == len(asked) == found.n_scored, "nobody is asked about twice"
        assert np.array_equal(found.costs, np.sort(found.costs))
        assert np.array_equal(costs[found.ids], found.costs)
        found_ranks.append(int((costs < found.costs[0]).sum()))
        shares.append(found.n_scored / N)
    assert np.median(found_ranks) == 0, "the very best of 3,000, mostly"
    assert np.mean(shares) < 0.4


def test_trace_falls_and_ends_with_the_best():
    data = points(500)
    score, _, _ = smooth_cost(data, 1)
    found = best_first(ring(500, 8), score, np.array([3, 250], np.int32), n_best=5)
    scored, best = zip(*found.trace, strict=True)
    assert list(scored) == sorted(scored)
    assert list(best) == sorted(best, reverse=True)
    assert best[-1] == found.costs[0]
    assert scored[-1] == found.n_scored


@pytest.mark.parametrize("most", [1, 10, 100])
def test_budget_bounds_the_looks(most):
    score, _, asked = smooth_cost(points(500), 2)
    best_first(ring(500, 8), score, np.arange(0, 500, 50, dtype=np.int32), most=most)
    assert len(asked) <= most + 8 * 8


@pytest.mark.parametrize("n_best", [1, 7, 600])
def test_exhaustive_search_is_sorting(n_best):
    score, costs, _ = smooth_cost(points(500), 3)
    found = exhaustive(500, score, n_best=n_best)
    assert np.array_equal(found.costs, np.sort(costs)[:n_best])
    assert np.array_equal(costs[found.ids], found.costs)


def test_a_beam_of_everything_is_exhaustive():
    score, costs, _ = smooth_cost(points(300), 4)
    found = best_first(ring(300), score, np.array([0], np.int32), n_best=10, beam=300)
    assert np.array_equal(found.costs, np.sort(costs)[:10])


def test_lonely_nodes_and_empty_graphs_are_searched():
    lonely = np.full((3, 4), -1, np.int32)
    found = best_first(lonely, lambda ids: ids.astype(np.float32), np.array([2], np.int32))
    assert found.ids.tolist() == [2]
    empty = best_first(np.zeros((0, 4), np.int32), lambda ids: ids.astype(np.float32), np.zeros(0, np.int32))
    assert empty.ids.size == 0
    assert empty.n_scored == 0


def test_arrays_give_back_the_graph():
    graph = ProgramGraph(ring(5), np.array([1], np.int32))
    arrays = graph.tensors()
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.int16)}
    again = ProgramGraph.of(arrays)
    assert again is not None
    assert np.array_equal(again.neighbours, graph.neighbours)
    assert np.array_equal(again.entries, graph.entries)
    assert ProgramGraph.of({"portfolio": np.zeros((5, 1))}) is None
    assert ProgramGraph(ring(40_000), np.array([1], np.int32)).tensors()["graph.neighbours"].dtype == np.int32


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"neighbours": np.array([[7]] * 5, np.int32)}, "neighbours outside"),
        ({"entries": np.array([5], np.int32)}, "entries outside"),
        ({"entries": np.zeros(0, np.int32)}, "no entries"),
    ],
)
def test_broken_graphs_are_refused(change, reason):
    whole = {"neighbours": ring(5), "entries": np.array([0], np.int32)}
    with pytest.raises(ValueError, match=reason):
        ProgramGraph(**{**whole, **change})


def test_the_ten_nearest_are_those_that_hnswlib_finds():
    """Compare the search by distance as the cost with hnswlib's own search of the index that the graph is part of."""
    hnswlib = pytest.importorskip("hnswlib")
    data = points()
    graph = graph_of(data)
    index = hnswlib.Index(space="l2", dim=data.shape[1])
    index.init_index(max_elements=N, ef_construction=200, M=8, random_seed=100)
    index.add_items(data, np.arange(N), num_threads=1)
    index.set_ef(64)
    asked = np.random.default_rng(1).standard_normal((20, data.shape[1])).astype(np.float32)
    theirs, _ = index.knn_query(asked, k=10, num_threads=1)
    same = 0
    for query, near in zip(asked, theirs, strict=True):
        distances = ((data - query) ** 2).sum(axis=1)
        found = best_first(graph.neighbours, lambda ids, costs=distances: costs[ids], graph.entries, n_best=10)
        same += len(set(found.ids.tolist()) & set(near.tolist()))
    assert same >= 0.9 * asked.shape[0] * 10
