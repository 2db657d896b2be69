"""Tests of the rows of networks of `benchmarks/transfer.py`: a row trains only the source models that it reads."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from transferlib import dash_runs, world
from transferlib.report import labelled


class Lines:
    """File of results in memory."""

    def __init__(self):
        self.rows = []

    def has(self, method, k, draw):
        return (method, k, draw) in self.rows

    def add(self, method, k, draw, found):
        self.rows.append((method, k, draw.seed))


def trained(monkeypatch, rows):
    """Run `rows` without training; return the names of the models that would be trained, and the lines."""
    named, lines = [], Lines()

    def pretrained(*args, names: object, **more):
        named.extend(names)
        return SimpleNamespace(models=dict.fromkeys(names), programs=None, costs=lambda *args: [])

    monkeypatch.setattr(dash_runs, "draws", lambda world, n: [SimpleNamespace(seed=at) for at in range(n)])
    monkeypatch.setattr(dash_runs, "extracted", lambda kind: Path())
    monkeypatch.setattr(dash_runs, "cpu_patterns", lambda *args: [])
    monkeypatch.setattr(dash_runs, "target_programs", lambda *args: None)
    monkeypatch.setattr(dash_runs, "pretrained", pretrained)
    for name in ("untrained", "tuned_whole"):
        monkeypatch.setattr(dash_runs, name, lambda *args, **more: [])
    monkeypatch.setattr(dash_runs, "score", lambda world, costs: None)
    given = argparse.Namespace(draws=2, rows=rows, quick=False, patterns=300, matrices=Path(), kept=Path())
    world = SimpleNamespace(operation="spmm")
    dash_runs.run_networks(world, [], given, lines, lambda text: None, sampled=(5,))
    return named, lines.rows


def test_a_network_without_transfer_needs_no_source(monkeypatch):
    names, rows = trained(monkeypatch, ["DASH, no transfer"])
    assert names == []
    assert rows == [("DASH, no transfer", 5, 0), ("DASH, no transfer", 5, 1)]


def test_only_wanted_sources_are_trained(monkeypatch):
    names, rows = trained(monkeypatch, ["WACO+FA"])
    assert names == ["WACO+FA"]
    assert rows == [("WACO+FA", 5, 0), ("WACO+FA", 5, 1)]


def test_all_layers_read_the_whole_network(monkeypatch):
    names, rows = trained(monkeypatch, [dash_runs.PAPERS])
    assert names == ["DASH"]
    assert rows == [(dash_runs.PAPERS, 5, 0), (dash_runs.PAPERS, 5, 1)]


def test_names_give_the_number_of_source_patterns_where_there_is_a_source():
    lines = [{"method": name, "patterns": n} for name, n in (("DASH", 300), ("DASH", 100), ("DASH, no transfer", 100))]
    assert [one["method"] for one in labelled(lines)] == ["DASH", "DASH (100)", "DASH, no transfer"]


def test_a_score_has_the_speedups_of_single_matrices():
    each = np.arange(6)
    times = [np.array([4.0, 1.0, 2.0, 8.0, 4.0, 4.0]), np.array([4.0, 8.0, 2.0, 1.0, 4.0, 4.0])]
    judged = [SimpleNamespace(times=one, same=each, distinct=each) for one in times]
    found = world.score(SimpleNamespace(judged=judged, default=0), [times[0], times[0]])
    assert (found.least, found.most, found.slower) == (0.5, 4.0, 0.5)
    assert found.top1 == pytest.approx(2**0.5)
