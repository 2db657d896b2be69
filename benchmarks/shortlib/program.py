"""Registration of short programs: a function with a docstring, and a function that makes its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse
from programlib.program import Inputs, Program
from programlib.program import csr as load

__all__ = ["PROGRAMS", "Inputs", "is_ours", "load", "short"]

PROGRAMS: Final[dict[str, Program]] = {}
"""All short programs by name. Each function gets the library (`scipy.sparse` or `autosparse`) and its inputs."""


def short(make: Callable[[], Inputs], rtol: float = 1e-6) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function under its name as a program whose inputs are those of `make`."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        assert run.__doc__
        assert run.__name__ not in PROGRAMS
        what = run.__doc__.split("\n", 1)[0].rstrip(".")
        PROGRAMS[run.__name__] = Program(name=run.__name__, what=what, prepare=lambda _toy: make(), run=run, rtol=rtol)
        return run

    return register


def is_ours(sp: Any) -> bool:
    """Return whether the library is autosparse, which has functions that SciPy does not have."""
    return sp is not scipy.sparse


def dense(found: Any) -> Any:
    """Return an answer of either library as an array: sums of matrix classes are matrices, parts of arrays sparse."""
    return np.asarray(found.toarray() if scipy.sparse.issparse(found) else found)
