"""Tests of the mapper of configurations to 53 numbers, and of the latent codes, for three kinds of target."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from autosparse.tuner.research.targets.accelerator import Configuration
from hypothesis import given
from hypothesis import strategies as st
from paperlib.base import LOOPS, PARENTS
from paperlib.cpu import Cpu
from paperlib.gpu import Gpu
from paperlib.latent import LATENT_WIDTH, LatentTable, OneHotParts, PrincipalAxes
from paperlib.mapper import mapped, whole_order
from paperlib.tiled import Tiled

from autosparse import accelerators
from autosparse.core.formats import Format, Level, LevelKind
from autosparse.core.schedule import SuperSchedule
from autosparse.errors import RecordError
from autosparse.gpu.schedule import DeviceSchedule, GpuPart

SPADE = accelerators.read("spade")
TILED = Tiled(SPADE)


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
    rows = mapped(TILED, SPADE.configurations)
    assert rows.shape == (256, 53)
    matrices = rows[:, :49].reshape(-1, 7, 7)
    assert np.all(matrices.sum(axis=1) == 1)
    assert np.all(matrices.sum(axis=2) == 1)
    assert np.array_equal(rows[:, 52], np.zeros(256))
    # Together with the category, a row identifies the configuration.
    told = {(row.tobytes(), TILED.heterogeneous(one)) for row, one in zip(rows, SPADE.configurations, strict=True)}
    assert len(told) == 256


def test_a_barrier_exchanges_the_loops_over_panels():
    pair = [Configuration(32, 1024, 32, barrier, 0, 0) for barrier in (0, 1)]
    without, with_one = mapped(TILED, pair)[:, :49].reshape(2, 7, 7)
    changed = np.flatnonzero(np.any(without != with_one, axis=1))
    loops = {LOOPS[int(np.argmax(row))] for row in without[changed]}
    assert loops == {"i2", "j2"}
    assert np.array_equal(*(mapped(TILED, pair)[:, 49:]))


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
    known = TILED.categories()
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
