"""Construction of the graph of programs: base layer of an HNSW index (Malkov, Yashunin 2020) over L2 embeddings."""

from __future__ import annotations

import importlib
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.graph.search import ProgramGraph
from numpy.typing import NDArray

from autosparse.core.dtypes import Byte, HalfBits, Hash, NarrowIndex, NarrowReal, WideIndex, Word
from autosparse.errors import MissingExtraError

M: Final = 8
"""Number of neighbours per node on upper HNSW layers; twice as many on the base layer."""
EF_CONSTRUCTION: Final = 200
N_ENTRIES: Final = 32


def build_graph(embeddings: NDArray[np.floating[Any]], *, seed: int = 0) -> ProgramGraph:
    """Return the HNSW graph of programs with these embeddings, (n, width).

    Searches start at nodes of the upper layers, which HNSW selects at random. Raises MissingExtraError without
    hnswlib.
    """
    hnswlib = _hnswlib()
    n, width = embeddings.shape
    points = np.ascontiguousarray(embeddings, NarrowReal)
    index = hnswlib.Index(space="l2", dim=width)
    index.init_index(max_elements=max(1, n), ef_construction=EF_CONSTRUCTION, M=M, random_seed=seed + 100)
    if n:
        index.add_items(points, np.arange(n), num_threads=1)  # one thread, so that the graph is deterministic
    state: dict[str, Any] = index.__getstate__()[0]
    neighbours, place = _lowest_layer(state, n)
    levels = np.asarray(state["element_levels"])[:n]
    upper = place[np.argsort(-levels, kind="stable")][:N_ENTRIES]
    return ProgramGraph(neighbours, upper.astype(NarrowIndex))


def _lowest_layer(state: dict[str, Any], n: int) -> tuple[NDArray[NarrowIndex], NDArray[WideIndex]]:
    """Return the neighbours of each node, (n, 2 M), -1 for none, and the node of each internal number of hnswlib."""
    if n == 0:
        return np.zeros((0, 2 * M), NarrowIndex), np.zeros(0, WideIndex)
    rows = np.asarray(state["data_level0"], Byte).reshape(-1, int(state["size_data_per_element"]))[:n]
    start, most, at_label = int(state["offset_level0"]), int(state["max_M0"]), int(state["label_offset"])
    counts = np.ascontiguousarray(rows[:, start : start + 2]).view(HalfBits)[:, 0]
    links = np.ascontiguousarray(rows[:, start + 4 : start + 4 + 4 * most]).view(Word).astype(WideIndex)
    labels = np.ascontiguousarray(rows[:, at_label : at_label + 8]).view(Hash)[:, 0].astype(WideIndex)
    is_link = np.arange(most) < counts[:, None]
    found = np.full((n, most), -1, NarrowIndex)
    found[labels] = np.where(is_link, labels[np.where(is_link, links, 0)], -1)
    return found, labels


def _hnswlib() -> Any:  # Any: the optional module
    try:
        return importlib.import_module("hnswlib")
    except ModuleNotFoundError:
        raise MissingExtraError.needed("hnswlib", extra="train", purpose="building a graph of programs") from None
