"""Plans that compute an einsum by products, elementwise products and sums of one or two operands at a time.

A plan depends on the subscripts, the extents, and the rough numbers of entries. Its steps are names of functions, which
light matrices (`light.expressions`) and complete ones (`contraction.routes.by_pairs`) have in tables of their own.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import scipy.sparse as sps

from autosparse.light import INT32, INT32_MAX, INT64
from autosparse.light.expressions import EXACT, FINITE_RESULT, FOR_FINITE, Plan, Step, fits

MAX_OPERANDS: Final = 8
MAX_PLACES: Final = 1 << 27
"""Maximum extent of a sparse vector: arrays of that length are made."""
MAX_SAMPLED: Final = 1 << 17
"""Maximum number of multiplications of dot products of rows of two arrays at the entries of a matrix."""
MAX_TRIED: Final = 200
"""Maximum number of steps that are tried for a plan."""
BLAS_TERMS: Final = 1 << 16
"""Minimum number of multiplications of two dense matrices by a BLAS instead of NumPy's loop."""
SPARSE_COST: Final = 8.0
"""Cost of a multiplication in the product of two sparse matrices, in multiplications by a dense vector."""
MERGE_COST: Final = 4.0
"""The same of an entry of an operand of an elementwise product."""
TURNED_COST: Final = 1.5
"""The same of a multiplication by the transpose of a matrix."""


class _Value:
    """Operand or intermediate result: its indices, position and rough size."""

    __slots__ = ("at", "is_sparse", "letters", "size")

    def __init__(self, letters: str, is_sparse: bool, at: int, size: float) -> None:
        self.letters, self.is_sparse, self.at, self.size = letters, is_sparse, at, size


class _Planner:
    """Values that are left, and the steps so far."""

    def __init__(self, values: list[_Value], output: str, extents: Mapping[str, int]) -> None:
        self.left, self.output, self.extents, self.n = values, output, extents, len(values)
        self.n_operands = len(values)
        self.steps: list[Step] = []
        self.values = EXACT

    def needed(self, *values: _Value) -> set[str]:
        """Return the indices of the output and of all other values."""
        return set(self.output).union(*(one.letters for one in self.left if one not in values))

    def add(self, name: str, given: tuple[_Value, ...], letters: str, *, options: tuple[Any, ...] = (), sparse: bool,
            size: float) -> None:  # fmt: skip
        """Append a step; its result takes the place of the values that it reads."""
        self.steps.append((name, options, tuple(one.at for one in given)))
        if len(given) > 1 and any(one.at >= self.n_operands for one in given):
            self.values = max(self.values, FINITE_RESULT)
        self.left = [*(one for one in self.left if one not in given), _Value(letters, sparse, self.n, size)]
        self.n += 1

    def places(self, letters: str) -> float:
        """Return the number of elements of an array with these indices."""
        return math.prod(float(self.extents[one]) for one in letters)

    def reduce(self) -> None:
        """Take diagonals, and sum each value over indices that no other value and not the output has."""
        for one in list(self.left):
            needed = self.needed(one)
            kept = "".join(index for index in dict.fromkeys(one.letters) if index in needed)
            if kept == one.letters:
                continue
            if not one.is_sparse:
                is_sum = len(set(one.letters)) == len(one.letters)
                summed = tuple(axis for axis, index in enumerate(one.letters) if index not in kept)
                how = f"{one.letters}->{kept}", summed if is_sum else ()
                self.add("array", (one,), kept, options=how, sparse=False, size=self.places(kept))
                continue
            is_diagonal = one.letters[0] == one.letters[1]
            name = "diagonal" if is_diagonal else "total" if not kept else "sums"
            letters = one.letters[:1] if is_diagonal else kept
            options = (one.letters[1] == kept,) if name == "sums" else ()
            self.add(name, (one,), letters, options=options, sparse=False, size=self.places(letters))
            if letters != kept:
                self.reduce()
                return

    def takes_vectors(self, is_sparse: bool) -> bool:
        """Append the steps for sparse vectors: they become arrays, or their outer product is the sparse result."""
        vectors = [one for one in self.left if one.is_sparse and len(one.letters) == 1]
        if any(self.extents[one.letters] > MAX_PLACES for one in vectors):
            return False
        if not is_sparse:
            for one in vectors:
                self.values = FINITE_RESULT  # zeros of the array are multiplied, too
                self.add("dense", (one,), one.letters, sparse=False, size=self.places(one.letters))
        elif len(vectors) == len(self.left) == len(self.output) == 2:
            rows, cols = sorted(vectors, key=lambda one: self.output.index(one.letters))
            self.add("outer", (rows, cols), self.output, sparse=True, size=rows.size * cols.size)
        return not (is_sparse and vectors) or len(self.left) == 1

    def pairs(self) -> list[tuple[float, Callable[[], None]]]:
        """Return the cost of each step that is possible for two values, and the function that appends it."""
        found: list[tuple[float, Callable[[], None]]] = []
        for one, other in itertools.combinations(self.left, 2):
            needed = self.needed(one, other)
            if one.is_sparse and other.is_sparse:
                found += self._two_sparse(one, other, needed)
            elif one.is_sparse or other.is_sparse:
                found += self._mixed(*((one, other) if one.is_sparse else (other, one)), needed)
            else:
                found += self._two_dense(one, other, needed)
        for A, X, Y in itertools.permutations(self.left, 3):
            found += self._sampled(A, X, Y) if A.is_sparse and not (X.is_sparse or Y.is_sparse) else []
        return found

    def _sampled(self, A: _Value, X: _Value, Y: _Value) -> list[tuple[float, Callable[[], None]]]:
        """Return the step for the dot products of rows of X and Y at the entries of A, if the indices are so."""
        rows, cols = X.letters.replace(A.letters[0], ""), Y.letters.replace(A.letters[1], "")
        is_sampled = len(X.letters) == len(Y.letters) == 2 and rows == cols and len(rows) == 1
        n_terms = A.size * self.places(rows)
        if not is_sampled or n_terms > MAX_SAMPLED or set(rows) & (self.needed(A, X, Y) | set(A.letters)):
            return []
        options = X.letters[0] == rows, Y.letters[0] == rows
        sample = functools.partial(self.add, "sampled", (A, X, Y), A.letters, options=options, sparse=True, size=A.size)
        return [(MERGE_COST * n_terms, sample)]

    def _two_sparse(self, A: _Value, B: _Value, needed: set[str]) -> list[tuple[float, Callable[[], None]]]:
        shared = set(A.letters) & set(B.letters)
        if len(shared) == 2:
            is_turned = A.letters != B.letters
            size = min(A.size, B.size)

            def multiply() -> None:
                self.values = max(self.values, FINITE_RESULT)
                self.add("multiply", (A, B), A.letters, options=(is_turned,), sparse=True, size=size)

            return [(MERGE_COST * (A.size + B.size), multiply)]
        if len(shared) != 1 or shared & needed:
            return []
        inner = shared.pop()
        is_alike = A.letters.index(inner) == B.letters.index(inner)  # Aᵀ B or A Bᵀ, whose transposes cost the same
        order = self.output.find(A.letters.replace(inner, "")), self.output.find(B.letters.replace(inner, ""))
        if (order[0] > order[1] >= 0) if is_alike else A.letters[0] == inner:
            A, B = B, A
        turned = A.letters[0] == inner, B.letters[1] == inner
        letters = A.letters[1 - A.letters.index(inner)] + B.letters[1 - B.letters.index(inner)]
        n_terms = A.size * B.size / self.extents[inner]

        def product() -> None:
            if len(self.left) > 2:
                self.values = FOR_FINITE
            size = min(n_terms, self.places(letters))
            self.add("product", (A, B), letters, options=(*turned, len(self.left) > 2), sparse=True, size=size)

        return [(SPARSE_COST * n_terms + A.size + B.size, product)]

    def _mixed(self, A: _Value, X: _Value, needed: set[str]) -> list[tuple[float, Callable[[], None]]]:
        shared = set(A.letters) & set(X.letters)
        if shared == set(A.letters) and len(X.letters) == 2:
            entries = functools.partial(
                self.add, "entries", (A, X), A.letters, options=(A.letters != X.letters,), sparse=True, size=A.size
            )
            return [(2 * A.size, entries)]
        if len(shared) != 1:
            return []
        inner = next(iter(shared))
        is_turned = A.letters[0] == inner
        if inner in needed:
            scale = functools.partial(
                self.add, "scale", (A, X), A.letters, options=(is_turned,), sparse=True, size=A.size
            )
            return [(2 * A.size, scale)] if len(X.letters) == 1 else []
        rest = X.letters.replace(inner, "")
        letters = A.letters[1 - A.letters.index(inner)] + rest
        contract = functools.partial(
            self.add, "contract", (A, X), letters, options=(is_turned, X.letters.index(inner)), sparse=False,
            size=self.places(letters),
        )  # fmt: skip
        return [(A.size * self.places(rest) * (TURNED_COST if is_turned else 1.0), contract)]

    def _two_dense(self, X: _Value, Y: _Value, needed: set[str]) -> list[tuple[float, Callable[[], None]]]:
        union = "".join(dict.fromkeys(X.letters + Y.letters))
        kept = "".join(index for index in union if index in needed)
        n_terms, size = self.places(union), self.places(kept)
        if size > max(X.size, Y.size) and len(self.left) > 2:
            return []
        by_blas = n_terms >= BLAS_TERMS and min(len(X.letters), len(Y.letters)) > 1 and union != kept
        text = f"{X.letters},{Y.letters}->{kept}"
        join = functools.partial(self.add, "arrays", (X, Y), kept, options=(text, by_blas), sparse=False, size=size)
        return [(n_terms, join)]


@functools.lru_cache(maxsize=1024)
def plan(
    inputs: tuple[str, ...], output: str, shapes: tuple[tuple[int, ...], ...], n_bits: tuple[int, ...]
) -> Plan | None:
    """Return the plan for these operands, or None if steps of two operands do not lead to the result of einsum.

    `n_bits`: number of bits of the number of entries of each sparse matrix or vector; -1 for arrays.
    """
    if not 0 < len(inputs) <= MAX_OPERANDS or len(set(output)) < len(output) or not fits(inputs, shapes):
        return None
    if any(bits >= 0 and not 0 < len(shape) <= 2 for shape, bits in zip(shapes, n_bits, strict=True)):
        return None
    extents = dict(
        pair for letters, shape in zip(inputs, shapes, strict=True) for pair in zip(letters, shape, strict=True)
    )
    is_known = all(letters.isalpha() for letters in inputs if letters) and extents.keys() >= set(output)
    reached = {index for letters, bits in zip(inputs, n_bits, strict=True) if bits >= 0 for index in letters}
    if not is_known or not reached:
        return None
    values = [
        _Value(
            letters, bits >= 0, at, min(2.0 ** max(bits, 0) if bits >= 0 else math.inf, math.prod(map(float, shape)))
        )
        for at, (letters, shape, bits) in enumerate(zip(inputs, shapes, n_bits, strict=True))
    ]
    is_sparse = len(output) > 1 and reached >= set(output)
    planner = _Planner(values, output, extents)
    return _search(planner, is_sparse, [MAX_TRIED]) if planner.takes_vectors(is_sparse) else None


def _search(planner: _Planner, is_sparse: bool, tried: list[int]) -> Plan | None:
    """Return the first plan that is found by trying the cheapest steps first; `tried` counts down."""
    planner.reduce()
    tried[0] -= 1
    if len(planner.left) == 1:
        return _finished(planner, is_sparse)
    state = planner.left, planner.steps, planner.n, planner.values
    for _, append in sorted(planner.pairs(), key=lambda pair: pair[0]):
        planner.left, planner.steps, planner.n, planner.values = state[0], list(state[1]), state[2], state[3]
        append()
        found = _search(planner, is_sparse, tried) if tried[0] > 0 else None
        if found is not None:
            return found
    return None


def _finished(planner: _Planner, is_sparse: bool) -> Plan | None:
    """Return the plan with the last value's indices in the output's order; None if it is not of einsum's kind."""
    (last,) = planner.left
    if last.is_sparse is not is_sparse or not (planner.steps or last.letters != planner.output):
        return None
    if is_sparse:
        planner.add("rows", (last,), planner.output, options=(last.letters != planner.output,), sparse=True, size=0.0)
    elif last.letters != planner.output:
        order = tuple(map(last.letters.index, planner.output))
        planner.add("turn", (last,), planner.output, options=(order,), sparse=False, size=0.0)
    return tuple(planner.steps), planner.values


def sampled(A: Any, X: Any, Y: Any, is_left_turned: bool, is_right_turned: bool) -> Any:
    """Return the dot products of rows of X and Y, or of columns where turned, times the entries of A, as CSR."""
    rows, X, Y = A.tocsr(), X.T if is_left_turned else X, Y.T if is_right_turned else Y
    indptr, indices = rows.indptr, rows.indices
    at = np.repeat(np.arange(len(X)), np.diff(indptr))
    values = rows.data * np.einsum("ec,ec->e", X[at], Y[indices])
    return type(rows)((values, indices.copy(), indptr.copy()), shape=A.shape)


def outer(u: Any, v: Any) -> Any:
    """Return the products of the entries of two sparse vectors as SciPy's CSR, with sorted and distinct entries."""
    for one in (u := sps.coo_array(u, copy=True), v := sps.coo_array(v, copy=True)):
        one.sum_duplicates()
    shape, index = (u.shape[0], v.shape[0]), INT32 if max(u.nnz * v.nnz, v.shape[0]) <= INT32_MAX else INT64
    indptr = np.zeros(shape[0] + 1, index)
    indptr[u.coords[0] + 1] = v.nnz
    indices = np.tile(v.coords[0].astype(index), u.nnz)
    values = np.multiply.outer(u.data, v.data).reshape(-1)
    return sps.csr_array((values, indices, np.cumsum(indptr, dtype=index)), shape=shape)
