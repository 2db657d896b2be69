"""Explain a product of two sparse matrices: the solvers of its rows, with their estimated costs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from autosparse._native.kernels.spgemm_solvers import ROW_SOLVERS
from autosparse.arrays import sparse_product
from autosparse.arrays.planning import sparse_products
from autosparse.config import get_options
from autosparse.core.plan import Plan
from autosparse.core.problem import Problem
from autosparse.errors import ShapeError
from autosparse.explain.candidates import candidates_section
from autosparse.explain.program_explanation import ProgramExplanation
from autosparse.explain.section import Section
from autosparse.explain.units import seconds
from autosparse.ops import SPGEMM

RUNTIME: Final = "runtime (compiled at installation): entries, their order and sums are SciPy's to the last bit"
"""Description of the default solver."""
WAYS: Final = {
    "by class": "the cheapest solver for each row",
    "dense": "an accumulator per column (Gustavson)",
    "hash": "accumulators in a hash table of the row's columns",
    "copy": "a multiple of one row of B copied; other rows are hashed",
}
"""Description of each solver, by its name."""


def explain_sparse_product(left: Any, right: Any) -> ProgramExplanation:
    """Explain ``left @ right`` of an autosparse matrix and a sparse one; raise ShapeError if shapes do not fit."""
    if len(left.shape) == 2 == right.ndim and left.shape[1] != right.shape[0]:
        raise ShapeError.matmul(left.shape, right.shape)
    shapes = " times ".join(f"{' x '.join(map(str, one.shape))}, {one.nnz:,} entries" for one in (left, right))
    title = f"{SPGEMM.name}: A @ B, both sparse"
    facts = [("computes", SPGEMM.formula), ("operands", f"{shapes}, {np.result_type(left.dtype, right.dtype)}")]
    problem = sparse_product.problem(left, right)
    if problem is None:
        why = f"{SPGEMM.library}: this package has no kernel for these dtypes or dimensions"
        return ProgramExplanation(title, (Section(title=title, facts=(*facts, ("served by", why))),))
    plan = sparse_products.plan_for(problem, get_options())
    registered = "" if plan is None or plan.is_default or plan.solver in WAYS else plan.solver
    facts.append(("served by", f"solver {registered}" if registered else RUNTIME))
    facts += [] if plan is None else [("because", plan.why)]
    return ProgramExplanation(title, (Section(title=title, facts=tuple(facts)), *sections_of(problem, plan)))


def sections_of_operands(left: Any, right: Any) -> list[Section]:
    """Return the sections on the solvers of ``left @ right``; none when SciPy computes the product."""
    problem = sparse_product.problem(left, right)
    return [] if problem is None else sections_of(problem, sparse_products.plan_for(problem, get_options()))


def sections_of(problem: Problem, plan: Plan | None) -> list[Section]:
    """Return the section that lists the built-in solvers, and one of candidates if registered solvers compete."""
    shares = [one.share(problem) for one in ROW_SOLVERS]
    rows = [("solver", "rows", "multiplications", "alone, one thread", "")]
    rows += [
        (one.solver, f"{one.n_rows:,}", f"{one.n_products:,}", f"~{seconds(one.alone_s)}", WAYS[one.solver])
        for one in shares
    ]
    solvers = Section(title="Solvers", table=tuple(rows), lines=("Costs are estimated from counts of the patterns.",))
    if plan is None:
        return [solvers]
    return [solvers, candidates_section(plan.candidates, plan.choice)]
