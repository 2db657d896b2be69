"""Tests of descriptions of targets, of the mapper and of the latent codes."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from autosparse.tuner.research.targets.accelerator import (
    ACCELERATORS,
    FOLDER,
    PARAMETERS,
    Configuration,
    accelerator_of,
)
from autosparse.tuner.research.targets.base import LOOPS, PARENTS
from autosparse.tuner.research.targets.gpu import Cpu, Gpu
from autosparse.tuner.research.targets.mapper import (
    LATENT_WIDTH,
    LatentTable,
    OneHotParts,
    PrincipalAxes,
    mapped,
    whole_order,
)
from hypothesis import given
from hypothesis import strategies as st

from autosparse import accelerators
from autosparse.core.formats import Format, Level, LevelKind
from autosparse.core.schedule import SuperSchedule
from autosparse.errors import RecordError, ScheduleError
from autosparse.gpu.schedule import DeviceSchedule, GpuPart

SPADE = accelerators.read("spade")


def facts(**changed):
    return {**json.loads((FOLDER / "spade.json").read_text(encoding="utf-8")), **changed}


def test_shipped_descriptions_are_read():
    assert len(SPADE.configurations) == 256
    for name in ACCELERATORS:
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
    with pytest.raises(FileNotFoundError, match=r"no accelerator(.|\n)*Hint: pass one of small, spade, wide"):
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


orders = st.sampled_from([("i2", "i1"), ("i2",), ()]).flatmap(lambda i: st.permutations([*i, "j2", "k2", "k1"]))


@given(order=orders)
def test_absent_loops_follow_their_parents(order):
    whole = whole_order(order)
    assert sorted(whole) == sorted(LOOPS)
    assert [name for name in whole if name in order] == list(order)
    assert whole.index("j1") == whole.index("j2") + 1
    assert whole.index("k3") == whole.index("k2") + 1
    if "i1" not in order:
        assert whole.index("i1") == whole.index(PARENTS["i1"]) + 1


def test_an_unknown_loop_is_refused():
    with pytest.raises(RecordError, match="loop_order"):
        whole_order(("i1", "x9"))


def test_mapped_rows_are_permutations_and_sizes():
    rows = mapped(SPADE, SPADE.configurations)
    assert rows.shape == (256, 53)
    matrices = rows[:, :49].reshape(-1, 7, 7)
    assert np.all(matrices.sum(axis=1) == 1)
    assert np.all(matrices.sum(axis=2) == 1)
    assert np.array_equal(rows[:, 52], np.zeros(256))
    # Together with the category, a row identifies the configuration.
    told = {(row.tobytes(), SPADE.heterogeneous(one)) for row, one in zip(rows, SPADE.configurations, strict=True)}
    assert len(told) == 256


def test_a_barrier_exchanges_the_loops_over_panels():
    pair = [Configuration(32, 1024, 32, barrier, 0, 0) for barrier in (0, 1)]
    without, with_one = mapped(SPADE, pair)[:, :49].reshape(2, 7, 7)
    changed = np.flatnonzero(np.any(without != with_one, axis=1))
    loops = {LOOPS[int(np.argmax(row))] for row in without[changed]}
    assert loops == {"i2", "j2"}
    assert np.array_equal(*(mapped(SPADE, pair)[:, 49:]))


def test_a_cpu_schedule_is_mapped():
    plain = SuperSchedule()
    levels = (
        Level("i1", LevelKind.UNCOMPRESSED),
        Level("k1", LevelKind.COMPRESSED),
        Level("i0", LevelKind.UNCOMPRESSED),
    )
    split = SuperSchedule(
        format=Format(levels, splits=(("i", 8),)), loop_order=("i1", "k1", "i0", "j1", "j0"), dense_splits=(("j", 16),)
    )
    assert Cpu().loop_order(plain) == ("i2", "j2")
    assert Cpu().sizes(plain) == (1, 1, 1, 1)
    assert Cpu().loop_order(split) == ("i2", "j2", "i1", "k2", "k1")
    assert Cpu().sizes(split) == (8, 1, 16, 1)
    assert mapped(Cpu(), [plain, split]).shape == (2, 53)
    assert Cpu().heterogeneous(plain) != Cpu().heterogeneous(split)


def test_a_device_schedule_is_mapped():
    rows = DeviceSchedule(
        operation="matmul", parts=(GpuPart(layout="rows", rows=4, step=8, split=512), GpuPart(layout="fill", rows=64)),
        tile=32, vector=4,
    )  # fmt: skip
    unrolled = replace(rows, parts=(replace(rows.parts[0], layout="unrolled"), rows.parts[1]))
    sampled = DeviceSchedule(operation="sddmm", parts=(GpuPart(layout="entries", rows=16),), tile=16)
    assert whole_order(Gpu().loop_order(rows)) == ("i2", "k2", "j2", "i1", "j1", "k1", "k3")
    assert whole_order(Gpu().loop_order(unrolled)) == ("i2", "k2", "j2", "j1", "i1", "k1", "k3")
    assert whole_order(Gpu().loop_order(replace(rows, panel=2)))[:3] == ("k2", "i2", "j2")
    assert whole_order(Gpu().loop_order(sampled)) == ("j2", "k2", "j1", "k1", "k3", "i2", "i1")
    assert mapped(Gpu(), [rows])[0, 49:].tolist() == [2, 3, 5, 2]
    assert Gpu().heterogeneous(rows) != Gpu().heterogeneous(replace(rows, warps=8))


def test_a_table_has_one_code_for_each_category():
    known = SPADE.categories()
    table = LatentTable(known)
    codes = table.codes(known)
    assert codes.shape == (4, LATENT_WIDTH)
    assert [table.category(code) for code in codes] == list(known)
    with pytest.raises(RecordError, match="category"):
        table.codes([(7, 7)])
    with pytest.raises(RecordError, match="categories"):
        LatentTable(tuple((n,) for n in range(65)))


def test_principal_axes_tell_categories_apart():
    known = list(itertools.product((0, 1), ("a", "b", "c"), (8, 16)))
    codes = PrincipalAxes.of(known).codes(known)
    rows = OneHotParts.of(known).rows(known)
    between = np.linalg.norm(codes[:, None] - codes[None], axis=2)
    assert np.allclose(between, np.linalg.norm(rows[:, None] - rows[None], axis=2), atol=1e-5)
    with pytest.raises(RecordError, match="category"):
        OneHotParts.of(known).rows([(2, "a", 8)])
