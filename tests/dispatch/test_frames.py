"""Tests of the number of Python functions that a product calls, which bounds its overhead."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from autosparse._native import runtime_api

import autosparse as asp
from autosparse.dispatch import fast_path
from autosparse.dispatch import state as states
from autosparse.operands.mutation_guard import calibrated_counts
from tests.tuning.forcing import dense, force, make, schedule_of, state_of

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


def frames(product: Callable[[], object]) -> list[str]:
    """Return the names of the package's Python functions that run during `product`."""
    names: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "autosparse" in frame.f_globals.get("__name__", ""):
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        product()
    finally:
        sys.setprofile(None)
    return names


def without_options(product: Callable[[], object]) -> list[str]:
    """Return the fewest functions that one of 20 products calls, without `decisive_options`.

    `decisive_options` reads a context variable.
    """
    found = [frames(product) for _ in range(20)]
    return [name for name in min(found, key=len) if name != "decisive_options"]


needs_fast_path = pytest.mark.skipif(fast_path.make is None, reason="no reference counts to trust here")


@needs_fast_path
@pytest.mark.parametrize("columns", [1, 8])
def test_a_steady_product_passes_three_functions(columns: int, untuned_with_early_entries: None) -> None:
    plain = make(300, 200)
    A, B = asp.csr(plain, copy=True), dense(plain, columns)
    for _ in range(8):
        A @ B
    assert A._cell.fast_path is not None
    found = without_options(lambda: A @ B)
    assert len(found) <= 3, found


@needs_fast_path
@pytest.mark.skipif(calibrated_counts() is None, reason="no reference counts to trust here")
def test_a_steady_product_by_a_kernel_with_a_packed_copy_passes_five_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "FIRST_FAST_PATH", 2)
    plain = make(300, 200)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    trial = force(A, schedule_of("blocks", 8), columns=8)
    state = state_of(A, 8)
    for _ in range(40):
        A @ B
    state.commit()
    n_before = state.n_tuned
    found = without_options(lambda: A @ B)
    state.commit()
    assert trial.packed_copy is not None
    assert state.n_tuned > n_before, "the tuned kernel did not serve"
    assert len(found) <= 5, found
