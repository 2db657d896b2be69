"""Tests of the compile-time benchmark: schedules sampled for many patterns share few kernels."""

from __future__ import annotations

from pathlib import Path

import compile_time
import pytest
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.collect.sampling import KernelPool, Shares
from autosparse.tuner.research.space.waco import waco_space

from autosparse import _native

N_PATTERNS, N_SCHEDULES = 6, 50


@pytest.mark.parametrize("name", OPS)
def test_sampled_schedules_can_be_built_and_share_a_fixed_pool_of_kernels(name: str) -> None:
    """Check that sampled schedules can be built and share the kernels of a fixed pool; nothing is compiled.

    The number of kernels depends on the schedules that the model favours on this machine. The benchmark reports it, and
    tests/tuner/research/collect/test_pool.py tests it for one space.
    """
    op = OPS[name]
    asked = list(compile_time.drawn(op, n_patterns=N_PATTERNS, n_schedules=N_SCHEDULES, seed=1))
    assert 0.8 * N_PATTERNS * N_SCHEDULES <= len(asked) <= N_PATTERNS * N_SCHEDULES
    assert all(_native.supports(spec.operation, spec.schedule) is None for spec in asked)
    pool = KernelPool(waco_space(op.algorithm), compile_time.TEMPLATE_KERNELS, seed=1, supports=_native.supports)
    kernels = {one.as_compiled() for one in pool.members}
    assert len(kernels) <= compile_time.TEMPLATE_KERNELS
    n_shared = sum(spec.schedule.as_compiled() in kernels for spec in asked)
    assert n_shared >= N_PATTERNS * Shares.of(N_SCHEDULES).template * 0.8


def test_compile_times_are_taken_of_every_kernel_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "autosparse._native.kernels.implementations._loaded", {}
    )  # kernels of other tests would not be built again
    specs = {spec.key(): spec for spec in compile_time.drawn(OPS["spmv"], n_patterns=1, n_schedules=8, seed=3)}
    alone_s, together_s = compile_time.compile_times(list(specs.values())[:3], tmp_path)
    assert len(alone_s) == 2
    assert min(*alone_s, together_s) > 0
    assert len(list(tmp_path.rglob("kernel.so"))) == 3
