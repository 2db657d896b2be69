"""SciPy's other formats as classes whose conversions and products lead to autosparse's csr and csc classes.

Each class derives from SciPy's class of the same name and changes nothing else. `as_ours` returns a result of SciPy's
in the autosparse class of its format.
"""

from __future__ import annotations

from typing import Any, Final

import scipy.sparse as sps

from autosparse import light
from autosparse.light import matrices
from autosparse.light.adoption import publish
from autosparse.light.matrices import ConvertedBack, coo_array, coo_matrix


class bsr_array(ConvertedBack, sps.bsr_array):  # type: ignore[misc]  # noqa: D101, N801
    _plain_class = sps.bsr_array


class bsr_matrix(ConvertedBack, sps.bsr_matrix):  # type: ignore[misc]  # noqa: D101, N801
    _plain_class = sps.bsr_matrix


class dia_array(ConvertedBack, sps.dia_array):  # type: ignore[misc]  # noqa: D101, N801
    _plain_class = sps.dia_array


class dia_matrix(ConvertedBack, sps.dia_matrix):  # type: ignore[misc]  # noqa: D101, N801
    _plain_class = sps.dia_matrix


class dok_array(ConvertedBack, sps.dok_array):  # type: ignore[misc]  # noqa: D101, N801
    _plain_class = sps.dok_array


class dok_matrix(ConvertedBack, sps.dok_matrix):  # type: ignore[misc]  # noqa: D101, N801
    _plain_class = sps.dok_matrix


class lil_array(ConvertedBack, sps.lil_array):  # type: ignore[misc]  # noqa: D101, N801
    _plain_class = sps.lil_array


class lil_matrix(ConvertedBack, sps.lil_matrix):  # type: ignore[misc]  # noqa: D101, N801
    _plain_class = sps.lil_matrix


OTHERS: Final[tuple[Any, ...]] = (
    bsr_array, bsr_matrix, coo_array, coo_matrix, dia_array, dia_matrix, dok_array, dok_matrix, lil_array, lil_matrix,
)  # fmt: skip
"""Classes of the formats other than csr and csc."""

COMPRESSED: Final[tuple[Any, ...]] = (matrices.csr_array, matrices.csc_array, matrices.csr_matrix, matrices.csc_matrix)

for _class in OTHERS:
    _class.__doc__ = _class._plain_class.__doc__
    publish(_class)

OF_SCIPYS: Final[dict[type, Any]] = {ours._plain_class: ours for ours in (*OTHERS, *COMPRESSED)}
"""SciPy's class -> autosparse class of the same name."""


def as_ours(found: Any) -> Any:  # Any: whatever a function of scipy.sparse returns
    """Return a sparse object of SciPy's in autosparse's class, over the same arrays; return other objects unchanged."""
    kind = OF_SCIPYS.get(type(found))
    if kind is None:
        return found
    if kind in COMPRESSED and (light.may_be_light() or not light.complete()):
        return kind(found)
    made = kind.__new__(kind)
    state = found.__dict__
    if kind in COMPRESSED:
        made._restore(state.copy())
    else:
        made.__dict__.update(state)
    return made
