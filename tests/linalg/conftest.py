"""Fixture of the solvers' tests."""

from __future__ import annotations

import pytest

from autosparse.linalg import block_eigenvalues


@pytest.fixture(autouse=True)
def small_blocks_in_our_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lobpcg compute small blocks itself, as it does large ones."""
    monkeypatch.setattr(block_eigenvalues, "MIN_ELEMENTS", 0)
