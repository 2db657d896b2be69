"""Tests of descriptions of accelerators."""

from __future__ import annotations

import json

import pytest
from autosparse.tuner.research.targets.accelerator import FOLDER, PARAMETERS, SHIPPED, accelerator_of

from autosparse import accelerators
from autosparse.errors import RecordError, ScheduleError

SPADE = accelerators.read("spade")


def facts(**changed):
    return {**json.loads((FOLDER / "spade.json").read_text(encoding="utf-8")), **changed}


def test_shipped_descriptions_are_read():
    assert len(SPADE.configurations) == 256
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(SHIPPED)
    for name in SHIPPED:
        target = accelerators.read(name)
        assert target.name == name
        assert target.machine is not None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": ""}, "name"), ({"default": {}}, "default"), ({"machine": {"n_pes": 1}}, "machine"),
        ({"parameters": {"p_row": [1]}}, "parameters"), ({"colour": 1}, "colour"), ({"n_columns": 0}, "n_columns"),
        ({"machine": {**facts()["machine"], "n_pes": 0}}, "n_pes"),
        ({"machine": {**facts()["machine"], "dram_bytes_per_cycle": 0}}, "dram_bytes_per_cycle"),
        ({"parameters": {**facts()["parameters"], "barrier": [0, 2]}}, "barrier"),
        ({"parameters": {**facts()["parameters"], "p_row": [4, 4]}}, "p_row"),
        ({"default": {**facts()["default"], "p_row": 5}}, "default"),
    ],
)  # fmt: skip
def test_a_broken_description_names_its_field(changed, said):
    with pytest.raises(RecordError, match=said):
        accelerator_of(facts(**changed))


def test_files_are_descriptions(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(facts(name="mine", machine=None)), encoding="utf-8")
    assert accelerators.read(str(path)).machine is None
    path.write_text("{", encoding="utf-8")
    with pytest.raises(RecordError, match="no JSON"):
        accelerators.read(str(path))
    with pytest.raises(FileNotFoundError, match=r"no accelerator(.|\n)*Hint: one of small, spade, wide"):
        accelerators.read(str(tmp_path / "none.json"))


def test_configurations_are_found_by_their_values():
    for number, one in enumerate(SPADE.configurations):
        assert SPADE.find(dict(zip(PARAMETERS, one.values, strict=True))) == number
    assert "p_col=all" in SPADE.to_text(SPADE.find(facts()["default"]))
    with pytest.raises(ScheduleError, match="p_row"):
        SPADE.find({**facts()["default"], "p_row": 5})


def test_canonical_programs_are_few_and_stay_themselves():
    same = SPADE.distinct(100, 500)
    assert len(set(same)) == 2 * 1 * 2 * 4 + 1 * 2 * 4  # p_row 4, 32 and all; one column panel; two splits; two bits
    for number in set(same):
        one = SPADE.configurations[number].canonical(100, 500, 64)
        assert one.canonical(100, 500, 64) == one
