"""What every test of torch shares: our kernels also serve products that are few, or would be left to PyTorch's."""

from __future__ import annotations

import pytest


@pytest.fixture
def tiny_product(monkeypatch):
    """Set the number of multiplications below which PyTorch is asked."""
    pytest.importorskip("torch")
    from autosparse.torch import thresholds

    return lambda n: monkeypatch.setattr(thresholds, "PYTORCH_PRODUCT", n)


@pytest.fixture
def builtin(monkeypatch):
    """The builtins for few multiplications, as they are without these fixtures; whether they are asked."""
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
