"""Conjunctive predicates, minimised and interned, so that equivalent conjunctions have equal numbers.

Variables 0 … n-1 are the loop indices; larger ones are existential. ``∃x B[0,x] ∧ C[x,1]`` is the set of atoms ``{("B",
(0, x)), ("C", (x, 1))}``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

Atom: TypeAlias = tuple[str, tuple[int, ...]]
Atoms: TypeAlias = tuple[Atom, ...]
Predicate: TypeAlias = tuple[int, ...]
"""Union of conjunctions, by their numbers in ascending order; () is false."""

FALSE: Final[Predicate] = ()
"""Predicate that never holds."""


def homomorphism(source: Iterable[Atom], target: Iterable[Atom], fixed: Mapping[int, int]) -> dict[int, int] | None:
    """Return a map of variables that extends `fixed` and sends every atom of `source` to one of `target`, or None.

    Variables that are not in `fixed` may map to any variable.
    """
    by_tensor: dict[str, list[tuple[int, ...]]] = {}
    for tensor, args in target:
        by_tensor.setdefault(tensor, []).append(args)
    todo = sorted(source, key=lambda atom: len(by_tensor.get(atom[0], ())))
    return _extend(todo, 0, by_tensor, dict(fixed))


def _extend(
    todo: list[Atom], at: int, by_tensor: Mapping[str, list[tuple[int, ...]]], mapping: dict[int, int]
) -> dict[int, int] | None:
    if at == len(todo):
        return mapping
    tensor, args = todo[at]
    for image in by_tensor.get(tensor, ()):
        extended = mapping
        for variable, value in zip(args, image, strict=True):
            known = extended.get(variable)
            if known is None:
                if extended is mapping:
                    extended = dict(mapping)
                extended[variable] = value
            elif known != value:
                break
        else:
            found = _extend(todo, at + 1, by_tensor, extended)
            if found is not None:
                return found
    return None


def minimised(atoms: Iterable[Atom], n_free: int) -> frozenset[Atom]:
    """Return the smallest equivalent set of atoms, with the free variables 0 … n_free-1 unchanged (the core)."""
    kept = frozenset(atoms)
    if len({tensor for tensor, _ in kept}) == len(kept):
        return kept
    fixed = {variable: variable for variable in range(n_free)}
    while True:
        for atom in sorted(kept):
            if any(other[0] == atom[0] for other in kept if other != atom):
                image = homomorphism(kept, kept - {atom}, fixed)
                if image is not None:
                    kept = frozenset((tensor, tuple(image[v] for v in args)) for tensor, args in kept)
                    break
        else:
            return kept


def canonical(atoms: Iterable[Atom], n_free: int) -> Atoms:
    """Return the atoms with existential variables renumbered from `n_free`, sorted; isomorphic sets become equal."""
    kept = list(atoms)
    groups = _groups(kept, n_free)
    best: Atoms | None = None
    for choice in itertools.product(*map(itertools.permutations, groups)):
        names = {variable: n_free + n for n, variable in enumerate(itertools.chain(*choice))}
        named = tuple(sorted((tensor, tuple(names.get(v, v) for v in args)) for tensor, args in kept))
        if best is None or named < best:
            best = named
    assert best is not None
    return best


def _groups(atoms: list[Atom], n_free: int) -> list[list[int]]:
    """Return groups of existential variables (>= `n_free`) that occur alike, in an isomorphism-invariant order."""
    colours: dict[int, int] = {v: 0 for _, args in atoms for v in args if v >= n_free}
    for _ in range(3):
        if len(set(colours.values())) == len(colours):
            break
        seen: dict[int, list[object]] = {variable: [] for variable in colours}
        for tensor, args in atoms:
            shown = tuple(v if v < n_free else -1 - colours[v] for v in args)
            for place, variable in enumerate(args):
                if variable >= n_free:
                    seen[variable].append((tensor, place, shown))
        keys = {variable: repr((colours[variable], sorted(map(repr, seen[variable])))) for variable in colours}
        ranks = {key: rank for rank, key in enumerate(sorted(set(keys.values())))}
        colours = {variable: ranks[key] for variable, key in keys.items()}
    grouped: dict[int, list[int]] = {}
    for variable in sorted(colours):
        grouped.setdefault(colours[variable], []).append(variable)
    return [grouped[colour] for colour in sorted(grouped)]


class Predicates:
    """Unions of interned conjunctions over `n_free` indices, with cached conjunction, projection and union."""

    def __init__(self, n_free: int) -> None:
        self.n_free = n_free
        self.atoms: list[Atoms] = []
        self._ids: dict[Atoms, int] = {}
        self._raw: dict[frozenset[Atom], int] = {}
        self._implied: dict[tuple[int, int], bool] = {}
        self._joined: dict[tuple[int, int], int] = {}
        self._hidden: dict[tuple[int, int], int] = {}
        self._and: dict[tuple[Predicate, Predicate], Predicate] = {}
        self._or: dict[tuple[Predicate, Predicate], Predicate] = {}
        self._exists: dict[tuple[Predicate, int], Predicate] = {}
        self.true: Predicate = (self.conjunction(()),)

    def conjunction(self, atoms: Iterable[Atom]) -> int:
        """Return the number of the conjunction of `atoms`; equivalent conjunctions share one number."""
        raw = frozenset(atoms)
        if (known := self._raw.get(raw)) is not None:
            return known
        form = canonical(minimised(raw, self.n_free), self.n_free)
        number = self._ids.get(form)
        if number is None:
            number = self._ids[form] = len(self.atoms)
            self.atoms.append(form)
        self._raw[raw] = number
        return number

    def join(self, one: int, other: int) -> int:
        """Return the number of ``one ∧ other``, given the numbers of two conjunctions."""
        key = (one, other) if one <= other else (other, one)
        found = self._joined.get(key)
        if found is None:
            shift = 1 + max((v for _, args in self.atoms[one] for v in args), default=0)
            moved = [
                (tensor, tuple(v if v < self.n_free else v + shift for v in args)) for tensor, args in self.atoms[other]
            ]
            found = self._joined[key] = self.conjunction([*self.atoms[one], *moved])
        return found

    def project(self, one: int, mask: int) -> int:
        """Return the number of ``∃ indices: one`` for the conjunction `one`; the bit mask `mask` gives the indices."""
        found = self._hidden.get((one, mask))
        if found is None:
            top = 1 + max((v for _, args in self.atoms[one] for v in args), default=0)
            base = max(top, self.n_free)
            hidden = {v: base + v for v in range(self.n_free) if mask >> v & 1}
            moved = [(tensor, tuple(hidden.get(v, v) for v in args)) for tensor, args in self.atoms[one]]
            found = self._hidden[one, mask] = self.conjunction(moved)
        return found

    def implies(self, one: int, other: int) -> bool:
        """Return whether conjunction `one` implies conjunction `other`."""
        found = self._implied.get((one, other))
        if found is None:
            fixed = {v: v for v in range(self.n_free)}
            found = homomorphism(self.atoms[other], self.atoms[one], fixed) is not None
            self._implied[one, other] = found
        return found

    def both(self, one: Predicate, other: Predicate) -> Predicate:
        """Return the predicate ``one ∧ other``."""
        if one in (self.true, other):
            return other
        if other == self.true:
            return one
        found = self._and.get((one, other))
        if found is None:
            found = self._and[one, other] = self._absorbed(self.join(a, b) for a in one for b in other)
        return found

    def either(self, one: Predicate, other: Predicate) -> Predicate:
        """Return the predicate ``one ∨ other``."""
        if not one or one == other:
            return other
        if not other:
            return one
        found = self._or.get((one, other))
        if found is None:
            found = self._or[one, other] = self._absorbed((*one, *other))
        return found

    def exists(self, one: Predicate, mask: int) -> Predicate:
        """Return the predicate `one` with the indices in the bit mask `mask` existentially quantified."""
        if not mask:
            return one
        found = self._exists.get((one, mask))
        if found is None:
            found = self._exists[one, mask] = self._absorbed(self.project(a, mask) for a in one)
        return found

    def _absorbed(self, numbers: Iterable[int]) -> Predicate:
        """Return the union of these conjunctions as a predicate, without conjunctions that imply another one."""
        distinct = sorted(set(numbers))
        if len(distinct) == 1:
            return (distinct[0],)
        return tuple(a for a in distinct if not any(a != b and self.implies(a, b) for b in distinct))
