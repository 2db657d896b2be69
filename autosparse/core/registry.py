"""Registry of solvers that compete with the built-in kernels: registered by name, or by an entry point.

The interface is provisional: it may change between minor versions until more than one project uses it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from autosparse.containment import contained
from autosparse.core.solver import DEFAULT_SOLVER, FAMILIES, Solver
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once

ENTRY_POINTS: Final = "autosparse.solvers"
"""Group of entry points whose objects are solvers, or functions without arguments that return one."""
MAX_NAME: Final = 64
"""Maximum number of characters of a solver's name, which is part of plans and their keys."""
METHODS: Final = ("applicable", "knobs", "cost", "prepare")

_registered: Final[dict[str, Solver]] = {}
_searched: Final[list[bool]] = []  # holds an element once the entry points were loaded


def register_solver(solver: Solver) -> None:
    """Let `solver` compete with the built-in kernels for products ``A @ B`` that are tuned from now on.

    Provisional. `solver` has a ``name`` and the methods ``applicable``, ``knobs``, ``cost`` and ``prepare``. Raise
    ValueError if the name is taken or no name, and TypeError if a method is absent.

    >>> from autosparse.tuning.solvers.scipy_loop import ScipySolver
    >>> solver = ScipySolver()
    >>> solver.name = "my loop"
    >>> asp.register_solver(solver)
    >>> asp.unregister_solver("my loop")
    """
    name = getattr(solver, "name", None)
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= MAX_NAME or "," in name:
        raise ValueError(f"a solver's name has 1 to {MAX_NAME} printable characters and no comma: {name!r}")
    if name == DEFAULT_SOLVER or name in FAMILIES or name in _registered:
        raise ValueError(f"there is a solver {name!r} already")
    absent = [method for method in METHODS if not callable(getattr(solver, method, None))]
    if absent:
        raise TypeError(f"the solver {name!r} has no method {', '.join(absent)}")
    _registered[name] = solver


def unregister_solver(name: str) -> None:
    """Remove the registered solver `name`; raise ValueError if there is none.

    Provisional. A plan in service keeps its kernel; remembered plans of the solver are not used any more.

    >>> asp.unregister_solver("a name that nobody took")
    Traceback (most recent call last):
    ...
    ValueError: there is no registered solver 'a name that nobody took'
    """
    if _registered.pop(name, None) is None:
        raise ValueError(f"there is no registered solver {name!r}")


def registered_solvers(*, load: bool = True) -> tuple[Solver, ...]:
    """Return the registered solvers by name; the first call loads the entry points, unless `load` is false."""
    if load and not _searched:
        _searched.append(True)
        if any(map(_names_group, sys.path)):
            _load_entry_points()
    return tuple(_registered[name] for name in sorted(_registered))


def _names_group(folder: str) -> bool:
    """Return whether a distribution in `folder` names the group; reading these files is faster than `importlib`."""
    try:
        found = [one for one in Path(folder).iterdir() if one.suffix in (".dist-info", ".egg-info")]
    except OSError:
        return False
    return any(ENTRY_POINTS.encode() in _content(one / "entry_points.txt") for one in found)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _load_entry_points() -> None:
    import importlib.metadata

    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            found: Any = point.load()
            register_solver(found if hasattr(found, "prepare") and not isinstance(found, type) else found())
        except contained() as err:  # a broken plug-in must not cost a product
            reason = f"{type(err).__name__}: {err}"
            event("fallback", f"the solver {point.name} was not loaded: {reason}", error=err)
            warn_once(FallbackWarning, f"solver {point.name}", f"the solver {point.name} was not loaded: {reason}")
