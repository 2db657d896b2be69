"""Tests of the rows of operations: thin, and apart from the values by which plans are chosen."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from autosparse._native.kernels import identity
from autosparse.tuner.search.style import acceptance_ratio

from autosparse.ops import OPS
from autosparse.ops.base import Operation
from autosparse.targets import priors
from tests.tuner.test_tuner_search import make_problem

MAX_FIELDS = 14


def test_rows_of_operations_stay_thin() -> None:
    assert len(dataclasses.fields(Operation)) <= MAX_FIELDS, "what engines need belongs to `Tuning`"


def test_an_edited_prior_changes_decisions_and_keeps_compiled_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = json.loads(priors.PRIORS.read_text(encoding="utf-8"))
    edited["values"]["matmul"]["error of statistics"]["value"]["1"] = 0.5
    edited["values"]["matmul"]["measured gain"]["value"]["1"] = 0.9
    file = tmp_path / "priors.json"
    file.write_text(json.dumps(edited), encoding="utf-8")
    read = list[Path]()
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or read_bytes(path))  # type: ignore[func-returns-value]
    before = {name: identity.code_digest.__wrapped__(name) for name in identity.EMITTERS}
    narrow = dataclasses.replace(make_problem(), n_dense_cols=1, threads=1)
    plain = acceptance_ratio(narrow, is_learned=False)
    caches = (priors._sets, priors._set, priors.table, priors.number)
    monkeypatch.setattr(priors, "PRIORS", file)
    try:
        for cache in caches:
            cache.cache_clear()
        assert acceptance_ratio(narrow, is_learned=False) == math.exp(-0.5) != plain
        assert OPS["matmul"].tuning.measured_gain(1) == 0.9
        assert {name: identity.code_digest.__wrapped__(name) for name in identity.EMITTERS} == before
    finally:
        for cache in caches:
            cache.cache_clear()
    folders = {path.parent for path in read}
    assert not {priors.PRIORS.parent, Path(priors.__file__).parent} & folders
    assert not [folder for folder in folders if folder.name == "tuned"], "rows of tuning do not determine code"


def test_every_value_has_its_origin() -> None:
    paths = (priors.FIRST_LOOK, priors.PRIORS, priors.POLICY)
    files = [json.loads(file.read_text(encoding="utf-8"))["values"] for file in paths]
    sets = {name: rows for file in files for name, rows in file.items()}
    assert len(sets) == sum(map(len, files)), "a set belongs to one file"
    for name, rows in sets.items():
        for row, found in rows.items():
            assert {"value", "source", "machine", "date", "command"} <= set(found), f"{name}, {row}"
    assert {one.tuning.priors for one in OPS.values()} - {""} <= set(sets)
