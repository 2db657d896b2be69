"""Reference of the simulated accelerator in Python: the counts of `accelerators.simulate`, tile by tile."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator

from autosparse.tuner.research.targets.accelerator import Configuration, Machine
from autosparse.tuner.research.targets.simulation import (
    VALUE_BYTES,
    Accelerated,
    Traffic,
    operation_named,
    row_order,
)

from autosparse.core.pattern import Pattern

COUNTS = ("dram_bytes", "llc_bytes", "port_bytes", "l1_misses", "llc_misses", "vectors", "n_tiles")
Tile = list[tuple[int, int]]  # (row, column) of each entry
Tiles = dict[tuple[int, int], Tile]  # (row panel, column panel) -> entries, in the order of both


def simulate(
    pattern: Pattern, configuration: Configuration, *, machine: Machine, operation: str, n_columns: int
) -> Traffic:
    """Return the cost of one product; raise RecordError for an unknown operation."""
    accelerated = operation_named(operation)
    tiles = _tiles(pattern, configuration)
    n_whole, rest = divmod(n_columns, configuration.split)
    widths = [configuration.split] * n_whole + [rest] * (rest > 0)
    passes = {width: _Pass(machine, accelerated, configuration, pattern, width) for width in dict.fromkeys(widths)}
    for one in passes.values():
        one.run(tiles)
    cycles = 0.0
    for at, width in enumerate(widths):
        cycles += passes[width].cycles[at > 0]
    entries = pattern.nnz * (accelerated.first_entry_bytes + (len(widths) - 1) * accelerated.later_entry_bytes)
    total = {name: sum(passes[width].counts[name] for width in widths) for name in COUNTS}
    total["dram_bytes"] += entries if widths else 0
    return Traffic(cycles=cycles, **total)


def _tiles(pattern: Pattern, configuration: Configuration) -> Tiles:
    tiles: Tiles = {}
    for place, row in enumerate(row_order(pattern, configuration).tolist()):
        for column in pattern.indices[pattern.indptr[row] : pattern.indptr[row + 1]].tolist():
            key = (place // configuration.p_row, column // configuration.p_col)
            tiles.setdefault(key, []).append((row, column))
    return dict(sorted(tiles.items()))


class _Cache:
    """Exact LRU cache of at most `capacity` segments."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._held = capacity, OrderedDict[object, None]()

    def touch(self, key: object) -> bool:
        """Access `key` and return whether it was a hit."""
        is_hit = key in self._held
        self._held[key] = None
        self._held.move_to_end(key)
        if len(self._held) > self._capacity:
            self._held.popitem(last=False)
        return is_hit


class _Pass:
    """Simulation of one pass over all tiles for dense rows of `width` columns.

    `cycles` are those as a first and as a later split.
    """

    def __init__(
        self, machine: Machine, operation: Accelerated, configuration: Configuration, pattern: Pattern, width: int
    ) -> None:
        self._machine, self._operation, self._configuration = machine, operation, configuration
        self._segment, self._vectors = VALUE_BYTES * width, -(-width // machine.lanes)
        self._l1 = [_Cache(machine.l1_bytes // self._segment) for _ in range(machine.n_pes)]
        self._llc = _Cache(machine.llc_bytes // self._segment)
        self._begun: set[int] = set()
        self.cycles = [0.0, 0.0]
        self.counts = dict.fromkeys(COUNTS, 0)
        self._begin_interval()

    def _begin_interval(self) -> None:
        n_pes = self._machine.n_pes
        self._compute, self._port = [0] * n_pes, [0] * n_pes
        self._llc_bytes = self._dram_bytes = self._entries = 0

    def run(self, tiles: Tiles) -> None:
        """Simulate `tiles`: all of them in one interval, or, with a barrier, each column panel in its own interval."""
        panels = sorted({panel for _, panel in tiles}) if self._configuration.barrier else [None]
        for panel in panels if tiles else ():
            for pe, tile in _in_turn({key: tiles[key] for key in tiles if panel in (None, key[1])}, len(self._l1)):
                self._run_tile(pe, tile)
            self._end_interval()

    def _run_tile(self, pe: int, tile: Tile) -> None:
        self._compute[pe] += self._machine.tile_cycles
        self.counts["n_tiles"] += 1
        before = -1
        for row, column in tile:
            if row != before:
                self._begin_row(pe, row)
            before = row
            self._compute[pe] += self._vectors
            self.counts["vectors"] += self._vectors
            self._entries += 1
            self._touch(pe, ("column", column), self._segment)

    def _begin_row(self, pe: int, row: int) -> None:
        moves = self._operation.later_moves if row in self._begun else self._operation.first_moves
        self._begun.add(row)
        vectors = self._operation.row_vectors * self._vectors
        self._compute[pe] += vectors
        self.counts["vectors"] += vectors
        if self._configuration.bypass:
            self._port[pe] += moves * self._segment
            self._dram_bytes += moves * self._segment
        else:
            self._touch(pe, ("row", row), moves * self._segment)

    def _touch(self, pe: int, key: object, moved: int) -> None:
        if self._l1[pe].touch(key):
            return
        self.counts["l1_misses"] += 1
        self._port[pe] += moved
        self._llc_bytes += moved
        if not self._llc.touch(key):
            self.counts["llc_misses"] += 1
            self._dram_bytes += moved

    def _end_interval(self) -> None:
        machine, operation = self._machine, self._operation
        ports = [port / machine.port_bytes_per_cycle for port in self._port]
        slowest = max(*map(float, self._compute), *ports, self._llc_bytes / machine.llc_bytes_per_cycle)
        for at, entry_bytes in enumerate((operation.first_entry_bytes, operation.later_entry_bytes)):
            memory = (self._dram_bytes + self._entries * entry_bytes) / machine.dram_bytes_per_cycle
            self.cycles[at] += max(slowest, memory) + self._configuration.barrier * machine.barrier_cycles
        for name, more in (
            ("dram_bytes", self._dram_bytes), ("llc_bytes", self._llc_bytes), ("port_bytes", sum(self._port))
        ):  # fmt: skip
            self.counts[name] += more
        self._begin_interval()


def _in_turn(tiles: Tiles, n_pes: int) -> Iterator[tuple[int, Tile]]:
    """Yield (PE, tile) in the order of processing: PE `n` has the row panels n, n + n_pes, ..., a tile per turn."""
    queues = [deque(tile for (panel, _), tile in tiles.items() if panel % n_pes == pe) for pe in range(n_pes)]
    while any(queues):
        for pe, queue in enumerate(queues):
            if queue:
                yield pe, queue.popleft()
