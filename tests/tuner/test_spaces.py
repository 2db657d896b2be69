"""Tests of the spaces: problems of one outline get the same schedules, and no arrays are kept alive."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import numpy as np
import pytest
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels.precompiled import is_ready
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.space import spaces
from autosparse.tuner.space.own import own_space

from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target


def sampled(n: int) -> Problem:
    pattern = Pattern(n, n, np.arange(n + 1, dtype=np.int32), np.arange(n, dtype=np.int32))
    return Problem(
        operation="sddmm", pattern=pattern, transposed=False, n_dense_cols=32, dtype="float32", threads=2,
        deterministic=False, target=Target.host(),
    )  # fmt: skip


def all_can_be_lowered(operation, schedule):
    return None


def test_problems_of_one_outline_share_their_schedules_and_no_pattern_is_kept():
    problem = sampled(40)
    found = spaces.candidates(problem, all_can_be_lowered)
    assert found
    assert spaces.candidates(sampled(40), all_can_be_lowered) is found
    pattern = weakref.ref(problem.pattern)
    del problem
    gc.collect()
    assert pattern() is None


@pytest.mark.parametrize("shape", [(300, 200), (300, 90_000), (90_000, 300), (9, 8, 7), (9, 7, 90_000), (90_000, 8, 7)])
@pytest.mark.parametrize("n_columns", [1, 16, 48, 256])
def test_candidates_of_a_search_have_codes(shape, n_columns):
    """Check that learned models can encode every tiled candidate but the runtime's own kernels."""
    algorithm = "sddmm" if len(shape) == 2 else "mttkrp"
    pattern = Coordinates.of(shape, [np.zeros(1, np.int64)] * len(shape)).to_structure()
    problem = dataclasses.replace(sampled(2), operation=algorithm, pattern=pattern, n_dense_cols=n_columns)
    space = own_space(algorithm)
    outside = [one for one in spaces.everything(problem, all_can_be_lowered) if not space.contains(one)]
    tiled = [one for one in outside if one.dense_splits]  # schedules of vectors have no tiles
    assert all(is_ready(KernelSpec(algorithm, one, "float32", "int32", "avx2")) for one in tiled), (
        "only what the runtime has is proposed by the cost model alone"
    )


def test_few_spaces_are_remembered():
    for n in range(2, spaces.MAX_KNOWN + 10):
        spaces.candidates(sampled(n), all_can_be_lowered)
    assert len(spaces._known) <= spaces.MAX_KNOWN


def test_schedules_with_other_storage_are_made_once_and_not_told_by_hashing(monkeypatch):
    """Check that schedules are not hashed again: hashing a space takes as long as ranking it."""
    problem = dataclasses.replace(sampled(40), operation="matmul", n_dense_cols=1, storage="numbered")
    found = spaces.candidates(problem, all_can_be_lowered)
    assert any(one.format.values == "numbered" for one in found)
    n_hashed = 0
    plain = SuperSchedule.__hash__

    def counted(one: SuperSchedule) -> int:
        nonlocal n_hashed
        n_hashed += 1
        return plain(one)

    monkeypatch.setattr(SuperSchedule, "__hash__", counted)
    assert spaces.candidates(dataclasses.replace(problem), all_can_be_lowered) is found
    assert n_hashed == 0
