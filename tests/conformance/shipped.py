"""SciPy's own sparse test classes, rebuilt for our classes."""

from __future__ import annotations

import warnings
from typing import Any

import autosparse

FORMATS = ("CSR", "CSC", "BSR", "COO", "DIA", "DOK", "LIL")
SHIPPED = tuple(f"Test{fmt}{kind}" for fmt in FORMATS for kind in ("", "Matrix"))
"""Names of SciPy's test classes for single formats."""


def over_our_classes(tb: Any) -> dict[str, type]:
    """Return test classes of `tb` (scipy.sparse.tests.test_base) for our classes, canonical and non-canonical.

    SciPy 1.13 has one class for each format and tests matrices with it; newer versions test arrays and matrices
    separately.
    """
    made: dict[str, type] = {}
    for name in SHIPPED:
        theirs = getattr(tb, name, None)
        if theirs is None:
            continue
        ours = getattr(autosparse, type(theirs.spcreator((1, 1))).__name__)
        made[name] = _remake(name, theirs, ours)
        mixin = getattr(tb, f"{name[:7]}NonCanonical{name[7:]}", None)
        if mixin is not None:
            made[f"{name}NonCanonical"] = type(f"{name}NonCanonical", (mixin, made[name]), {})
    return made


def _remake(name: str, theirs: Any, ours: Any) -> type:
    kind = ours.__name__.split("_")[1]

    def spcreator(cls: type, *args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Changing the sparsity structure")
            return ours(*args, **kwargs)

    formats = map(str.lower, FORMATS)
    containers = {f"{fmt}_container": getattr(autosparse, f"{fmt}_{kind}") for fmt in formats}
    made: Any = type(name, (theirs,), {"spcreator": classmethod(spcreator), **containers})
    made.init_class()
    return made  # type: ignore[no-any-return]
