"""SciPy's tests of the functions of `scipy.sparse`, loaded with autosparse's objects in place of SciPy's."""

from __future__ import annotations

import importlib.util
import inspect
import types
from typing import Any

import pytest
import scipy.sparse as sps

import autosparse as asp


def over_our_functions(name: str) -> dict[str, Any]:
    """Return the tests that the module `name` of SciPy's tests defines, over autosparse's functions and classes.

    The module is executed again, in a copy of its own. Then each public name of `scipy.sparse` in its globals, and each
    such attribute of the module of constructors that it imports, refers to autosparse's object.
    """
    found = pytest.importorskip(name, reason="this SciPy was installed without its tests")
    spec = importlib.util.spec_from_file_location(f"{__name__}.{name.rpartition('.')[2]}", found.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__package__ = name.rpartition(".")[0]
    spec.loader.exec_module(module)
    for key, value in list(vars(module).items()):
        setattr(module, key, _ours(value))
    return {key: value for key, value in vars(module).items() if key.startswith(("Test", "test_"))}


def _ours(value: Any) -> Any:
    """Return autosparse's object in place of one of SciPy's public functions, classes and modules of functions."""
    if isinstance(value, types.ModuleType) and value.__name__.startswith("scipy.sparse._"):
        names = {name: _ours(one) for name, one in vars(value).items()}
        return types.SimpleNamespace(**names)
    is_public = inspect.isfunction(value) or inspect.isclass(value)
    if is_public and getattr(sps, value.__name__, None) is value:
        return getattr(asp, value.__name__)
    return value
