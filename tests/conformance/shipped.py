"""SciPy's own sparse test classes, rebuilt for our matrix classes."""

from __future__ import annotations

import warnings
from typing import Any

import autosparse
from autosparse.arrays.family import AutoSparseMatrix

CANONICAL = ("TestCSR", "TestCSRMatrix", "TestCSC", "TestCSCMatrix")


def over_our_classes(tb: Any) -> dict[str, type]:
    """Return test classes of `tb` (scipy.sparse.tests.test_base) for our classes, canonical and non-canonical.

    SciPy 1.13 has two of the four classes and tests matrices with them; newer versions test arrays and matrices
    separately.
    """
    made: dict[str, type] = {}
    for name in CANONICAL:
        theirs = getattr(tb, name, None)
        if theirs is None:
            continue
        ours = getattr(autosparse, type(theirs.spcreator((1, 1))).__name__)
        made[name] = _remake(name, theirs, ours)
        made[f"{name}NonCanonical"] = type(f"{name}NonCanonical", (tb._NonCanonicalCSMixin, made[name]), {})
    return made


def _remake(name: str, theirs: Any, ours: type[AutoSparseMatrix]) -> type:
    kind = ours.__name__.split("_")[1]

    def spcreator(cls: type, *args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Changing the sparsity structure")
            return ours(*args, **kwargs)

    containers = {f"{fmt}_container": getattr(autosparse, f"{fmt}_{kind}") for fmt in ("csr", "csc")}
    made: Any = type(name, (theirs,), {"spcreator": classmethod(spcreator), **containers})
    made.init_class()
    return made  # type: ignore[no-any-return]
