"""Lowering: an index expression and a SuperSchedule become loop IR, by recursion over the schedule's loop order.

At each loop the sparse operand's levels are asked how its coordinate can be reached. If the coordinate is that of the
next unresolved level, the level iterates (concordant: WACO §3.1). If its level lies deeper, the loop runs over the
dense extent (discordant), and the level is resolved later, by locate (U) or search (C), once its parents are.
The innermost loops of constant extent become one register block; accumulators are placed right inside the last loop
over an output coordinate outside the block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from autosparse._native.block import (
    MAX_ACCUMULATORS,
    Nest,
    block_accumulators,
    block_updates,
    choose_block,
    lanes_of,
)
from autosparse._native.ir import (
    Block,
    Coordinate,
    Extent,
    ForDense,
    ForStored,
    ForTiles,
    Guard,
    Locate,
    Node,
    Program,
    Search,
    StoredLevel,
    Workspace,
    Zero,
    walk,
)
from autosparse._native.lower_slices import lower_slices, reason_unsupported
from autosparse._native.spec import EXPRESSIONS, KernelSpec, expression_of

from autosparse.errors import ScheduleError
from autosparse.schedule import SuperSchedule

MAX_TAIL_UPDATES: Final = 160
"""Most multiply-adds, as vector instructions, of the tiles for the last columns when each number of vectors has one."""

MIN_GATHER_LANES: Final = 4
"""Fewest accumulators for which the entries of a row become vector lanes."""


def supports(operation: str, schedule: SuperSchedule) -> str | None:
    """Why `schedule` cannot be lowered for `operation`, or None when it can. A legal schedule is taken for granted."""
    if operation != schedule.operation or operation not in EXPRESSIONS:
        return f"operation {operation!r} has no index expression (known: {', '.join(EXPRESSIONS)})"
    expression = EXPRESSIONS[operation]
    stored = {name[:-1] for name in schedule.format.order}
    if stored != set(expression.sparse.indices):
        return f"format {schedule.format} stores {sorted(stored)}, but {expression.sparse} is wanted"
    foreign = sorted(index for index, _ in schedule.dense_splits if index not in expression.dense_indices)
    if foreign:
        return f"{', '.join(foreign)} is no dense index of {expression}"
    if schedule.parallel[:-1] not in expression.output.indices:
        return f"the loop over {schedule.parallel} sums: threads would add to the same results"
    tiled = {name for name in schedule.loop_order if name[:-1] in expression.dense_indices and name.endswith("0")}
    if schedule.parallel in tiled:
        return f"{schedule.parallel} runs inside a column tile: it is no loop for threads"
    return reason_unsupported(schedule) if schedule.format.is_sliced else None


def lower(spec: KernelSpec) -> Program:
    """The IR of `spec`; ScheduleError when `supports` refuses the schedule."""
    reason = supports(spec.operation, spec.schedule)
    if reason:
        raise ScheduleError.illegal(spec.schedule.to_json(), reason)
    if spec.schedule.format.is_sliced:
        return lower_slices(spec)
    nest = _nest_of(spec)
    body = _Lowering(nest, spec.schedule).program_body()
    return Program(nest.expression, nest.levels, body)


def _nest_of(spec: KernelSpec) -> Nest:
    schedule = spec.schedule
    splits = dict(schedule.format.splits) | dict(schedule.dense_splits)
    # A tile of one column has no inner loop.
    order = [name for name in schedule.loop_order if splits.get(name[:-1], 1) > 1 or name.endswith("1")]
    coordinates = {name: Coordinate(name, splits.get(name[:-1], 1)) for name in (*schedule.format.order, *order)}
    levels: list[StoredLevel] = []
    for depth, level in enumerate(schedule.format.levels):
        parent = levels[-1].name if levels else None
        levels.append(StoredLevel(depth, coordinates[level.coordinate], level.kind.value, parent))
    loops = tuple(coordinates[name] for name in order)
    return Nest(loops, tuple(levels), expression_of(schedule), schedule.parallel, spec.max_lanes, spec.masked_lanes)


@dataclass(frozen=True, slots=True)
class _State:
    """What is known at a point of the recursion."""

    bound: frozenset[str] = frozenset()  # coordinates
    depth: int = 0  # first level without a position
    visits_all: bool = True  # every iteration of the loops so far happens, whatever is stored
    open: bool = False  # inside the workspace


class _Lowering:
    """One lowering: the nest, its block, and the place of the workspace."""

    def __init__(self, nest: Nest, schedule: SuperSchedule) -> None:
        self.nest = nest
        self.schedule = schedule
        self.block = choose_block(nest)
        self.n_loops = len(nest.order) - len(self.block.coordinates)  # loops outside the block
        output_loops = [d for d in range(self.n_loops) if nest.is_output(nest.order[d])]
        self.workspace_at = output_loops[-1] + 1 if output_loops else 0
        self.copies = self._copies()
        self.padded = nest.levels[-1].kind == "U"
        self.init = "zero"

    def program_body(self) -> tuple[Node, ...]:
        """All loops; with the output zeroed first where they do not write all of it."""
        body = self._loops(0, _State())
        return (Zero(self.nest.expression.output), *body) if self.init == "load" else body

    def _copies(self) -> int:
        """Accumulator copies that `unroll` asks for, as far as registers and the shape of the nest allow."""
        last = self.nest.order[self.n_loops - 1] if self.n_loops else None
        level = self.nest.level_of(last.name) if last else None
        if level is None or level.kind != "C" or self.workspace_at >= self.n_loops:
            return 1
        copies = self.schedule.unroll
        while copies > 1 and copies * block_accumulators(self.block, self.nest.max_lanes) > MAX_ACCUMULATORS:
            copies //= 2
        return copies

    def _loops(self, d: int, state: _State) -> tuple[Node, ...]:
        """Nodes for the loops from the d-th inwards."""
        if d == self.workspace_at and not state.open:
            return (self._workspace(d, state),)
        if d == self.n_loops:
            return (self.block,)
        coordinate = self.nest.order[d]
        level = self.nest.level_of(coordinate.name)
        if level is None:
            return (self._dense_index(d, coordinate, state),)
        if level.depth == state.depth and level.kind == "C":
            return (self._stored(d, level, state),)
        return (self._dense(d, coordinate, level, state),)

    def _bind(self, d: int, coordinate: Coordinate, state: _State) -> tuple[Node, ...]:
        """The loops inside the d-th, after the levels that can be resolved now that `coordinate` is bound."""
        return self._resolve(d + 1, replace(state, bound=state.bound | {coordinate.name}))

    def _resolve(self, d: int, state: _State) -> tuple[Node, ...]:
        levels = self.nest.levels
        if state.depth == len(levels) or levels[state.depth].name not in state.bound:
            return self._loops(d, state)
        level = levels[state.depth]
        if level in self.block.levels:  # located inside the block
            return self._loops(d, state)
        below = replace(state, depth=state.depth + 1)
        if level.kind == "U":
            locate = Locate(level, Extent(level.coordinate, partner_bound=False))
            return (locate, *self._resolve(d, below))
        return (Search(level, self._resolve(d, replace(below, visits_all=False))),)

    def _dense_index(self, d: int, coordinate: Coordinate, state: _State) -> Node:
        """A loop over a coordinate that the sparse operand does not have."""
        inner = f"{coordinate.index}0"
        parallel = coordinate.name == self.schedule.parallel
        if coordinate.is_outer and any(c.name == inner for c in self.block.coordinates):
            widths, partial = self._widths(coordinate)
            return ForTiles(coordinate, widths, self._bind(d, coordinate, state), parallel, partial)
        extent = Extent(coordinate, coordinate.partner in state.bound)
        return ForDense(coordinate, extent, self._bind(d, coordinate, state), parallel)

    def _widths(self, coordinate: Coordinate) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Widths of whole tiles, and of masked ones for the rest.

        Without masks: every smaller power of two, any rest is a sum of these. With masks one tile serves any rest, by
        as many vectors as that needs; of wide blocks only powers of two are written, to bound the text.
        """
        tile, max_lanes = coordinate.split, self.nest.max_lanes
        lanes = lanes_of(tile, max_lanes)
        if self.block.vector != f"{coordinate.index}0" or lanes not in self.nest.masked_lanes:
            powers = tuple(1 << bit for bit in reversed(range(tile.bit_length())) if 1 << bit < tile)
            return (tile, *powers), ()
        n_vectors = tile // lanes
        length = self.copies * block_updates(self.block, max_lanes) * (n_vectors + 1) // 2
        every = range(1, n_vectors + 1)
        counts = every if length <= MAX_TAIL_UPDATES else [n for n in every if n & (n - 1) == 0 or n == n_vectors]
        return (tile,), tuple(lanes * n for n in counts)

    def _dense(self, d: int, coordinate: Coordinate, level: StoredLevel, state: _State) -> Node:
        """A loop over all coordinates of an uncompressed level, or a discordant one."""
        extent = Extent(coordinate, coordinate.partner in state.bound)
        parallel = coordinate.name == self.schedule.parallel
        weights = self._weights(level) if parallel and level.depth == state.depth else None
        return ForDense(coordinate, extent, self._bind(d, coordinate, state), parallel, weights)

    def _stored(self, d: int, level: StoredLevel, state: _State) -> Node:
        """A loop over the entries of a compressed level."""
        coordinate = level.coordinate
        inside = replace(state, depth=state.depth + 1, visits_all=False)
        body = self._bind(d, coordinate, inside)
        partner = self.nest.level_of(coordinate.partner) if coordinate.partner in state.bound else None
        if partner is not None and partner.depth > level.depth:  # bound by a loop that knew nothing of this path
            body = (Guard(coordinate), *body)
        parallel = coordinate.name == self.schedule.parallel
        weights = self._weights(level) if parallel else None
        innermost = len(body) == 1 and isinstance(body[0], Block) and state.open
        unroll = self.copies if innermost else 1
        vector = unroll >= MIN_GATHER_LANES and unroll & (unroll - 1) == 0 and self._gathers(coordinate)
        prefetch = self.schedule.prefetch if innermost else 0
        return ForStored(level, body, parallel, weights, unroll, vector, prefetch)

    def _gathers(self, coordinate: Coordinate) -> bool:
        """Whether stored coordinates are offsets into a dense vector: entries can be lanes."""
        is_offset = coordinate.split == 1 or not coordinate.is_outer
        return is_offset and not self.block.coordinates and not self.nest.expression.dense_indices

    def _weights(self, level: StoredLevel) -> StoredLevel | None:
        below = self.nest.levels[level.depth + 1 : level.depth + 2]
        return below[0] if below and below[0].kind == "C" else None

    def _workspace(self, d: int, state: _State) -> Node:
        outer = self.nest.order[:d]
        sums = tuple(c.name for c in outer if not self.nest.is_output(c))
        self.init = "load" if not state.visits_all else "first" if sums else "zero"
        body = self._loops(d, replace(state, open=True))
        innermost = any(isinstance(node, ForStored) and node.unroll > 1 for node in walk(body))
        copies = self.copies if innermost else 1
        first = sums if self.init == "first" else ()
        return Workspace(self.nest.expression.output, self.block, copies, self.init, first, self.padded, body)
