"""Fixtures of the einsum tests."""

from __future__ import annotations

import pytest

from autosparse.contraction.routes import paid


@pytest.fixture
def kernels_at_once(monkeypatch):
    """Compile kernels at the first call, in the foreground, as if many runs had been announced."""
    monkeypatch.setattr(paid, "is_sure", lambda: True)
