"""Registry of solvers that compete with the built-in kernels: registered by name, or by an entry point.

The interface is provisional: it may change between minor versions until more than one project uses it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

from autosparse.containment import contained
from autosparse.core.solver import DEFAULT_SOLVER, FAMILIES, Solver
from autosparse.errors import InputTypeError, OptionError
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once
from autosparse.ops import names

ENTRY_POINTS: Final = "autosparse.solvers"
"""Group of entry points whose objects are solvers, or functions without arguments that return one."""
MAX_NAME: Final = 64
"""Maximum number of characters of a solver's name, which is part of plans and their keys."""
METHODS: Final = ("applicable", "knobs", "cost", "prepare")
"""Methods that every solver has."""
OPERATIONS: Final = (names.MATMUL, names.SDDMM, names.MTTKRP, names.SPGEMM)
"""Operations that registered solvers may compute. Einsum products that are one of these use the same solvers."""
TAKEN: Final = (DEFAULT_SOLVER, *FAMILIES, "dense rows", "scipy", "mkl", "by class", "dense", "hash", "copy")
"""Names of solvers that are not registered: built-in ones and vendors' libraries."""

REGISTERED: Final[dict[str, Solver]] = {}
"""Registered solvers by name; those of entry points are in it after `load_solvers`."""
UNSEARCHED: Final = [ENTRY_POINTS]
"""Groups of entry points that were not loaded yet."""


def register_solver(solver: Solver) -> None:
    """Let `solver` compete with the built-in kernels for products that are tuned from now on.

    Provisional. `solver` has a ``name`` and the methods ``applicable``, ``knobs``, ``cost`` and ``prepare``. Its
    optional attribute ``operations`` names what it computes: "matmul" (the default: ``A @ B`` and ``A.T @ B``, also of
    vectors), "sddmm", "mttkrp", "spgemm" (``A @ B`` of two sparse matrices). Raise OptionError (ValueError) if the name
    is taken or no name, or if an operation is unknown; raise InputTypeError (TypeError) if a method is absent.

    >>> from autosparse.tuning.solvers.scipy_loop import ScipySolver
    >>> solver = ScipySolver()
    >>> solver.name = "my loop"
    >>> asp.register_solver(solver)
    >>> asp.unregister_solver("my loop")
    """
    name = getattr(solver, "name", None)
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= MAX_NAME or "," in name:
        domain = f"a text of 1 to {MAX_NAME} printable characters without a comma"
        raise OptionError.bad_value("name", name, domain=domain, source="solver")
    if name in TAKEN or name in REGISTERED:
        domain = f"a name that no solver has, unlike {', '.join(sorted((*TAKEN, *REGISTERED)))}"
        raise OptionError.bad_value("name", name, domain=domain, source="solver")
    absent = [method for method in METHODS if not callable(getattr(solver, method, None))]
    if absent:
        raise InputTypeError.refused(
            f"the solver {name!r} has no method {', '.join(absent)}",
            given=f"an object of type {type(solver).__name__}",
            hint=f"pass an object with the methods {', '.join(METHODS)} (docs/add.md shows one)",
        )
    found = getattr(solver, "operations", (names.MATMUL,))
    if not isinstance(found, (tuple, list)) or not found or not all(one in OPERATIONS for one in found):
        raise OptionError.bad_value(
            "operations", found, domain=f"a tuple of {', '.join(OPERATIONS)}", source=f"solver {name!r}:"
        )
    REGISTERED[name] = solver


def unregister_solver(name: str) -> None:
    """Remove the registered solver `name`; raise OptionError (ValueError) if there is none.

    Provisional. A plan in service keeps its kernel; remembered plans of the solver are not used any more.

    >>> asp.unregister_solver("a name that nobody took")
    Traceback (most recent call last):
    ...
    autosparse.errors.OptionError: there is no registered solver 'a name that nobody took'...
    """
    if REGISTERED.pop(name, None) is None:
        known = ", ".join(sorted(REGISTERED)) or "none is registered"
        raise OptionError(f"there is no registered solver {name!r}.\n  Hint: name a registered solver ({known}).")


def computes(solver: Solver, operation: str) -> bool:
    """Return whether `solver` is one for `operation`."""
    return operation in getattr(solver, "operations", (names.MATMUL,))


def load_solvers() -> None:
    """Register the solvers of installed packages' entry points; after the first call there is nothing to do."""
    is_first = bool(UNSEARCHED)
    UNSEARCHED.clear()  # before they are loaded: their modules may call this function
    if is_first and any(map(_names_group, sys.path)):
        _load_entry_points()


def has_solvers(operation: str) -> bool:
    """Return whether a registered solver computes `operation`; entry points are not loaded."""
    return any(computes(one, operation) for one in REGISTERED.values())


def _names_group(folder: str) -> bool:
    """Return whether a distribution in `folder` names the group; reading these files is faster than `importlib`."""
    try:
        every = os.listdir(folder or ".")  # noqa: PTH208  # a Path for each of thousands of names takes 20 ms
    except OSError:
        return False
    found = [name for name in every if name.endswith((".dist-info", ".egg-info"))]
    return any(ENTRY_POINTS.encode() in _content(Path(folder, name, "entry_points.txt")) for name in found)


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
