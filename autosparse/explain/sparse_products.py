"""Explain a product of two sparse matrices: the solvers of its rows, with their estimated costs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from autosparse.arrays import sparse_product
from autosparse.errors import ShapeError
from autosparse.explain.program_explanation import ProgramExplanation
from autosparse.explain.section import Section
from autosparse.explain.units import seconds
from autosparse.ops import SPGEMM

WAYS: Final = {
    "by class": "the cheapest solver for each row",
    "dense": "an accumulator per column (Gustavson)",
    "hash": "accumulators in a hash table of the row's columns",
    "heap": "rows of B merged by a heap; a single row of B copied",
}
"""Description of each solver, by its name."""


def explain_sparse_product(left: Any, right: Any) -> ProgramExplanation:
    """Explain ``left @ right`` of an autosparse matrix and a sparse one; raise ShapeError if shapes do not fit."""
    if len(left.shape) == 2 == right.ndim and left.shape[1] != right.shape[0]:
        raise ShapeError.matmul(left.shape, right.shape)
    shapes = " times ".join(f"{' x '.join(map(str, one.shape))}, {one.nnz:,} entries" for one in (left, right))
    title = f"{SPGEMM.name}: A @ B, both sparse"
    facts = [("computes", SPGEMM.formula), ("operands", f"{shapes}, {np.result_type(left.dtype, right.dtype)}")]
    solvers = solvers_of(left, right)
    if solvers is None:
        why = f"{SPGEMM.library}: this package has no kernel for these dtypes or dimensions"
        return ProgramExplanation(title, (Section(title=title, facts=(*facts, ("served by", why))),))
    facts.append(
        ("served by", "runtime (compiled at installation): entries, their order and sums are SciPy's to the last bit")
    )
    return ProgramExplanation(title, (Section(title=title, facts=tuple(facts)), solvers))


def solvers_of(left: Any, right: Any) -> Section | None:
    """Return the section that lists the solvers of ``left @ right``, or None when SciPy computes the product."""
    costs = sparse_product.costs(left, right)
    if costs is None:
        return None
    rows = [("solver", "rows", "multiplications", "alone, one thread", "")]
    rows += [
        (one.solver, f"{one.n_rows:,}", f"{one.n_products:,}", f"~{seconds(one.alone_s)}", WAYS[one.solver])
        for one in costs
    ]
    return Section(title="Solvers", table=tuple(rows), lines=("Costs are estimated from counts of the patterns.",))
