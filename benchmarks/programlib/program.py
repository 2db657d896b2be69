"""Definition of a program: an untimed input, and timed user code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

Inputs = Mapping[str, Any]
"""Arguments of a program besides the library: SciPy matrices, NumPy arrays, numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program of a user.

    `prepare(toy)` makes the inputs with SciPy and NumPy and is not timed. ``run(sp, **inputs)`` is timed, with `sp`
    either `scipy.sparse` or `autosparse`; it returns the arrays on which both must agree.
    """

    name: str
    what: str
    prepare: Callable[[bool], Inputs]
    run: Callable[..., Any]
    rtol: float = 1e-6  # tolerance relative to the norm of each array of the answer
    modules: tuple[str, ...] = ()  # imported before the clock starts, with either library
    made_with: tuple[str, ...] = ()  # packages that `prepare` needs besides SciPy and NumPy


def csr(sp: ModuleType, m: Any) -> Any:
    """Return the matrix as a user of `sp` prepares it: ``asp.csr(m)``, or `m` itself with SciPy."""
    wrap = getattr(sp, "csr", None)
    return wrap(m) if callable(wrap) else m  # scipy.sparse.csr is a module
