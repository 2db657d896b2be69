"""Task sets: unions of queries ``{[bound indices] | conjunction}`` as bit masks, with containment and minimal forms."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autosparse.contraction.cost.queries import Atoms, Predicate, Predicates, homomorphism


@dataclass(frozen=True, slots=True)
class Query:
    """Query ``{[heads] | conjunction}``: heads as a bit mask over the indices, the conjunction by its number."""

    heads: int
    conjunction: int


@dataclass(frozen=True, slots=True)
class PlainQuery:
    """Query with its atoms instead of a number, as needed to estimate its size on given patterns."""

    heads: int
    atoms: Atoms


class TaskSets:
    """Interned queries of one kernel; a set of tasks is an integer with one bit per query.

    `dimensions` gives the dimension of each index; indices of equal dimension have interchangeable ranges. The
    conjunction `assumed` is added to every query.
    """

    def __init__(self, predicates: Predicates, dimensions: Sequence[str], assumed: int) -> None:
        self.predicates = predicates
        self.queries: list[Query] = []
        self._dimensions = tuple(dimensions)
        self._are_distinct = len(set(dimensions)) == len(self._dimensions)
        self._assumed = assumed
        self._ids: dict[Query, int] = {}
        self._wider: list[int] = []
        self._emitted: dict[tuple[int, Predicate], int] = {}
        self._minimal: dict[int, int] = {0: 0}
        self._patterns: dict[tuple[str, tuple[int, ...]], int] = {}
        self._wants: dict[tuple[int, int], int] = {}
        self._offers: dict[int, int] = {}

    @property
    def plain(self) -> tuple[PlainQuery, ...]:
        """All queries created so far, in the order of the bits of task sets."""
        return tuple(PlainQuery(one.heads, self.predicates.atoms[one.conjunction]) for one in self.queries)

    def emit(self, heads: int, guard: Predicate) -> int:
        """Return a set of tasks: a query with the indices `heads` for each conjunction of the predicate `guard`."""
        found = self._emitted.get((heads, guard))
        if found is None:
            found = 0
            for conjunction in guard:
                found |= 1 << self._number(heads, self.predicates.join(conjunction, self._assumed))
            self._emitted[heads, guard] = found
        return found

    def minimal(self, tasks: int) -> int:
        """Return the set `tasks` without queries that are contained in another of its queries."""
        found = self._minimal.get(tasks)
        if found is None:
            found = 0
            for number in bits(tasks):
                if not self._wider[number] & tasks:
                    found |= 1 << number
            self._minimal[tasks] = found
        return found

    def is_within(self, one: int, other: int) -> bool:
        """Return whether every task of `one` is a task of `other`, for all inputs."""
        return all((self._wider[number] | 1 << number) & other for number in bits(one & ~other))

    def show(self, tasks: int, indices: Sequence[str]) -> str:
        """Return the set as text: ``{[i,j] | B[i,j]} ∪ …``."""
        return " ∪ ".join(self._show_one(self.queries[number], indices) for number in bits(self.minimal(tasks)))

    def _show_one(self, query: Query, indices: Sequence[str]) -> str:
        def name(variable: int) -> str:
            return indices[variable] if variable < len(indices) else "_" + str(variable - len(indices) + 1)

        heads = ",".join(index for n, index in enumerate(indices) if query.heads >> n & 1)
        atoms = self.predicates.atoms[query.conjunction]
        shown = " ∧ ".join(f"{tensor}[{','.join(map(name, args))}]" for tensor, args in atoms)
        return f"{{[{heads}] | {shown}}}" if shown else f"{{[{heads}]}}"

    def _number(self, heads: int, conjunction: int) -> int:
        query = Query(heads, conjunction)
        known = self._ids.get(query)
        if known is not None:
            return known
        number = len(self.queries)
        wider = 0
        for other, known_query in enumerate(self.queries):
            if self._are_distinct and heads & ~known_query.heads and known_query.heads & ~heads:
                continue  # the common case: neither has all of the other's heads
            is_below, is_above = self._contains(known_query, query), self._contains(query, known_query)
            if is_below and is_above:
                self._ids[query] = other
                return other
            if is_below:
                wider |= 1 << other
            if is_above:
                self._wider[other] |= 1 << number
        self.queries.append(query)
        self._wider.append(wider)
        self._ids[query] = number
        return number

    def _contains(self, wide: Query, narrow: Query) -> bool:
        """Return whether ``narrow ⊆ wide``, by injective maps between heads of equal dimension."""
        if self._are_distinct and (
            narrow.heads & ~wide.heads
            or self._wanted(wide.conjunction, narrow.heads) & ~self._offered(narrow.conjunction)
        ):
            return False
        source, target = (self.predicates.atoms[query.conjunction] for query in (wide, narrow))
        if not {tensor for tensor, _ in source} <= {tensor for tensor, _ in target}:
            return False
        return any(homomorphism(source, target, fixed) is not None for fixed in self._head_maps(wide, narrow))

    def _wanted(self, conjunction: int, heads: int) -> int:
        """Return a mask of argument patterns that another conjunction must offer to be the image of this one.

        An argument pattern is a tensor with the arguments in `heads` given and all others open.
        """
        found = self._wants.get((conjunction, heads))
        if found is None:
            found = 0
            for tensor, args in self.predicates.atoms[conjunction]:
                found |= self._pattern(tensor, tuple(v if heads >> v & 1 else -1 for v in args))
            self._wants[conjunction, heads] = found
        return found

    def _offered(self, conjunction: int) -> int:
        """Return a mask of the argument patterns (see `_wanted`) that some atom of the conjunction fits."""
        found = self._offers.get(conjunction)
        if found is None:
            found = 0
            for tensor, args in self.predicates.atoms[conjunction]:
                for kept in itertools.product((True, False), repeat=len(args)):
                    found |= self._pattern(tensor, tuple(v if keep else -1 for v, keep in zip(args, kept, strict=True)))
            self._offers[conjunction] = found
        return found

    def _pattern(self, tensor: str, args: tuple[int, ...]) -> int:
        return 1 << self._patterns.setdefault((tensor, args), len(self._patterns))

    def _head_maps(self, wide: Query, narrow: Query) -> Iterator[Mapping[int, int]]:
        """Yield maps from heads of `wide` to all heads of `narrow`; the other heads of `wide` are left open."""
        narrow_heads = list(bits(narrow.heads))
        if self._are_distinct:
            yield {v: v for v in narrow_heads}
            return
        for chosen in itertools.permutations(bits(wide.heads), len(narrow_heads)):
            if all(self._dimensions[a] == self._dimensions[b] for a, b in zip(chosen, narrow_heads, strict=True)):
                yield dict(zip(chosen, narrow_heads, strict=True))


def bits(mask: int) -> Iterator[int]:
    """Yield the positions of the set bits of `mask`, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def undominated(sets: TaskSets, costs: Iterable[int]) -> tuple[int, ...]:
    """Return the costs (sets of tasks) that are not dominated; a cost dominates others that strictly contain it."""
    frontier: list[int] = []
    for cost in sorted(costs, key=lambda tasks: (tasks.bit_count(), tasks)):
        if any(sets.is_within(best, cost) and not sets.is_within(cost, best) for best in frontier):
            continue
        frontier = [best for best in frontier if not sets.is_within(cost, best) or sets.is_within(best, cost)]
        frontier.append(cost)
    return tuple(frontier)
