"""SciPy's own sparse test classes, re-made over our containers."""

from __future__ import annotations

import warnings
from typing import Any

import autosparse
from autosparse.arrays.family import AutoSparseMatrix

CANONICAL = ("TestCSR", "TestCSRMatrix", "TestCSC", "TestCSCMatrix")


def over_our_classes(tb: Any) -> dict[str, type]:
    """Test classes of `tb` (scipy.sparse.tests.test_base), canonical and not, with our classes in place of SciPy's.

    SciPy 1.13 has two of the four and tests matrices with them; newer ones test arrays and matrices apart.
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
