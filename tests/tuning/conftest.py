"""Fixtures of the tuning tests: a cache that keeps kernels but no plans, and a high limit for packed copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from autosparse._native.c import build

import autosparse as asp
from autosparse import cache
from autosparse.dispatch import executor, state
from autosparse.notices import forget_warnings
from autosparse.operands import csr
from autosparse.tuning.trials import context

if TYPE_CHECKING:
    from autosparse.dispatch.protocols import Serving


COMPILER_S: Final = 300.0
"""Minimum limit of a compilation, in seconds. On a busy machine a kernel may take longer than the library's limit."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use one cache folder for all tests here: kernels are kept; plans, histories and failures are forgotten."""
    monkeypatch.setattr(context, "MIN_LIMIT_S", COMPILER_S)
    monkeypatch.setattr(build, "COMPILE_LIMIT_S", COMPILER_S)
    folder = tmp_path_factory.getbasetemp() / "tuning-cache"
    with asp.options(cache_dir=folder, extra_memory=50.0):  # blocks of random matrices are mostly padding
        cache.open_store().forget(["plan", "failure"])
        forget_warnings()
        yield


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every tuning step affordable, whatever it costs and however fast products are."""
    from autosparse.tuning import live

    monkeypatch.setattr(live.LiveTuner, "_affordable", lambda *_: True)
    monkeypatch.setattr(state, "FIRST_STEP_S", 0.0)
    monkeypatch.setattr(state, "FIRST_IMPORT_S", 0.0)


@pytest.fixture
def tuned_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report products by tuned kernels to the tuner as ten times slower than others, on a machine of any load.

    The times that were measured are forgotten at each look, so that pauses end after a number of products: a product
    that takes long, because another process runs, would lengthen them.
    """
    from autosparse.tuning import live

    look = live.LiveTuner.look

    def told(self: live.LiveTuner, n_vecs: int, served_by: Serving | None, took_ns: int) -> None:
        self.state.product_ns, self.state.tuned_ns = self.state.n_calls, self.state.n_tuned
        look(self, n_vecs, served_by, 100_000 if served_by is None else 1_000_000)

    monkeypatch.setattr(live.LiveTuner, "look", told)


@pytest.fixture
def long_way(monkeypatch):
    """Return a list that grows by one element with every product that runs the Python dispatch code."""
    calls = []
    original = executor.matmul

    def counted(*args, **kwargs):
        calls.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(executor, "matmul", counted)
    return calls


@pytest.fixture
def untuned_with_early_entries(monkeypatch):
    monkeypatch.setattr(state, "FIRST_FAST_PATH", 2)
    monkeypatch.setattr(csr, "_BEGIN_NS", csr.NOT_SMALL_NS)  # no small products before states exist
    with asp.options(effort="off"):
        yield
