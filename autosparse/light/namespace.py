"""Functions of `scipy.sparse` as the package offers them: their sparse results are autosparse's, in SciPy's format.

Most functions run SciPy's own code in a copy of their module's globals, in which the names of SciPy's classes refer to
autosparse's. Such a function takes no more time than SciPy's, and its warnings name the caller's line. The others take
the class of their result from an argument or from the package `scipy.sparse`, or are unknown to this module: they are
SciPy's functions with the result converted (`formats.as_ours`).
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, Final

import scipy.sparse as sps

NAMING_CLASSES: Final = frozenset({
    "block_array", "block_diag", "bmat", "diags", "diags_array", "eye", "eye_array", "hstack", "identity", "kron",
    "kronsum", "rand", "random", "random_array", "spdiags", "tril", "triu", "vstack",
})  # fmt: skip
"""Functions of `scipy.sparse` that make their results by names of classes in the globals of their module."""

WITHOUT_SPARSE_RESULT: Final = frozenset(
    {"find", "get_index_dtype", "issparse", "safely_cast_index_arrays", "save_npz"}
    | {name for name in sps.__all__ if name.startswith("isspmatrix")}
)
"""Functions of `scipy.sparse` that return no sparse object and are offered unchanged."""

Function = Callable[..., Any]  # Any: arguments and results of SciPy's functions


def offered(name: str) -> Any:
    """Return the object that the package offers under the name `name` of `scipy.sparse`."""
    value = getattr(sps, name)
    if inspect.isclass(value) and name.endswith(("_array", "_matrix")):
        return _formats().OF_SCIPYS.get(value, value)
    if not inspect.isfunction(value) or name in WITHOUT_SPARSE_RESULT:
        return value
    known = name in NAMING_CLASSES
    function = _over_our_classes(sys.modules[value.__module__])[name] if known else _with_our_results(value)
    function.__module__ = "autosparse"  # where pickles find it
    return function


def _formats() -> Any:
    """Return the module of classes, which a program that only calls `issparse` does not need."""
    from autosparse.light import formats

    return formats


def _with_our_results(function: Function) -> Function:
    """Return `function` with its sparse results in autosparse's classes."""
    as_ours = _formats().as_ours

    @functools.wraps(function)
    def call(*arguments: Any, **how: Any) -> Any:
        return as_ours(function(*arguments, **how))

    return call


@functools.cache
def _over_our_classes(module: types.ModuleType) -> dict[str, Function]:
    """Return the functions of a SciPy module by name, with autosparse's classes in the place of SciPy's."""
    return over(module, {kind.__name__: kind for kind in _formats().OF_SCIPYS.values()})


def over(module: types.ModuleType, replaced: dict[str, Any]) -> dict[str, Function]:  # Any: classes and functions
    """Return the functions of a SciPy module by name, over copies of its globals with the objects `replaced`."""
    scope = dict(vars(module))
    made = {name: _in_scope(value, vars(module), scope) for name, value in scope.items() if _belongs(value, module)}
    scope |= replaced | made
    return made


def _belongs(value: Any, module: types.ModuleType) -> bool:
    """Return whether `value` is a function that is defined in `module`, possibly under a decorator."""
    return inspect.isfunction(value) and value.__module__ == module.__name__


def _in_scope(function: Any, scipys: dict[str, Any], scope: dict[str, Any]) -> Function:
    """Return a copy of `function` in which it, or the function under its decorator, has the globals `scope`."""
    cells = function.__closure__ and tuple(
        types.CellType(_in_scope(held, scipys, scope)) if getattr(held, "__globals__", None) is scipys else cell
        for cell, held in ((cell, cell.cell_contents) for cell in function.__closure__)
    )
    names = scope if function.__globals__ is scipys else function.__globals__
    made = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(made, function)
