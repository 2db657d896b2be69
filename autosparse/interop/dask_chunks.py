"""Registration with Dask, which then treats autosparse matrices as sparse matrices.

Dask tests whether the module of a type is `scipy.sparse`, and has no table for other types. Importing this module
replaces two functions of Dask by functions that also accept autosparse classes. All other objects go to Dask's own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from dask import utils
from dask.array import utils as array_utils

from autosparse.arrays.family import AutoSparseMatrix


def _accepting(is_arraylike: Callable[[Any], bool]) -> Callable[[Any], bool]:
    @functools.wraps(is_arraylike)
    def accepts(x: Any) -> bool:
        return isinstance(x, AutoSparseMatrix) or is_arraylike(x)

    return accepts


def _converting(like_safe: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(like_safe)
    def convert(np_func: Any, da_func: Any, a: Any, like: Any, **how: Any) -> Any:
        if not isinstance(like, AutoSparseMatrix) or hasattr(like, "__array_function__"):
            return like_safe(np_func, da_func, a, like, **how)
        how.pop("order", None)
        return type(like)(np.array([[a]]) if np.isscalar(a) else a, **how)

    return convert


def _replace(name: str, old: Any, new: Any) -> None:
    """Replace `old` by `new` in Dask's own modules, which import it by name."""
    for module in [one for key, one in list(sys.modules.items()) if key.split(".")[0] == "dask"]:
        if vars(module).get(name) is old:
            setattr(module, name, new)


def _register() -> None:
    _replace("is_arraylike", utils.is_arraylike, _accepting(utils.is_arraylike))
    like_safe = getattr(array_utils, "_array_like_safe", None)
    if like_safe is not None:
        _replace("_array_like_safe", like_safe, _converting(like_safe))


_register()
