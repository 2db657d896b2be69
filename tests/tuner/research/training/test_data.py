"""Tests of reading measurements as training cases: every schedule has a code, groups never cross the split."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tuner.research.training.samples import collection

from autosparse.errors import InputError, ScheduleError  # isort: skip
from autosparse.core.schedule import SuperSchedule  # isort: skip
from autosparse.core.target import Target  # isort: skip
from autosparse.tuner.research.collect.files import CENSORED, REFUSED, read  # isort: skip
from autosparse.tuner.research.collect.recipes import Recipe  # isort: skip
from autosparse.tuner.space.joint import ABSENT, JointSpace  # isort: skip
from autosparse.tuner.space.own import own_space  # isort: skip
from autosparse.tuner.research.training.data import TrainingCase, is_validation, read_data  # isort: skip
from autosparse.tuner.research.space.waco import waco_space  # isort: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return collection(tmp_path_factory.mktemp("data"), n_patterns=6)


@pytest.mark.parametrize("spaces", ["both", "own", "waco"])
def test_cases_hold_what_was_measured(folder, spaces):
    data = read_data(folder, "spmv", spaces=spaces)
    files = [read(path) for path in sorted((folder / "spmv").glob("*.npz"))]
    by_recipe = {case.recipe: case for case in data.cases}
    n_kept = 0
    for one in files:
        case = by_recipe[one.recipe]
        inside = [at for at in range(len(one.schedules)) if one["status"][at] != REFUSED and _inside(data, one, at)]
        n_kept += len(inside)
        np.testing.assert_array_equal(case.ratios, one["ratio"][inside])
        np.testing.assert_array_equal(case.censored, one["status"][inside] == CENSORED)
    assert n_kept == sum(len(case.codes) for case in data.cases)
    assert (data.n_outside == 0) == (spaces == "both")


def _inside(data, one, at):
    try:
        data.space.encode(SuperSchedule.from_json(one.schedules[at]))
    except ScheduleError:
        return False
    return True


def test_codes_tell_schedules_and_spaces_apart():
    own, waco = own_space("spmv", threads=(0, 1)), waco_space("spmv", threads=(1, 2))
    joint = JointSpace((own, waco))
    rng = np.random.default_rng(0)
    seen = {}
    for space in (own, waco) * 40:
        schedule = space.sample(rng)
        code = joint.encode(schedule)
        assert len(code) == len(joint.parameters)
        assert seen.setdefault(code, schedule) == schedule
        absent = [
            parameter.name.partition(".")[0]
            for parameter, value in zip(joint.parameters, code, strict=True)
            if value == -1 or (isinstance(value, tuple) and value[0] == -1)
            or (isinstance(value, int) and parameter.values[value] == ABSENT)
        ]  # fmt: skip
        other = waco if code[0] == 0 else own
        assert absent == [other.name] * len(other.parameters)


def test_groups_are_split_80_to_20_and_never_cross():
    groups = [f"group {n}" for n in range(2000)]
    share = np.mean([is_validation(group) for group in groups])
    assert 0.17 < share < 0.23
    codes, ratios = np.zeros((2, 1), np.int16), np.ones(2, np.float32)
    splits = {}
    for n, group in enumerate(groups):
        for kind in ("real", "repeated", "generated"):
            recipe = Recipe(kind=kind, source="x", group=group, seed=n)
            case = TrainingCase(recipe, codes, ratios, ratios > 1, 1.0)
            assert (case.split in ("held_out", "sealed")) == recipe.is_held_out
            if kind != "generated":
                assert splits.setdefault(group, case.split) == case.split
    assert set(splits.values()) == {"train", "validation", "held_out", "sealed"}


def test_more_data_is_other_data(folder, tmp_path):
    again = collection(tmp_path, n_patterns=6)
    more = collection(tmp_path / "more", n_patterns=7)
    digests = [read_data(one, "spmv").digest for one in (folder, again, more)]
    assert digests[0] == digests[1] != digests[2]


def test_folders_of_several_machines_are_one_data_set(folder, tmp_path):
    other = collection(tmp_path, n_patterns=3, seed=5)
    both = read_data([folder, other], "spmv")
    alone = [read_data(one, "spmv") for one in (folder, other)]
    assert [len(both.cases)] == [sum(len(one.cases) for one in alone)]
    assert {case.setting.target for case in both.cases} == {Target.host()}  # the file's facts have no target
    with pytest.raises(InputError, match=r"nothing', .*here"):
        read_data([tmp_path / "nothing", tmp_path / "here"], "spmv")


def test_no_measurements_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"collect --out .* --ops spmm32"):
        read_data(tmp_path, "spmm32")
