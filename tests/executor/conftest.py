"""Every test of this folder: plans of its own, kernels shared by the folder, room for any packed copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import autosparse as asp
from autosparse import cache, executor, operand
from autosparse.engine import slot
from autosparse.notices import forget_warnings


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels are shared by the tests of this module, plans are not."""
    folder = tmp_path_factory.getbasetemp() / "executor-cache"
    with asp.options(cache_dir=folder, extra_memory=50.0):  # blocks of random matrices are mostly padding
        cache.open_store().forget(["plan", "history", "failure"])
        forget_warnings()
        yield


@pytest.fixture
def long_way(monkeypatch):
    """How many products went the long way."""
    calls = []
    original = executor.matmul

    def counted(*args, **kwargs):
        calls.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(executor, "matmul", counted)
    return calls


@pytest.fixture
def untuned_with_early_entries(monkeypatch):
    monkeypatch.setattr(slot, "FIRST_ENTRY", 2)
    monkeypatch.setattr(operand, "_BEGIN_NS", operand.NOT_FEW_NS)  # no products before there are slots
    with asp.options(effort="off"):
        yield
