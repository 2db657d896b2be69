"""Archives of raw measurements, and pages and plots made from summaries."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from peerlib import archives
from peerlib.archives import RESULTS, manifest, members, read_bytes, verify
from peerlib.records import ResultFile
from peerlib.slim import packed, slim, unpacked

from tests.conftest import REPOSITORY

TEXTS = ("gpu", "hybrid", "peers", "programs", "tiers")
LIMIT_BYTES = 500_000
MAX_FILES = 120


@pytest.mark.parametrize("kind", sorted(manifest()))
def test_archive_is_what_the_manifest_says(kind):
    assert verify(kind) == []
    if kind in TEXTS:
        folders = re.compile(rb"/(home|root|tmp|work)/")
        assert [name for name, content in members(kind).items() if folders.search(content)] == []


def test_raw_results_are_read_from_their_archive():
    path = RESULTS / "xeon480" / "totals.jsonl"
    assert not path.exists()
    assert len(ResultFile(path).cases()) == 64
    assert read_bytes(RESULTS / "no_such_file.jsonl") is None


def test_a_recorded_run_goes_on_where_the_archive_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "RESULTS", tmp_path)
    results = ResultFile(tmp_path / "gnn.jsonl")
    n_kept = len(list(results.lines()))
    assert n_kept > 0
    results.append({"kind": "case", "key": "new"})
    assert len(list(results.lines())) == n_kept + 1


def test_the_same_contents_give_the_same_archive(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "DATA", tmp_path)
    monkeypatch.setattr(archives, "MANIFEST", tmp_path / "MANIFEST.json")
    contents = {"a/x.jsonl": b"1" * 5000, "b.jsonl": b"2"}
    sizes = {archives.pack("kind", contents, command="none") for _ in range(2)}
    first = (tmp_path / "kind.tar.xz").read_bytes()
    archives.pack("kind", contents, command="none")
    assert sizes == {len(first)}
    assert (tmp_path / "kind.tar.xz").read_bytes() == first
    assert archives.verify("kind") == []
    assert archives.extract("kind", tmp_path / "out") == 2
    assert (tmp_path / "out" / "a" / "x.jsonl").read_bytes() == contents["a/x.jsonl"]
    archives.members.cache_clear()
    archives._manifest_once.cache_clear()


def test_summaries_keep_what_is_read():
    lines = [{"kind": "case", "times": {"a": 1.21356789, "b": 2.0}, "unread": "x" * 100}] * 5
    found = slim(lines, lambda given: [f"{one['times']['a']:.2f}" for one in given])
    assert found == [{"times": {"a": 1.214}}] * 5
    assert unpacked(packed(found)) == found
    assert unpacked(packed(lines)) == lines


def test_pages_and_plots_are_made_from_their_summaries(tmp_path: Path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("torch")
    import figures

    assert [one for name in figures.FIGURES for one in figures.outdated(name, tmp_path)] == []


def test_files_of_the_repository_are_small():
    """Weights and benchmarks/data are excluded by name, as in .pre-commit-config.yaml."""
    folder = REPOSITORY / "benchmarks" / "results"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) < MAX_FILES
    assert [path.name for path in files if path.stat().st_size > LIMIT_BYTES] == []
    raw = [path.name for path in files if path.suffix == ".jsonl" and path.name != "ledger.jsonl"]
    assert raw == [], "put recorded files into an archive: python benchmarks/archives.py add KIND FILE"
    assert json.loads(archives.MANIFEST.read_text(encoding="utf-8")) == manifest()


def test_outputs_go_to_build_without_the_record_option():
    import hybrid

    assert archives.output("x.jsonl", record=True) == RESULTS / "x.jsonl"
    assert archives.output("x.jsonl", record=False) == REPOSITORY / "build" / "benchmarks" / "x.jsonl"
    assert hybrid.arguments([]).json == REPOSITORY / "build" / "benchmarks" / "hybrid.jsonl"
    assert hybrid.arguments(["--record"]).json == hybrid.arguments(["--report"]).json == RESULTS / "hybrid.jsonl"
