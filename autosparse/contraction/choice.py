"""Choose which frontier program to run on given operands, by estimating each program's number of tasks from them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from autosparse.contraction.candidates import Candidates, EinsumCandidate, Listed, assignment_of, candidates, name_of
from autosparse.contraction.cin.nodes import TensorAccess, reads
from autosparse.contraction.cost.estimate import Estimator
from autosparse.contraction.lower.plan import MAX_DENSE_PLACES, EinsumPlan
from autosparse.contraction.operands import Operand, Sparse
from autosparse.contraction.subscripts import Subscripts
from autosparse.errors import BuildError
from autosparse.targets.priors import number

TRANSPOSED: Final = number("programs", "reordered entry")
"""Cost of reordering one entry, in tasks (loop iterations)."""
MOVED: Final = 1.0
"""Cost of reordering one entry's value, in tasks, when the reordered pattern is kept. Kept tensors cost nothing."""
ADDED_AFTERWARDS: Final = number("programs", "added afterwards")
"""Cost of sorting one output entry, in tasks, when no loop order produces the output sorted."""
SEARCHED: Final = number("programs", "searched")
"""Cost of one search in a compressed level, in tasks."""
MAX_DENSE_LEVEL: Final = 8
"""Maximum ratio of extent to entries at which a located first level is stored dense."""


@dataclass(frozen=True, slots=True)
class RankedPrograms:
    """Plans of all computable candidates in `found`, each with its estimated cost in tasks, cheapest first."""

    found: Candidates
    plans: tuple[tuple[float, EinsumPlan, EinsumCandidate], ...]

    @property
    def plan(self) -> EinsumPlan:
        """Cheapest plan, which is run."""
        return self.plans[0][1]


def choose(
    operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool, are_copies_kept: bool = False
) -> RankedPrograms:
    """Estimate the costs of all frontier programs of two or more prepared operands and sort them, cheapest first.

    With `are_copies_kept`, reordered operands are kept between calls. The asymptotic model of the paper does not count
    them at all.
    """
    inputs = tuple(operand.indices for operand in operands)
    sparse = tuple(isinstance(operand, Sparse) for operand in operands)
    found = candidates(inputs, subscripts.output, sparse)
    named = {name_of(n): operand for n, operand in enumerate(operands)}
    patterns = {name: operand for name, operand in named.items() if isinstance(operand, Sparse)}
    indices = found.assignment.indices
    estimator = Estimator(found.queries, patterns, [subscripts.extents[index] for index in indices])
    priced = []
    for candidate in found.members:
        plan = plan_of(candidate, operands, subscripts, is_dense_output=is_dense_output)
        if not plan.fits(subscripts.extents):
            continue
        price = _price(plan, candidate, patterns, estimator, are_copies_kept=are_copies_kept)
        priced.append((price, plan, candidate))
    if not priced:
        raise BuildError("no program has workspaces whose entries can be numbered in 64 bits")
    # At equal cost a dense first level is preferred: it needs no list of the non-empty rows.
    priced.sort(key=lambda row: (round(row[0]), -len(row[1].dense_levels), str(row[1].program)))
    return RankedPrograms(found, tuple(priced))


def plan_of(
    candidate: Listed, operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool
) -> EinsumPlan:
    """Return the plan of `candidate` for these operands, which determine the first levels that are stored dense."""
    inputs = tuple(operand.indices for operand in operands)
    assignment = assignment_of(inputs, subscripts.output, tuple(isinstance(operand, Sparse) for operand in operands))
    named = {name_of(n): operand for n, operand in enumerate(operands)}
    patterns = {name: operand for name, operand in named.items() if isinstance(operand, Sparse)}
    plan = EinsumPlan(
        candidate.program, candidate.steps, TensorAccess("R", tuple(subscripts.output)), is_dense_output,
        tuple(patterns), tuple(access for access in reads(assignment.statement) if access.tensor not in patterns),
        "".join(assignment.indices), frozenset(), semiring=subscripts.semiring,
    )  # fmt: skip
    return _fitted(plan, patterns, subscripts.extents)


def _fitted(plan: EinsumPlan, patterns: Mapping[str, Sparse], extents: Mapping[str, int]) -> EinsumPlan:
    """Return `plan` with the sparse operands whose first level is stored dense, and the indices of large extent.

    A first level is dense if it is located and its extent is not much larger than the operand's number of entries.
    """
    dense = set()
    for name, operand in patterns.items():
        order = plan.orders[name]
        if len(order) > 1 and plan.protocol(name, order[0]) == "l":
            extent = operand.shape[operand.indices.index(order[0])]
            if extent <= MAX_DENSE_LEVEL * operand.nnz + 1024:
                dense.add(name)
    return replace(plan, dense_levels=frozenset(dense), are_large=large(extents))


def large(extents: Mapping[str, int]) -> frozenset[str]:
    """Return the indices whose extent exceeds `MAX_DENSE_PLACES`, which get no dense arrays."""
    return frozenset(index for index, extent in extents.items() if extent > MAX_DENSE_PLACES)


def _price(
    plan: EinsumPlan,
    candidate: EinsumCandidate,
    patterns: dict[str, Sparse],
    estimator: Estimator,
    *,
    are_copies_kept: bool,
) -> float:
    """Return the estimated cost in tasks, plus terms for reordering operands, searches and sorting the output."""
    counted = estimator.meetings(plan)
    tasks = estimator.cost(candidate.cost) if counted is None else counted
    price = tasks
    for name, operand in patterns.items():
        order = plan.orders[name]
        if operand.sorted_by != order and not (are_copies_kept and operand.tensor is not None):
            price += (MOVED if are_copies_kept else TRANSPOSED) * operand.nnz
        searched = sum(plan.protocol(name, index) == "l" for index in order) - (name in plan.dense_levels)
        price += SEARCHED * searched * tasks / max(1, len(candidate.steps))
    if plan.output_kind == "entries":
        price += ADDED_AFTERWARDS * tasks
    elif plan.output_kind != "dense" and plan.output_order != "".join(plan.output.indices):
        price += TRANSPOSED * tasks / 4
    return price


def is_computable(operands: Sequence[Operand]) -> bool:
    """Return whether a kernel can be generated: two to four operands of one numeric type, at least one sparse."""
    return 2 <= len(operands) <= 4 and _has_kernels(
        tuple(
            (operand.indices, True, operand.dtype)
            if isinstance(operand, Sparse)
            else (operand.indices, False, operand.array.dtype)
            for operand in operands
        )
    )


@functools.lru_cache(maxsize=256)
def _has_kernels(facts: tuple[tuple[str, bool, np.dtype[Any]], ...]) -> bool:
    from autosparse.contraction.lower.emit import C_TYPES

    types = {dtype for _, _, dtype in facts}
    return (
        len(types) == 1
        and types.pop().name in C_TYPES
        and any(is_sparse for _, is_sparse, _ in facts)
        and all(indices or not is_sparse for indices, is_sparse, _ in facts)
    )
