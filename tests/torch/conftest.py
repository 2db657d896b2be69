"""Fixtures of the torch tests: kernels of autosparse serve small products too, which are otherwise PyTorch's."""

from __future__ import annotations

import pytest


@pytest.fixture
def tiny_product(monkeypatch):
    """Return a function that sets the number of multiplications below which PyTorch computes a product."""
    pytest.importorskip("torch")
    from autosparse.torch import thresholds

    return lambda n: monkeypatch.setattr(thresholds, "PYTORCH_PRODUCT", n)


@pytest.fixture
def builtin(monkeypatch):
    """Return a function that turns the builtins for small products on or off."""
    pytest.importorskip("torch")
    from autosparse.torch.dispatcher import small_operands

    made = small_operands.matrix, small_operands.vector

    def ask(*, yes: bool) -> None:
        for name, one in zip(("matrix", "vector"), made, strict=True):
            monkeypatch.setattr(small_operands, name, one if yes else small_operands.none)

    return ask


@pytest.fixture(autouse=True)
def nothing_is_tiny(tiny_product, builtin):
    tiny_product(0)
    builtin(yes=False)
