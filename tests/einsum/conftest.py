"""What tests of einsum share."""

from __future__ import annotations

import pytest

from autosparse.contraction.routes import paid


@pytest.fixture
def kernels_at_once(monkeypatch):
    """Kernels are compiled at the first call, in the foreground, as where many runs are promised."""
    monkeypatch.setattr(paid, "is_sure", lambda: True)
