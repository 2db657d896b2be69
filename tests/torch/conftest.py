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
def builtin():
    """Return a function that lets the C++ module compute small products, or leaves them to Python.

    The module computes again after the test.
    """
    pytest.importorskip("torch")
    from autosparse.torch.dispatcher import extension

    library = extension.library

    def ask(*, yes: bool) -> None:
        if library is not None:
            library.compute(yes)
        elif yes:
            pytest.skip("the C++ module for PyTorch is not built")

    yield ask
    if library is not None:
        library.compute(True)


@pytest.fixture(autouse=True)
def nothing_is_tiny(tiny_product, builtin):
    tiny_product(0)
    builtin(yes=False)
