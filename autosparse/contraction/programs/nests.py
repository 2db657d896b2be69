"""Stage 2: place the loops, permute them, keep nests of minimum depth, and derive the workspaces' indices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from autosparse.contraction.cin.nodes import (
    Assign,
    Loop,
    Statement,
    TensorAccess,
    Where,
    assignments,
    loop,
    loops,
    mapped,
    reads,
    wheres,
)


def nests(bodies: Sequence[Statement], indices: tuple[str, ...], *, keep_outer: bool) -> tuple[Statement, ...]:
    """Return every placement of the loops over `indices` of minimum depth, with indexed workspaces, in one order each.

    `keep_outer` also offers `where` statements that keep all loops outside. The unrestricted columns of the paper's
    Figure 6 were made with this variant, its TACO columns without it.
    """
    for most in range(len(indices) + 1):
        placed = (nest for body in bodies for nest in placements(indices, body, most, keep_outer=keep_outer))
        bound = tuple(nest for nest in map(indexed, placed) if is_bound(nest))
        if bound:
            return bound
    raise AssertionError("all loops around a body without workspaces bind every index")


def is_bound(statement: Statement, outer: frozenset[str] = frozenset()) -> bool:
    """Return whether every index in an access is an index of a loop around it; `outer` are loops around `statement`.

    With nested `where` statements (four factors or more) a workspace may get an index that the statement reading it
    does not loop over.
    """
    if isinstance(statement, Loop):
        return is_bound(statement.body, outer.union(statement.indices))
    if isinstance(statement, Where):
        return is_bound(statement.consumer, outer) and is_bound(statement.producer, outer)
    return accessed(statement) <= outer


def placements(indices: tuple[str, ...], body: Statement, most: int, *, keep_outer: bool) -> Iterator[Statement]:
    """Yield the ways to distribute the loops over `indices` into the wheres of `body`, at most `most` deep."""
    if not isinstance(body, Where):
        if len(indices) <= most:
            yield loop(indices, body)
        return
    producer_has, consumer_has = accessed(body.producer), accessed(body.consumer)
    is_reduced = _returned(body.producer).op != ""
    for n_inner in range(max(0 if keep_outer else 1, len(indices) - most), len(indices) + 1):
        left = most - len(indices) + n_inner
        for inner in itertools.combinations(indices, n_inner):
            outer = tuple(i for i in indices if i not in inner)
            of_producer = tuple(i for i in inner if i in producer_has)
            of_consumer = tuple(i for i in inner if i in consumer_has) if is_reduced else inner
            producers = list(placements(of_producer, body.producer, left, keep_outer=keep_outer))
            for consumer in placements(of_consumer, body.consumer, left, keep_outer=keep_outer) if producers else ():
                yield from (loop(outer, Where(consumer, producer)) for producer in producers)


def orders(statement: Statement) -> Iterator[Statement]:
    """Yield every order of each contiguous group of loops."""
    if isinstance(statement, Loop):
        bodies = list(orders(statement.body))
        for indices in itertools.permutations(statement.indices):
            yield from (Loop(indices, body) for body in bodies)
    elif isinstance(statement, Where):
        producers = list(orders(statement.producer))
        for consumer in orders(statement.consumer):
            yield from (Where(consumer, producer) for producer in producers)
    else:
        yield statement


def n_orders(statement: Statement) -> int:
    """Return the number of programs that `orders` yields."""
    if isinstance(statement, Loop):
        return math.factorial(len(statement.indices)) * n_orders(statement.body)
    if isinstance(statement, Where):
        return n_orders(statement.consumer) * n_orders(statement.producer)
    return 1


def accessed(statement: Statement) -> set[str]:
    """Return the indices in accesses of `statement`, including its outputs."""
    found = {i for access in reads(statement) for i in access.indices}
    return found | {i for assign in assignments(statement) for i in assign.lhs.indices}


def indexed(statement: Statement) -> Statement:
    """Return `statement` with indices on each workspace: those of loops inside its `where` that it depends on."""
    if isinstance(statement, Loop):
        return Loop(statement.indices, indexed(statement.body))
    if not isinstance(statement, Where):
        return statement
    where = Where(indexed(statement.consumer), indexed(statement.producer))
    names = set(loops(where)) & accessed(where.producer)
    if _returned(where.producer).op:
        names &= accessed(where.consumer)
    named = TensorAccess(where.workspace, tuple(sorted(names)))
    renamed = with_access(where, named)
    assert isinstance(renamed, Where)
    return renamed


def with_access(node: Statement, access: TensorAccess) -> Statement:
    """Return `node` with every access to the tensor of `access` replaced by `access`."""

    def by(one: TensorAccess) -> TensorAccess:
        return access if one.tensor == access.tensor else one

    return mapped(node, by, by)


def _returned(statement: Statement) -> Assign:
    return next(assignments(statement))


def workspaces(statement: Statement) -> dict[str, TensorAccess]:
    """Return the write access of every workspace, by name."""
    names = {where.workspace for where in wheres(statement)}
    return {assign.lhs.tensor: assign.lhs for assign in assignments(statement) if assign.lhs.tensor in names}
