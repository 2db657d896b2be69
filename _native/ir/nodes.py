"""Loop IR: what a kernel does, as a tree of frozen nodes that prints itself. Emitters walk it.

Names: coordinate ``k1`` has a variable of its own name, its level's position is ``p_k1``; index ``k`` is
``k1*s + k0`` for split size s. A node says *which* loop and *how it reaches* the stored entries, not how a language
writes it down.
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
        """The index it is a part of."""
        return self.name[:-1]

    @property
    def is_outer(self) -> bool:
        """Whether it counts blocks."""
        return self.name.endswith("1")

    @property
    def partner(self) -> str | None:
        """Name of the other part of the same index; None when the index is not split."""
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
        """The extent; `partner` is the value of the other coordinate when that is bound."""
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
    """All coordinates of an extent, in order."""

    coordinate: Coordinate
    extent: Extent
    body: tuple[Node, ...]
    parallel: bool = False
    weights: StoredLevel | None = None  # level whose pos array tells the work below each iteration

    def __str__(self) -> str:
        return f"{_mark(self.parallel)}for {self.coordinate.name} in 0..{self.extent}:"


@dataclass(frozen=True, slots=True)
class ForTiles:
    """Columns of a dense index in tiles of `split`; the body is written once per width, which is a constant inside.

    `widths` are those of whole tiles, the widest that fits is taken. What is left when none fits is one tile of the
    narrowest of `partial` (ascending) that holds it; lanes past the end are masked.
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
    """The entries that a compressed or nonunique level stores below its parent; binds its coordinate and position.

    `unroll` entries per step go to as many copies of the accumulators; `vector`: they are the lanes of one register.
    `jam`: each entry has a result of its own; those of one step are computed together, in one run of the body.
    `prefetch` entries ahead, the dense rows that will be read are fetched.
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
    """Position of a known coordinate in an uncompressed level: ``p = parent * extent + coordinate``."""

    level: StoredLevel
    extent: Extent

    def __str__(self) -> str:
        return f"p_{self.level.name} = {self.level.parent_position} * {self.extent} + {self.level.name}"


@dataclass(frozen=True, slots=True)
class Fetch:
    """The one coordinate that a singleton level has at its parent's position, which is its own too."""

    level: StoredLevel

    def __str__(self) -> str:
        name = self.level.name
        return f"p_{name} = {self.level.parent_position}, {name} = {name}_crd[p_{name}]"


@dataclass(frozen=True, slots=True)
class CoordinateSearch:
    """The positions of a known coordinate in a compressed level: none, one, or several where entries repeat."""

    level: StoredLevel
    body: tuple[Node, ...]

    def __str__(self) -> str:
        name = self.level.name
        return f"search p_{name} in {name}_pos[{self.level.parent_position}]..: {name}_crd[p_{name}] == {name}"


@dataclass(frozen=True, slots=True)
class Guard:
    """Leave this iteration unless index `index` is inside the operand."""

    coordinate: Coordinate

    def __str__(self) -> str:
        return f"skip unless {index_text(self.coordinate)} < n_{self.coordinate.index}"


@dataclass(frozen=True, slots=True)
class Block:
    """``output += sparse * dense...`` for the constant extents of `coordinates` at once (none: for one entry).

    `levels` are uncompressed levels located inside. A reduction index past the end of its operand is clamped (the
    stored value there is a padded zero), an output index past the end is computed and not stored. Operands named in
    `later` are left out: a workspace around multiplies by them.
    """

    coordinates: tuple[Coordinate, ...]  # outermost first; of extent `split`, or the tile's width for a dense index
    vector: str | None  # coordinate that becomes vector lanes
    levels: tuple[StoredLevel, ...]
    expression: IndexExpression
    later: tuple[str, ...] = ()

    @property
    def factors(self) -> tuple[Access, ...]:
        """What is multiplied here."""
        every = (self.expression.sparse, *self.expression.dense)
        return tuple(access for access in every if access.tensor not in self.later)

    def __str__(self) -> str:
        loops = ",".join(c.name for c in self.coordinates) or "-"
        what = " * ".join(map(str, self.factors)) or "1"
        return f"block [{loops}] lanes {self.vector or '-'}: {self.expression.output} += {what}"


@dataclass(frozen=True, slots=True)
class Mirror:
    """The same entry of a symmetric operand, seen from its column: ``output[k,:] += sparse[i,k] * dense[i,:]``.

    For entries off the diagonal; added to the output at once, which no workspace around holds: k < i.
    """

    block: Block

    def __str__(self) -> str:
        sparse, dense = self.block.expression.sparse, self.block.expression.dense[0]
        columns = "".join(f",{index}" for index in dense.indices[1:])
        return f"C[k{columns}] += {sparse} * {dense.tensor}[i{columns}] unless k == i"


@dataclass(frozen=True, slots=True)
class Workspace:
    """Accumulators for the block of the output that the body adds to; loaded before, stored after.

    `init` is "zero" (the body is the whole sum), "load" (the output holds a part of it), or "first": zero while all of
    `first` are 0, else load. `check`: values with padding may multiply an infinite dense value by a stored zero, so
    storing reports values that are not finite.

    `factors` do not depend on what the body sums over: sums start at zero, and each is multiplied by them when the body
    is done, then added to what the output held. A workspace of `depth` > 0 lies in one of depth - 1 and adds its
    products to that one's sums. Each cell has `ways` accumulators, which the vectors of one block take in turn.

    Where the output is sampled, cell (i, k) is the entry at its position: its result is stored where the operand's
    `origin` says, multiplied by the value there; positions without an entry are left out.
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
    """Set the output to zero."""

    output: Access

    def __str__(self) -> str:
        return f"{self.output} = 0"


@dataclass(frozen=True, slots=True)
class SumSlots:
    """``output += sparse * dense`` for one slice of a sliced level, whole: a result per lane, set and stored here.

    Lane l sums, over the slots of slice `i1`, its value times the dense value at its coordinate: one per lane, or,
    in slices that say so (`diagonals`), one per slot, of lane 0, which grows by one from lane to lane. `narrow`: slices
    may count coordinates from a base in 16 bits. Slot t of each `copies` goes to accumulator t; a rest of fewer slots
    to the first ones. Values and coordinates are fetched `prefetch` slots ahead. Which row a lane has is listed
    (`is_permuted`), or it is ``i1 * lanes + lane``; lanes past the last row are not stored. Lanes of short rows are
    padded with zeros: results that are not finite are reported. `numbered`: values are places in a table.
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


Node = (
    SumSlots
    | ForDense
    | ForTiles
    | ForStored
    | Locate
    | Fetch
    | CoordinateSearch
    | Guard
    | Block
    | Mirror
    | Workspace
    | Zero
)

LOOPS: Final = (ForDense, ForTiles, ForStored, CoordinateSearch, Workspace)


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel as IR: the expression, the split coordinates, the levels of the sparse operand, and the loops."""

    expression: IndexExpression
    levels: tuple[StoredLevel, ...]
    body: tuple[Node, ...]
    private: bool = False  # the parallel loop, outermost, sums: each part of it adds to an output of its own

    @property
    def needs_sorted(self) -> bool:
        """Whether some compressed level is searched (binary search wants sorted coordinates)."""
        return any(isinstance(node, CoordinateSearch) for node in walk(self.body))

    def __str__(self) -> str:
        levels = ",".join(f"{level.name}:{level.kind}" for level in self.levels)
        notes = "; outputs of their own for threads" if self.private else ""
        head = f"{self.expression}    # {self.expression.sparse.tensor}: {levels}{notes}"
        return "\n".join([head, *_lines(self.body, 0)])


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Every node, parents before children."""
    for node in nodes:
        yield node
        if isinstance(node, LOOPS):
            yield from walk(node.body)


def index_text(coordinate: Coordinate) -> str:
    """The index that `coordinate` is a part of, in terms of its coordinates."""
    index, split = coordinate.index, coordinate.split
    return f"{index}1" if split == 1 else f"({index}1*{split} + {index}0)"


def _mark(parallel: bool) -> str:
    return "parallel " if parallel else ""


def _lines(nodes: tuple[Node, ...], depth: int) -> Iterator[str]:
    for node in nodes:
        yield "  " * depth + str(node)
        if isinstance(node, LOOPS):
            yield from _lines(node.body, depth + 1)
