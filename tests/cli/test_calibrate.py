"""Tests of the command `calibrate`: it stores the machine's rates once, writes them to a folder, and removes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from autosparse.cache import Store

import autosparse as asp
from autosparse.cli import main
from autosparse.core.target import Target
from autosparse.tuning.rates import record
from autosparse.tuning.rates.scaling import references


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Target]:
    """Record the targets that are measured, and store the shipped rates instead of timing them."""
    asked = list[Target]()

    def measure(target: Target, store: Store, *, limit_s: float | None = None) -> record.Record:
        asked.append(target)
        threads = record.machine_threads()
        content = {**references()[0].to_data(), "threads": threads, "measured_at": 0.0}
        store.save(record.KIND, record.key_of(target, threads), content)
        return content

    monkeypatch.setattr(record, "measure", measure)
    return asked


def test_rates_are_measured_once_and_removed(
    tmp_path: Path, measured: list[Target], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with asp.options(cache_dir=tmp_path / "cache"):
        for arguments in ([], ["--out", str(out)]):
            assert main(["calibrate", *arguments]) == 0
            assert "10^9 per second: " in capsys.readouterr().out
        assert len(measured) == 1
        assert record.ProbedRates.of_data(json.loads((out / "rates.json").read_text(encoding="utf-8")))
        assert main(["calibrate", "--undo", "--out", str(out)]) == 0
        assert f"removed from the cache and {out}" in capsys.readouterr().out
        assert not (out / "rates.json").exists()
        assert main(["calibrate", "--undo"]) == 0
        assert "nothing to undo" in capsys.readouterr().out


def test_a_cache_in_memory_needs_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with asp.options(cache=False):
        assert main(["calibrate"]) != 0
    assert "--out DIR" in capsys.readouterr().err
