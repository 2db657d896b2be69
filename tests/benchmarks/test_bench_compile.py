"""Kernels stay few: schedules that are sampled for many patterns share them."""

from __future__ import annotations

from pathlib import Path

import compile_time
import pytest
from autosparse.tuner.collect.operations import OPS

from autosparse import _native

N_PATTERNS, N_SCHEDULES = 50, 100
SEEDS = (0, 1, 2)


@pytest.mark.parametrize("name", OPS)
def test_100_schedules_of_50_patterns_need_at_most_one_kernel_per_five_pairs(name: str) -> None:
    """Counted by their keys, on generated patterns, in the mean of three draws; nothing is compiled."""
    draws = [list(compile_time.drawn(OPS[name], n_patterns=N_PATTERNS, n_schedules=N_SCHEDULES, seed=n)) for n in SEEDS]
    for asked in draws:
        assert 0.9 * N_PATTERNS * N_SCHEDULES <= len(asked) <= N_PATTERNS * N_SCHEDULES
        assert all(_native.supports(spec.operation, spec.schedule) is None for spec in asked)
    n_kernels = [len({spec.key() for spec in asked}) for asked in draws]
    assert sum(n_kernels) <= sum(map(len, draws)) / 5
    assert min(n_kernels) > N_SCHEDULES  # of many kernels nevertheless


def test_compile_times_are_taken_of_every_kernel_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosparse._native.backend._loaded", {})  # what another test has built is not built again
    specs = {spec.key(): spec for spec in compile_time.drawn(OPS["spmv"], n_patterns=1, n_schedules=8, seed=3)}
    alone_s, together_s = compile_time.compile_times(list(specs.values())[:3], tmp_path)
    assert len(alone_s) == 2
    assert min(*alone_s, together_s) > 0
    assert len(list(tmp_path.rglob("kernel.so"))) == 3
