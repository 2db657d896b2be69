"""Tests that `autosparse.linalg` has every name of `scipy.sparse.linalg`, with our solvers where they exist."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse.linalg
from autosparse._native import python_objects, runtime_api

import autosparse as asp
from autosparse import linalg
from tests.scipy_versions import needs_recent

SUBMODULES = ("interface", "isolve", "eigen", "matfuncs", "dsolve", "_interface", "_isolve", "_isolve.iterative")
KRYLOV = ("cg", "cgs", "bicgstab", "minres")


def test_every_name_of_scipy_is_there() -> None:
    for name in scipy.sparse.linalg.__all__:
        found = getattr(linalg, name)
        if name not in linalg.OURS:
            assert found is getattr(scipy.sparse.linalg, name), name
    assert set(scipy.sparse.linalg.__all__) <= set(linalg.__all__) <= set(dir(linalg))
    assert linalg.LinearOperator is scipy.sparse.linalg.LinearOperator


def test_names_that_are_ours_are_functions_not_modules() -> None:
    script = "import autosparse.linalg as l\nassert all(callable(getattr(l, name)) for name in l.OURS), l.OURS"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_are_scipys_own(name: str) -> None:
    assert importlib.import_module(f"autosparse.linalg.{name}") is importlib.import_module(
        f"scipy.sparse.linalg.{name}"
    )


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'autosparse.linalg' has no attribute 'nonsense'"):
        _ = linalg.nonsense


@needs_recent
@pytest.mark.parametrize("name", KRYLOV)
def test_parameters_and_defaults_are_scipys(name: str) -> None:
    ours = inspect.signature(getattr(linalg, name)).parameters
    for parameter in inspect.signature(getattr(scipy.sparse.linalg, name)).parameters.values():
        assert ours[parameter.name].default == parameter.default
        assert ours[parameter.name].kind == parameter.kind


@pytest.mark.parametrize("name", KRYLOV)
def test_without_the_runtime_scipys_solvers_run(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(runtime_api, "available", False)
    monkeypatch.setattr(python_objects, "has_runtime", False)
    A, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    x, info = getattr(asp.linalg, name)(A, b)
    y, wanted = getattr(scipy.sparse.linalg, name)(A, b)
    assert info == wanted
    np.testing.assert_array_equal(x, y)
