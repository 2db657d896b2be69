"""What a program is: an input that is made untimed, and the code of a user that is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

Inputs = Mapping[str, Any]
"""Arguments of a program beside the library: SciPy matrices, NumPy arrays, numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program of a user.

    `prepare(toy)` makes its inputs with SciPy and NumPy, which is not timed; ``run(sp, **inputs)`` with `sp` either
    `scipy.sparse` or `autosparse` is, and returns the arrays that both must agree on.
    """

    name: str
    what: str
    prepare: Callable[[bool], Inputs]
    run: Callable[..., Any]
    rtol: float = 1e-6  # of the norm of each array of the answer
    modules: tuple[str, ...] = ()  # what the program imports with either library, before the clock starts
    made_with: tuple[str, ...] = ()  # what `prepare` imports beside SciPy and NumPy


def csr(sp: ModuleType, m: Any) -> Any:
    """The matrix as a user of `sp` takes it into service: ``asp.csr(m)``, or `m` itself with SciPy."""
    wrap = getattr(sp, "csr", None)
    return wrap(m) if callable(wrap) else m  # scipy.sparse.csr is a module
