"""Solver that computes by SciPy's own loops, on one thread; nothing is prepared."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

from autosparse.core.problem import Problem
from autosparse.core.solver import Bound, Cost, ProductArguments, SparseOperand


class _Loop:
    """SciPy's compiled loop over CSR rows, or over CSC columns for the transpose."""

    def __init__(self) -> None:
        from scipy.sparse import _sparsetools

        self._tools: Any = _sparsetools  # Any: SciPy's extension module

    def run(self, arguments: ProductArguments) -> bool:
        """Compute C; SciPy's loops add to it."""
        one, shape = arguments, arguments.shape
        kind, sizes = ("csc", shape[::-1]) if one.transposed else ("csr", shape)
        if not one.C.flags.c_contiguous:
            return False
        one.C[...] = 0
        if one.B.ndim == 1:
            getattr(self._tools, f"{kind}_matvec")(*sizes, one.indptr, one.indices, one.data, one.B, one.C)
        else:
            loop = getattr(self._tools, f"{kind}_matvecs")
            loop(*sizes, one.B.shape[1], one.indptr, one.indices, one.data, one.B.ravel(), one.C.ravel())
        return True


class ScipySolver:
    """Solver by SciPy's own loops."""

    name = "scipy"
    reads_live = True

    @property
    def version(self) -> str:
        """SciPy's version."""
        import scipy

        return str(scipy.__version__)

    def applicable(self, problem: Problem) -> str | None:
        """Return None: SciPy computes every product."""
        return None

    def knobs(self, problem: Problem) -> Iterable[Hashable]:
        """Return one choice without knobs."""
        return (None,)

    def cost(self, problem: Problem, knobs: Hashable) -> Cost:
        """Return no prediction; nothing is prepared."""
        return Cost()

    def prepare(self, operand: SparseOperand, knobs: Hashable) -> Bound:
        """Return the loop, which reads the user's arrays."""
        return _Loop()


SCIPY: Final = ScipySolver()
