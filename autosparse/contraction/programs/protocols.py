"""Stage 3: choose how each read of a sparse tensor traverses each mode: by stepping or by locating."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from autosparse.contraction.assignments import TensorAssignment
from autosparse.contraction.cin.nodes import Statement, TensorAccess, mapped, reads
from autosparse.contraction.cost.model import Steps, concordances


def open_reads(assignment: TensorAssignment, program: Statement) -> list[TensorAccess]:
    """Return the distinct reads of sparse tensors, stripped of their protocols."""
    bare = (TensorAccess(access.tensor, access.indices) for access in reads(program))
    return [access for access in dict.fromkeys(bare) if assignment.is_sparse(access.tensor)]


def taco_protocols(assignment: TensorAssignment, program: Statement) -> Iterator[Steps]:
    """Yield the protocol choices of the TACO compiler: all step, or locate the mode bound first and step the others.

    A scalar workspace gets both choices although they are equal, as in the published code.
    """
    order = dict(concordances(program))
    chosen = open_reads(assignment, program)
    letters = [["s" * len(access.indices), _locate_first(order[access])] for access in chosen]
    for protocols in itertools.product(*letters):
        yield dict(zip(chosen, protocols, strict=True))


def _locate_first(order: Sequence[int]) -> str:
    return "".join("l" if order and mode == order[0] else "s" for mode in range(len(order)))


def with_protocols(program: Statement, steps: Mapping[TensorAccess, str]) -> Statement:
    """Return `program` with these protocols on its reads."""

    def marked(one: TensorAccess) -> TensorAccess:
        return TensorAccess(one.tensor, one.indices, steps.get(TensorAccess(one.tensor, one.indices), ""))

    return mapped(program, marked)
