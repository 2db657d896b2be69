"""Tests of alternating products with A and its transpose: both keep their own fast calls."""

from __future__ import annotations

import numpy as np
import pytest

import autosparse as asp
from autosparse.dispatch import executor, fast_path
from tests.tuning.forcing import close, make

pytestmark = [
    pytest.mark.usefixtures("untuned_with_early_entries"),
    pytest.mark.skipif(fast_path.make is None, reason="fast calls need the extension module"),
]


def test_both_directions_keep_their_fast_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make(57, 91)
    A = asp.csr(plain, copy=True)
    turned = A.T
    x, y = np.linspace(0, 1, 91, dtype=plain.dtype), np.linspace(1, 2, 57, dtype=plain.dtype)
    out_x, out_y = np.empty(57, plain.dtype), np.empty(91, plain.dtype)
    for _ in range(8):  # opens a fast call for each
        A @ x
        turned @ y
    led: list[object] = []
    monkeypatch.setattr(executor, "state_for", lambda *_: led.append("state"))
    monkeypatch.setattr(executor, "open_fast_path", lambda *_, **__: led.append("opened"))
    for _ in range(3):
        close(A @ x, plain @ x)
        close(turned @ y, plain.T @ y)
        close(asp.matmul(A, x, out=out_x), plain @ x)
        close(asp.matmul(turned, y, out=out_y), plain.T @ y)
    assert not led


def test_written_values_are_seen_in_both_directions() -> None:
    plain = make(57, 91)
    A = asp.csr(plain, copy=True)
    x, y = np.ones(91, plain.dtype), np.ones(57, plain.dtype)
    for _ in range(8):
        A @ x
        A.T @ y
    A.data[:] *= 2
    close(A @ x, 2 * (plain @ x))
    close(A.T @ y, 2 * (plain.T @ y))
    A.data[:] *= 2
    close(A.T @ y, 4 * (plain.T @ y))
    close(A @ x, 4 * (plain @ x))
