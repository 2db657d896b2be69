"""Fixtures of the torch tests: kernels in Python serve small products too, which are otherwise the C++ module's."""

from __future__ import annotations

import pytest


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
def python_computes(builtin):
    builtin(yes=False)
