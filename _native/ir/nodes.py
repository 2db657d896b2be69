"""Nodes of the loop IR: a kernel as a tree of frozen nodes that prints itself, and that emitters traverse.

Names: coordinate ``k1`` is a variable of that name, its level's position is ``p_k1``; index ``k`` is ``k1*s + k0`` for
split size s. A node specifies a loop and how it reaches the stored entries, independently of the target language.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from autosparse.core.expression import Access, IndexExpression
from autosparse.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A loop variable: the outer (``x1 = x // split``) or inner (``x0 = x % split``) part of an index."""

    name: str
    split: int

    @property
    def index(self) -> str:
        """Index that the coordinate is a part of."""
        return self.name[:-1]

    @property
    def is_outer(self) -> bool:
        """Return whether the coordinate counts blocks."""
        return self.name.endswith("1")

    @property
    def partner(self) -> str | None:
        """Name of the other part of the same index; None if the index is not split."""
        return None if self.split == 1 else f"{self.index}{0 if self.is_outer else 1}"


@dataclass(frozen=True, slots=True)
class Extent:
    """Number of iterations of a dense loop over `coordinate` for an index of n elements, split in blocks of s.

    Outer: ceil(n / s), or ceil((n - inner) / s) once the inner coordinate is bound.
    Inner: s, or min(s, n - outer * s) once the outer coordinate is bound.
    """

    coordinate: Coordinate
    partner_bound: bool

    def value(self, n: int, partner: int) -> int:
        """Return the extent; `partner` is the value of the other coordinate if that is bound."""
        split, outer = self.coordinate.split, self.coordinate.is_outer
        if not self.partner_bound:
            return -(-n // split) if outer else split
        return max(0, -(-(n - partner) // split)) if outer else min(split, n - partner * split)

    def __str__(self) -> str:
        split, partner = self.coordinate.split, self.coordinate.partner
        n = f"n_{self.coordinate.index}"
        if self.coordinate.is_outer:
            rest = f"({n} - {partner})" if self.partner_bound else n
            return rest if split == 1 else f"ceil({rest} / {split})"
        return f"min({split}, {n} - {partner}*{split})" if self.partner_bound else str(split)


@dataclass(frozen=True, slots=True)
class StoredLevel:
    """One storage level: its depth, coordinate, kind ("U", "C", ...) and the coordinate of its parent level, if any."""

    depth: int
    coordinate: Coordinate
    kind: str
    parent: str | None

    @property
    def name(self) -> str:
        """Name of the coordinate, which names the level's arrays and position."""
        return self.coordinate.name

    @property
    def parent_position(self) -> str:
        """Variable that holds the parent's position ("0" for the first level)."""
        return "0" if self.parent is None else f"p_{self.parent}"


@dataclass(frozen=True, slots=True)
class ForDense:
    """A loop over all coordinates of an extent, in order."""

    coordinate: Coordinate
    extent: Extent
    body: tuple[Node, ...]
    parallel: bool = False
    weights: StoredLevel | None = None  # level whose pos array gives the work per iteration

    def __str__(self) -> str:
        return f"{_mark(self.parallel)}for {self.coordinate.name} in 0..{self.extent}:"


@dataclass(frozen=True, slots=True)
class ForTiles:
    """A loop over a dense index in tiles of `split` columns; the body is emitted once per width, which is constant
    inside.

    `widths` are those of whole tiles, of which the widest that fits is used. The rest becomes one tile of the
    narrowest sufficient width of `partial` (ascending), with masked lanes past the end.
    """

    coordinate: Coordinate
    widths: tuple[int, ...]
    body: tuple[Node, ...]
    parallel: bool = False
    partial: tuple[int, ...] = ()

    def __str__(self) -> str:
        index = self.coordinate.index
        return f"{_mark(self.parallel)}for {index} in tiles of {self.coordinate.split} of 0..n_{index}:"


@dataclass(frozen=True, slots=True)
class ForStored:
    """A loop over the entries that a compressed or nonunique level stores below its parent; it binds coordinate and
    position.

    `unroll` entries per step go to as many copies of the accumulators; with `vector` they are the lanes of one
    register. With `jam` each entry has its own result, and the entries of a step are computed together in one run of
    the body. Dense rows of entries `prefetch` ahead are prefetched.
    """

    level: StoredLevel
    body: tuple[Node, ...]
    parallel: bool = False
    weights: StoredLevel | None = None
    unroll: int = 1
    vector: bool = False
    prefetch: int = 0
    jam: bool = False

    def __str__(self) -> str:
        name = self.level.name
        parent = self.level.parent_position
        how = " as lanes" if self.vector else " jammed" if self.jam else ""
        notes = f"  # unroll {self.unroll}{how}" if self.unroll > 1 else ""
        notes += f"  # prefetch {self.prefetch} ahead" if self.prefetch else ""
        return f"{_mark(self.parallel)}for p_{name} in {name}_pos[{parent}]..: {name} = {name}_crd[p_{name}]{notes}"


@dataclass(frozen=True, slots=True)
class Locate:
    """Computation of the position of a known coordinate in an uncompressed level: ``p = parent * extent +
    coordinate``.
    """

    level: StoredLevel
    extent: Extent

    def __str__(self) -> str:
        return f"p_{self.level.name} = {self.level.parent_position} * {self.extent} + {self.level.name}"


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read of the only coordinate of a singleton level at its parent's position, which is its own position too."""

    level: StoredLevel

    def __str__(self) -> str:
        name = self.level.name
        return f"p_{name} = {self.level.parent_position}, {name} = {name}_crd[p_{name}]"


@dataclass(frozen=True, slots=True)
class CoordinateSearch:
    """Search for the positions of a known coordinate in a compressed level: none, one, or several if entries repeat."""

    level: StoredLevel
    body: tuple[Node, ...]

    def __str__(self) -> str:
        name = self.level.name
        return f"search p_{name} in {name}_pos[{self.level.parent_position}]..: {name}_crd[p_{name}] == {name}"


@dataclass(frozen=True, slots=True)
class Guard:
    """Skip of the iteration unless the coordinate's index lies inside the operand."""

    coordinate: Coordinate

    def __str__(self) -> str:
        return f"skip unless {index_text(self.coordinate)} < n_{self.coordinate.index}"


@dataclass(frozen=True, slots=True)
class Block:
    """``output += sparse * dense...`` for the constant extents of `coordinates` at once (none: for one entry).

    `levels` are uncompressed levels located inside. A reduction index past the end of its operand is clamped (the
    stored value there is a padding zero); an output index past the end is computed and not stored. Operands named in
    `later` are left out, because an enclosing workspace multiplies by them.
    """

    coordinates: tuple[Coordinate, ...]  # outermost first; of extent `split`, or the tile's width for a dense index
    vector: str | None  # coordinate that becomes vector lanes
    levels: tuple[StoredLevel, ...]
    expression: IndexExpression
    later: tuple[str, ...] = ()

    @property
    def factors(self) -> tuple[Access, ...]:
        """Operands that are multiplied here."""
        every = (self.expression.sparse, *self.expression.dense)
        return tuple(access for access in every if access.tensor not in self.later)

    def __str__(self) -> str:
        loops = ",".join(c.name for c in self.coordinates) or "-"
        what = " * ".join(map(str, self.factors)) or "1"
        return f"block [{loops}] lanes {self.vector or '-'}: {self.expression.output} += {what}"


@dataclass(frozen=True, slots=True)
class Workspace:
    """Accumulators for the block of the output that the body adds to; loaded before, stored after.

    `init` is "zero" (the body is the whole sum), "load" (the output holds a part of it), or "first": zero while all of
    `first` are 0, else load. `check`: padding may multiply an infinite dense value by a stored zero, so storing
    reports values that are not finite.

    `factors` do not depend on the indices that the body sums over: sums start at zero, are multiplied by the factors
    when the body is done, and are then added to the previous output. A workspace of `depth` > 0 lies in one of depth -
    1 and adds its products to the sums of that one. Each cell has `ways` accumulators, which the vectors of one block
    use in turn.

    If the output is sampled, cell (i, k) is the entry at its position. Its result is stored at the operand's `origin`,
    multiplied by the value there; positions without an entry are left out.
    """

    output: Access
    block: Block
    copies: int
    init: str
    first: tuple[str, ...]
    check: bool
    body: tuple[Node, ...]
    factors: tuple[Access, ...] = ()
    depth: int = 0
    ways: int = 1

    def __str__(self) -> str:
        init = "zero" if self.init == "zero" else "load" if self.init == "load" else f"load unless first {self.first}"
        copies = (f" x {self.copies}" if self.copies > 1 else "") + (f" x {self.ways} ways" if self.ways > 1 else "")
        what = f"part {self.depth} of {self.output}" if self.depth else str(self.output)
        times = f", times {' * '.join(map(str, self.factors))}" if self.factors else ""
        return f"accumulate {what}{copies} ({init}{', check finite' if self.check else ''}{times}):"


@dataclass(frozen=True, slots=True)
class Zero:
    """Assignment of zero to the whole output."""

    output: Access

    def __str__(self) -> str:
        return f"{self.output} = 0"


@dataclass(frozen=True, slots=True)
class SumSlots:
    """``output += sparse * dense`` for one whole slice of a sliced level: one result per lane, set and stored here.

    Lane l sums, over the slots of slice `i1`, its value times the dense value at its coordinate. There is one
    coordinate per lane or, in slices stored by `diagonals`, one per slot, of lane 0, which increases by one per lane.
    `narrow`: slices may store 16-bit coordinates relative to a base. Slot t of each `copies` goes to accumulator t, a
    shorter rest to the first ones. Values and coordinates are prefetched `prefetch` slots ahead.

    The row of a lane is listed (`is_permuted`), or it is ``i1 * lanes + lane``; lanes past the last row are not
    stored. Lanes of short rows are padded with zeros, so results that are not finite are reported. `numbered`: values
    are indices into a table.
    """

    level: StoredLevel
    lanes: Coordinate
    expression: IndexExpression
    copies: int
    is_permuted: bool
    diagonals: bool
    narrow: bool
    prefetch: int
    numbered: bool = False

    def __str__(self) -> str:
        name, lane = self.level.name, self.lanes.name
        row = f"rows[i1,{lane}]" if self.is_permuted else f"i1*{self.lanes.split} + {lane}"
        column = f"{name}_crd[p_{name},{lane}]" + (f" or {name}_crd[p_{name}] + {lane}" if self.diagonals else "")
        notes = f"{self.copies} copies, check finite" + (", 16 bits from a base" if self.narrow else "")
        notes += f", prefetch {self.prefetch} ahead" if self.prefetch else ""
        notes += ", values from a table" if self.numbered else ""
        head = f"for p_{name} in {name}_pos[i1]..: lanes {lane} in 0..{self.lanes.split}:"
        return f"{head} {self.expression}, i = {row}, k = {column}  # {notes}"


Node = SumSlots | ForDense | ForTiles | ForStored | Locate | Fetch | CoordinateSearch | Guard | Block | Workspace | Zero

LOOPS: Final = (ForDense, ForTiles, ForStored, CoordinateSearch, Workspace)


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel as IR: the expression, the split coordinates, the levels of the sparse operand, and the loops."""

    expression: IndexExpression
    levels: tuple[StoredLevel, ...]
    body: tuple[Node, ...]
    private: bool = False  # the outermost, parallel loop sums: each thread adds to a private output

    @property
    def needs_sorted(self) -> bool:
        """Return whether some compressed level is searched, which requires sorted coordinates."""
        return any(isinstance(node, CoordinateSearch) for node in walk(self.body))

    def __str__(self) -> str:
        levels = ",".join(f"{level.name}:{level.kind}" for level in self.levels)
        notes = "; outputs of their own for threads" if self.private else ""
        head = f"{self.expression}    # {self.expression.sparse.tensor}: {levels}{notes}"
        return "\n".join([head, *_lines(self.body, 0)])


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Yield every node, parents before children."""
    for node in nodes:
        yield node
        if isinstance(node, LOOPS):
            yield from walk(node.body)


def index_text(coordinate: Coordinate) -> str:
    """Return the text of the index that `coordinate` is a part of, in terms of its coordinates."""
    index, split = coordinate.index, coordinate.split
    return f"{index}1" if split == 1 else f"({index}1*{split} + {index}0)"


def _mark(parallel: bool) -> str:
    return "parallel " if parallel else ""


def _lines(nodes: tuple[Node, ...], depth: int) -> Iterator[str]:
    for node in nodes:
        yield "  " * depth + str(node)
        if isinstance(node, LOOPS):
            yield from _lines(node.body, depth + 1)
