"""Lowering of an index expression and a SuperSchedule to loop IR, by recursion over the schedule's loop order.

At each loop, the levels of the sparse operand determine how its coordinate is reached. If it is the coordinate of the
next unresolved level, the level iterates (concordant: WACO §3.1). If its level is deeper, the loop runs over the dense
extent (discordant), and the level is resolved later, by locate (U) or search (C), after its parents.
The innermost loops of constant extent become one register block. Accumulators are placed right inside the last loop
over an output coordinate outside the block. A factor that no inner loop changes is moved out of the sum: a separate
workspace holds the sum and is multiplied by the factor once (for MTTKRP, as in SPLATT, Smith et al. 2015).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from autosparse._native.ir.block import (
    MAX_ACCUMULATORS,
    MAX_UPDATES,
    Nest,
    block_accumulators,
    block_updates,
    choose_block,
    lanes_of,
)
from autosparse._native.ir.lower_slices import lower_slices, reason_unsupported
from autosparse._native.ir.nodes import (
    Block,
    Coordinate,
    CoordinateSearch,
    Extent,
    Fetch,
    ForDense,
    ForStored,
    ForTiles,
    Guard,
    Locate,
    Node,
    Program,
    StoredLevel,
    Workspace,
    Zero,
    walk,
)
from autosparse._native.ir.spec import (
    KernelSpec,
    expression_of,
    is_private,
    reason_cannot_add,
    reason_not_of_type,
    variant_of,
)

from autosparse.core.expression import Access, IndexExpression
from autosparse.core.formats import LevelKind
from autosparse.core.schedule import SuperSchedule
from autosparse.errors import ScheduleError
from autosparse.ops import OPS, Operation

MAX_TAIL_UPDATES: Final = 160
"""Maximum vector multiply-adds of all tiles for the last columns, if there is one tile per number of vectors."""

LISTED: Final = ("C", "N")
"""Kinds of levels whose stored entries a loop visits."""

MIN_CHAINS: Final = 4
"""Minimum number of accumulators of a sum along vectors: a multiply-add has a latency of four cycles."""

MIN_GATHER_LANES: Final = 4
"""Minimum number of accumulators for which the entries of a row become vector lanes."""


def supports(operation: str, schedule: SuperSchedule) -> str | None:
    """Return why `schedule` cannot be lowered for `operation`, or None if it can. The schedule must be legal."""
    if operation != schedule.operation or operation not in OPS:
        return f"operation {operation!r} has no index expression (known: {', '.join(OPS)})"
    row = OPS[operation]
    if reason := row.reason_not_lowered:
        return reason
    stored = {name[:-1] for name in schedule.format.order}
    expression = variant_of(operation, stored)
    if expression is None:
        wanted = " or ".join(str(variant.sparse) for variant in row.expressions)
        return f"format {schedule.format} stores {sorted(stored)}, but {wanted} is wanted"
    foreign = sorted(index for index, _ in schedule.dense_splits if index not in expression.dense_indices)
    if foreign:
        return f"{', '.join(foreign)} is no dense index of {expression}"
    if schedule.format.is_sliced:
        return reason_unsupported(schedule)
    return _reason_unable(row, schedule) or _reason_unsupported_threads(expression, schedule)


def _reason_unable(row: Operation, schedule: SuperSchedule) -> str | None:
    """Return the property of the format that kernels of the operation do not support, or None."""
    if schedule.format.values and "storage" not in row.abilities:
        return f"values={schedule.format.values}: {row.name} reads values as they are"
    if schedule.format.rows and "rows" not in row.abilities:
        return f"rows={schedule.format.rows}: results of {row.name} are in the order of the operand's own rows"
    if schedule.format.rows and not schedule.dense_splits and "i0" in schedule.format.order:
        return f"rows={schedule.format.rows}: rows that are vector lanes are written as neighbours"
    return None


def _reason_unsupported_threads(expression: IndexExpression, schedule: SuperSchedule) -> str | None:
    parallel = schedule.parallel
    if parallel[:-1] in expression.dense_indices and parallel.endswith("0"):
        return f"{parallel} runs inside a column tile: it is no loop for threads"
    kinds = {level.coordinate: level.kind for level in schedule.format.levels}
    if LevelKind.SINGLETON in kinds.values():
        stored = [name for name in schedule.loop_order if name in kinds]
        if stored != list(schedule.format.order):
            return "singleton levels can be visited only in the order of the format"
        if kinds.get(parallel) is LevelKind.SINGLETON:
            return f"{parallel} is a singleton level: it has no loop"
    if not is_private(schedule):
        return None
    if parallel[:-1] in expression.dense_indices:
        return f"the loop over {parallel} sums: threads would add to the same results"
    if parallel != schedule.loop_order[0]:
        return f"the loop over {parallel} sums: threads have results of their own only where it is the outermost loop"
    return None


def lower(spec: KernelSpec) -> Program:
    """Return the IR of `spec`. Raises ScheduleError if `supports` refuses the schedule."""
    reason = supports(spec.operation, spec.schedule) or reason_not_of_type(spec.schedule, spec.dtype)
    if reason := reason or (reason_cannot_add(spec.schedule) if spec.adds else None):
        raise ScheduleError.illegal(spec.schedule.to_json(), reason)
    if spec.schedule.format.is_sliced:
        return lower_slices(spec)
    nest = _nest_of(spec)
    lowering = _Lowering(nest, spec.schedule, adds=spec.adds)
    return Program(nest.expression, nest.levels, lowering.program_body(), lowering.private)


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
    """State at a point of the recursion."""

    bound: frozenset[str] = frozenset()  # coordinates
    depth: int = 0  # first level without a position
    visits_all: bool = True  # every iteration of the loops so far happens, whatever is stored
    open: bool = False  # inside the workspace
    later: tuple[str, ...] = ()  # operands by which the enclosing workspaces multiply
    n_parts: int = 0  # enclosing workspaces except the output's


class _Lowering:
    """State of one lowering: the nest, its block, and the positions of the workspaces."""

    def __init__(self, nest: Nest, schedule: SuperSchedule, *, adds: bool = False) -> None:
        self.nest = nest
        self.schedule = schedule
        self.adds = adds
        self.fetched = frozenset(level.name for level in nest.levels if level.kind == "Q")
        self.block = choose_block(nest)
        self.n_loops = len(nest.order) - len(self.block.coordinates)  # loops outside the block
        output_loops = [d for d in range(self.n_loops) if nest.is_output(nest.order[d])]
        self.workspace_at = output_loops[-1] + 1 if output_loops else 0
        self.copies = self._copies()
        self.padded = nest.levels[-1].kind == "U" and not nest.expression.sampled
        self.private = is_private(schedule)
        self.spoilt = False  # a factor may multiply an empty sum
        self.init = "zero"

    def program_body(self) -> tuple[Node, ...]:
        """Return all loops, after clearing the output if they do not write all of it."""
        body = self._loops(0, _State())
        return (Zero(self.nest.expression.output), *body) if self.init == "load" and not self.adds else body

    def _sums_inside(self, d: int) -> frozenset[str]:
        """Return the indices that the loops from the d-th inwards, or the block, sum over."""
        inside = (*self.nest.order[d : self.n_loops], *self.block.coordinates)
        outside = {c.name for c in self.nest.order[:d]}
        is_one_entry = any(level.kind == "N" and level.name in outside for level in self.nest.levels)
        fixed = self.fetched if is_one_entry else frozenset()
        return frozenset(c.index for c in inside if not self.nest.is_output(c) and c.name not in fixed)

    def _last_loop(self, end: int) -> int:
        """Return the position of the last loop before the `end`-th, not counting singletons, or -1."""
        return max((d for d in range(end) if self.nest.order[d].name not in self.fetched), default=-1)

    def _factors(self, d: int, state: _State) -> tuple[Access, ...]:
        """Return the operands by which the sum of the loops from the d-th inwards can be multiplied once."""
        expression, summed = self.nest.expression, self._sums_inside(d)
        if not summed and not expression.sampled:
            return ()
        every = (expression.sparse, *expression.dense) if summed else (expression.sparse,)
        free = (access for access in every if summed.isdisjoint(access.indices))
        return tuple(access for access in free if access.tensor not in state.later)

    def _copies(self) -> int:
        """Return the number of accumulator copies: `unroll`, limited by registers and the shape of the nest."""
        last = self._last_loop(self.n_loops)
        level = self.nest.level_of(self.nest.order[last].name) if last >= 0 else None
        if level is None or level.kind not in LISTED or self.workspace_at > last:
            return 1
        return self._most_copies()

    def _most_copies(self) -> int:
        copies = self.schedule.unroll
        while copies > 1 and copies * block_accumulators(self.block, self.nest.max_lanes) > MAX_ACCUMULATORS:
            copies //= 2
        return copies

    def _loops(self, d: int, state: _State) -> tuple[Node, ...]:
        """Return the nodes for the loops from the d-th inwards."""
        if d == self.workspace_at and not state.open:
            return (self._workspace(d, state),)
        factors = self._factors(d, state) if state.open else ()
        if factors:
            return (self._part(d, state, factors),)
        if d == self.n_loops:
            return (replace(self.block, later=state.later),)
        coordinate = self.nest.order[d]
        level = self.nest.level_of(coordinate.name)
        if level is None:
            return (self._dense_index(d, coordinate, state),)
        if level.kind == "Q":
            return (Fetch(level), *self._bind(d, coordinate, replace(state, depth=state.depth + 1)))
        if level.depth == state.depth and level.kind in LISTED:
            return (self._stored(d, level, state),)
        return (self._dense(d, coordinate, level, state),)

    def _bind(self, d: int, coordinate: Coordinate, state: _State) -> tuple[Node, ...]:
        """Return the loops inside the d-th, after the levels that can be resolved once `coordinate` is bound."""
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
        return (CoordinateSearch(level, self._resolve(d, replace(below, visits_all=False))),)

    def _dense_index(self, d: int, coordinate: Coordinate, state: _State) -> Node:
        """Return a loop over a coordinate that the sparse operand does not have."""
        inner = f"{coordinate.index}0"
        parallel = coordinate.name == self.schedule.parallel
        if coordinate.is_outer and any(c.name == inner for c in self.block.coordinates):
            widths, partial = self._widths(coordinate, inside=state.open)
            return ForTiles(coordinate, widths, self._bind(d, coordinate, state), parallel, partial)
        extent = Extent(coordinate, coordinate.partner in state.bound)
        return ForDense(coordinate, extent, self._bind(d, coordinate, state), parallel)

    def _widths(self, coordinate: Coordinate, *, inside: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the widths of whole tiles and of masked tiles for the rest. Tiles `inside` are summed over.

        Without masks: every smaller power of two, which sum to any rest; inside, only whole vectors and 1. With masks,
        one tile serves any rest, with as many vectors as required. For wide blocks only powers of two are emitted, to
        bound the code size.
        """
        tile, max_lanes = coordinate.split, self.nest.max_lanes
        lanes = lanes_of(tile, max_lanes)
        if self.block.vector != f"{coordinate.index}0" or lanes not in self.nest.masked_lanes:
            powers = tuple(1 << bit for bit in reversed(range(tile.bit_length())) if 1 << bit < tile)
            return (tile, *(width for width in powers if not inside or width >= lanes or width == 1)), ()
        n_vectors = tile // lanes
        if self.nest.expression.sampled:  # emitted for every number of jammed entries, so only few widths
            if inside:
                return (tile, lanes)[: min(n_vectors, 2)], (lanes,)
            return (tile,), (lanes, tile)[: min(n_vectors, 2)]
        length = self.copies * block_updates(self.block, max_lanes) * (n_vectors + 1) // 2
        every = range(1, n_vectors + 1)
        counts = every if length <= MAX_TAIL_UPDATES else [n for n in every if n & (n - 1) == 0 or n == n_vectors]
        return (tile,), tuple(lanes * n for n in counts)

    def _dense(self, d: int, coordinate: Coordinate, level: StoredLevel, state: _State) -> Node:
        """Return a loop over all coordinates of an uncompressed level, or a discordant one."""
        extent = Extent(coordinate, coordinate.partner in state.bound)
        parallel = coordinate.name == self.schedule.parallel
        weights = self._weights(level) if parallel and level.depth == state.depth else None
        return ForDense(coordinate, extent, self._bind(d, coordinate, state), parallel, weights)

    def _stored(self, d: int, level: StoredLevel, state: _State) -> Node:
        """Return a loop over the entries of a compressed level."""
        coordinate = level.coordinate
        inside = replace(state, depth=state.depth + 1, visits_all=False)
        body = self._bind(d, coordinate, inside)
        partner = self.nest.level_of(coordinate.partner) if coordinate.partner in state.bound else None
        if partner is not None and partner.depth > level.depth:  # bound by an outer loop, independently of this path
            body = (Guard(coordinate), *body)
        parallel = coordinate.name == self.schedule.parallel
        weights = self._weights(level) if parallel else None
        alone = all(isinstance(node, Fetch) for node in body[:-1])
        innermost = alone and isinstance(body[-1], Block) and state.open
        if self.nest.expression.sampled:
            alone = alone and isinstance(body[-1], Workspace) and not parallel
            jam = self._jammed() if alone else 1
            prefetch = self.schedule.prefetch if alone else 0
            return ForStored(level, body, parallel, weights, jam, prefetch=prefetch, jam=jam > 1)
        unroll = self.copies if innermost else 1
        vector = (
            unroll >= MIN_GATHER_LANES and unroll & (unroll - 1) == 0 and not state.later and self._gathers(coordinate)
        )
        prefetch = self.schedule.prefetch if innermost else 0
        return ForStored(level, body, parallel, weights, unroll, vector, prefetch)

    def _jammed(self) -> int:
        """Return how many entries a sampled operation computes together in the innermost compressed level."""
        last = self.nest.order[self._last_loop(self.workspace_at)]
        level = self.nest.level_of(last.name)
        if level is None or level.kind not in LISTED or last.name == self.schedule.parallel:
            return 1
        copies, updates = self._most_copies(), block_updates(self.block, self.nest.max_lanes)
        while copies > 1 and copies * updates > MAX_UPDATES:
            copies //= 2
        return copies

    def _gathers(self, coordinate: Coordinate) -> bool:
        """Return whether stored coordinates are offsets into a dense vector, so that entries can be lanes."""
        is_offset = coordinate.split == 1 or not coordinate.is_outer
        expression = self.nest.expression
        return is_offset and not self.block.coordinates and not expression.dense_indices and len(expression.dense) == 1

    def _weights(self, level: StoredLevel) -> StoredLevel | None:
        below = self.nest.levels[level.depth + 1 : level.depth + 2]
        return below[0] if below and below[0].kind in LISTED else None

    def _workspace(self, d: int, state: _State) -> Node:
        """Return the accumulators of the output with the loops that they sum over."""
        nest = self.nest
        sums = tuple(c.name for c in nest.order[:d] if not nest.is_output(c))
        parts = not state.visits_all and not nest.expression.sampled
        self.init = "load" if parts or self.private or self.adds else "first" if sums else "zero"
        body, factors = self._inside(d, state)
        first = sums if self.init == "first" else ()
        check, copies, ways = self.padded or self.spoilt, self._copies_for(body), self._ways(body)
        return Workspace(nest.expression.output, self.block, copies, self.init, first, check, body, factors, 0, ways)

    def _part(self, d: int, state: _State, factors: tuple[Access, ...]) -> Node:
        """Return a workspace for the loops from the d-th inwards, whose sum is multiplied by `factors`."""
        depth = state.n_parts + 1
        body, _ = self._inside(d, replace(state, n_parts=depth))
        copies = self._copies_for(body)
        return Workspace(self.nest.expression.output, self.block, copies, "zero", (), False, body, factors, depth)

    def _inside(self, d: int, state: _State) -> tuple[tuple[Node, ...], tuple[Access, ...]]:
        """Return the body and the factors of a workspace around the loops from the d-th inwards."""
        factors = self._factors(d, state)
        later = (*state.later, *(access.tensor for access in factors))
        body = self._loops(d, replace(state, open=True, later=later))
        if factors and not self.nest.expression.sampled and not self._is_fed(body, state):
            self.spoilt = True  # an infinite factor times an empty sum is not zero
        return body, factors

    def _is_fed(self, body: tuple[Node, ...], state: _State) -> bool:
        """Return whether every run of `body` certainly meets a stored entry."""
        levels = self.nest.levels
        resolved = {level.name for level in levels[: state.depth]}
        loose = {level.name for level in levels} & state.bound - resolved
        is_listed = state.depth > 0 and levels[state.depth - 1].kind != "U"
        return is_listed and not loose and not any(isinstance(node, CoordinateSearch | Guard) for node in walk(body))

    def _copies_for(self, body: tuple[Node, ...]) -> int:
        """Return the number of accumulator copies: 1 unless `body` has an unrolled loop and no inner workspace."""
        nodes = tuple(walk(body))
        unrolled = any(isinstance(node, ForStored) and node.unroll > 1 for node in nodes)
        return self.copies if unrolled and not any(isinstance(node, Workspace) for node in nodes) else 1

    def _ways(self, body: tuple[Node, ...]) -> int:
        """Return the number of accumulators per cell, which makes sums along a vector's axis independent."""
        nest, block = self.nest, self.block
        axis = next((c for c in block.coordinates if c.name == block.vector), None)
        if not nest.expression.sampled or axis is None:
            return 1
        n_vectors = axis.split // lanes_of(axis.split, nest.max_lanes)
        at_once = block_accumulators(block, nest.max_lanes) * self._jammed()
        return max(1, min(n_vectors, MIN_CHAINS // at_once))
