"""Register blocks: which innermost loops become straight-line code on accumulators, and which of them vector lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from autosparse._native.ir.nodes import Block, Coordinate, StoredLevel

from autosparse.core.expression import IndexExpression
from autosparse.core.values import dataclass

MAX_ACCUMULATORS: Final = 64
"""Maximum accumulators of a block, in vector registers. Some spilling may pay; many more accumulators never do."""

MAX_UPDATES: Final = 512
"""Maximum multiply-adds of a block, as vector instructions, which bounds the length of the emitted code."""


@dataclass(frozen=True, slots=True)
class Nest:
    """The parts of a schedule that lowering needs: loops (outermost first), levels, expression and lane count."""

    order: tuple[Coordinate, ...]
    levels: tuple[StoredLevel, ...]
    expression: IndexExpression
    parallel: str
    max_lanes: int
    masked_lanes: frozenset[int]

    def level_of(self, coordinate: str) -> StoredLevel | None:
        """Return the storage level of a coordinate, or None for coordinates of dense indices."""
        return next((level for level in self.levels if level.name == coordinate), None)

    def is_output(self, coordinate: Coordinate) -> bool:
        """Return whether the coordinate's index is an index of the output."""
        return coordinate.index in self.expression.output.indices


def lanes_of(extent: int, max_lanes: int) -> int:
    """Return the lanes per vector for `extent` contiguous values: the largest common divisor with `max_lanes`."""
    return math.gcd(extent, max_lanes)


def choose_block(nest: Nest) -> Block:
    """Return the longest suffix of the loops that can be a register block; it may be empty (one entry at a time)."""
    for start in range(len(nest.order) + 1):
        block = _block_from(nest, start)
        if block is not None:
            return block
    raise AssertionError("the empty suffix is always a block")


def _block_from(nest: Nest, start: int) -> Block | None:
    inside = nest.order[start:]
    if any(c.is_outer or c.name == nest.parallel for c in inside):
        return None
    bound = {c.name for c in nest.order[:start]}
    unresolved = _unresolved(nest.levels, bound)
    names = {c.name for c in inside}
    if any(level.kind != "U" for level in unresolved):
        return None
    levels = tuple(level for level in unresolved if level.name in names or level.name in bound)
    block = Block(
        inside, _vector_axis(nest, inside), levels if names & {level.name for level in levels} else (), nest.expression
    )
    return block if _fits(block, nest) else None


def _unresolved(levels: Sequence[StoredLevel], bound: set[str]) -> tuple[StoredLevel, ...]:
    """Return the levels from the first one whose coordinate is not bound: a position requires those of all its
    parents.
    """
    for depth, level in enumerate(levels):
        if level.name not in bound:
            return tuple(levels[depth:])
    return ()


def _vector_axis(nest: Nest, inside: Sequence[Coordinate]) -> str | None:
    """Return a coordinate of the block whose consecutive values are contiguous in every operand that depends on it, or
    None.
    """
    for coordinate in reversed(inside):
        if coordinate.index in nest.expression.dense_indices:
            return coordinate.name if _adjacent(nest, coordinate) else None
    last = nest.levels[-1].coordinate
    if nest.expression.sampled:  # results are scattered
        return None
    return last.name if last in inside and _adjacent(nest, last) else None


def _adjacent(nest: Nest, coordinate: Coordinate) -> bool:
    accesses = [nest.expression.output, *nest.expression.dense]
    users = [access for access in accesses if coordinate.index in access.indices]
    return all(access.indices[-1] == coordinate.index for access in users)


def block_updates(block: Block, max_lanes: int) -> int:
    """Return the multiply-adds of the block, as vector instructions."""
    total = math.prod(c.split for c in block.coordinates)
    vector = next((c for c in block.coordinates if c.name == block.vector), None)
    return total if vector is None else total // lanes_of(vector.split, max_lanes)


def block_accumulators(block: Block, max_lanes: int) -> int:
    """Return the vector registers that the block's accumulators take."""
    total = 1
    for coordinate in block.coordinates:
        output = coordinate.index in block.expression.output.indices
        if coordinate.name == block.vector:
            total *= coordinate.split // lanes_of(coordinate.split, max_lanes) if output else 1
        elif output:
            total *= coordinate.split
    return total


def _fits(block: Block, nest: Nest) -> bool:
    updates = block_updates(block, nest.max_lanes)
    return updates <= MAX_UPDATES and block_accumulators(block, nest.max_lanes) <= MAX_ACCUMULATORS
