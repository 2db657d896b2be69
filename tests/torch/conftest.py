"""What every test of torch shares: our kernels also serve products that would be left to PyTorch's."""

from __future__ import annotations

import pytest


@pytest.fixture
def tiny_product(monkeypatch):
    """Set the number of multiplications below which PyTorch is asked."""
    pytest.importorskip("torch")
    from autosparse.torch import theirs

    return lambda n: monkeypatch.setattr(theirs, "TINY_PRODUCT", n)


@pytest.fixture(autouse=True)
def nothing_is_tiny(tiny_product):
    tiny_product(0)
