"""Sum over triangles of a symmetric matrix: six times the sum over its strict lower part, plus diagonal terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from autosparse._native import runtime_api
from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.lower.levels import transposed
from autosparse.contraction.operands import Operand, Sparse
from autosparse.contraction.subscripts import Subscripts
from autosparse.core.calls import Recent
from autosparse.core.dtypes import NativeIndex, WideIndex

MAX_PATTERNS: Final = 16
"""Maximum number of patterns whose triangular parts are remembered."""
MAX_ENTRIES: Final = 1 << 19
"""Maximum number of entries of a remembered pattern."""


class Halves(NamedTuple):
    """Positions in a symmetric CSR pattern: each entry's mirror image, the strict lower entries, the diagonal ones."""

    mirrored: AnyArray
    lower: AnyArray
    diagonal: AnyArray
    rows: tuple[AnyArray, AnyArray]  # of the strict lower part


@dataclass(frozen=True, eq=False, slots=True)
class Triangles:
    """Decomposition of ``Σ_ijk a_ij a_jk a_ik`` of a symmetric matrix into its strict lower part and diagonal terms.

    Terms with three distinct indices occur six times. Terms ``a_ii a_ik²`` with two equal indices occur three times.
    """

    operands: list[Operand]  # the strict lower part, three times
    subscripts: Subscripts
    squares: AnyArray  # for each diagonal entry, a_ii Σ_k a_ik² over k other than i
    cubes: AnyArray

    def total(self, of_lower: Any) -> AnyArray:
        """Return the whole sum, given the sum over the lower part."""
        dtype = self.cubes.dtype
        found: AnyArray = np.asarray(of_lower, dtype).reshape(1) * dtype.type(6)
        if self.cubes.size:
            found += np.add.reduce(dtype.type(3) * self.squares + self.cubes, dtype=dtype)
        return found.reshape(())


def triangles(operands: Sequence[Operand], subscripts: Subscripts) -> Triangles | None:
    """Return the decomposition if the operands are reads of one symmetric matrix at three index pairs, else None.

    A matrix with a NaN is not equal to its transpose and gives None.
    """
    first = operands[0]
    if not _is_asked(operands, subscripts) or not isinstance(first, Sparse) or first.rows is None:
        return None
    halves = _halves(first)
    values = first.values
    if halves is None or values.dtype.kind not in "iufc" or not np.array_equal(values.take(halves.mirrored), values):
        return None
    shared: dict[tuple[object, ...], Any] = {}
    lower: list[Operand] = []
    of_lower = values.take(halves.lower)
    for letters in ("ij", "jk", "ik"):
        one = Sparse(letters, None, of_lower, first.shape, sorted_by=letters, rows=halves.rows)
        one.shared = shared
        lower.append(one)
    extents = dict.fromkeys("ijk", first.shape[0])
    return Triangles(lower, Subscripts(("ij", "jk", "ik"), "", extents), *_of_diagonal(first, halves.diagonal))


def _is_asked(operands: Sequence[Operand], subscripts: Subscripts) -> bool:
    """Return whether the three operands are reads of one square matrix at all pairs of three indices, all summed."""
    if subscripts.output or len(operands) != 3 or len(subscripts.extents) != 3:
        return False
    pairs = {frozenset(operand.indices) for operand in operands}
    if len(pairs) != 3 or any(len(pair) != 2 for pair in pairs):
        return False
    matrices = [operand for operand in operands if isinstance(operand, Sparse)]
    is_square = len({*subscripts.extents.values()}) == 1
    return len(matrices) == 3 and is_square and all(one.shared is matrices[0].shared for one in matrices)


_known: Final[Recent[tuple[object, ...], Halves | None]] = Recent(MAX_PATTERNS)


def _halves(matrix: Sparse) -> Halves | None:
    """Return the `Halves` of a matrix with a symmetric pattern, else None; values are not compared."""
    assert matrix.rows is not None
    indptr, indices = (np.ascontiguousarray(part) for part in matrix.rows)
    if not runtime_api.available or matrix.nnz > MAX_ENTRIES:
        return _split(indptr, indices)
    key = (*matrix.shape, indices.dtype.str, runtime_api.hash128(indptr), runtime_api.hash128(indices))
    return _known.get(key) if key in _known else _known.keep(key, _split(indptr, indices))


def _split(indptr: AnyArray, indices: AnyArray) -> Halves | None:
    n = indptr.size - 1
    counts = np.diff(indptr)
    if not np.array_equal(counts, np.bincount(indices, minlength=n)):
        return None
    turned, images, mirrored = transposed((indptr, indices, np.arange(indices.size, dtype=WideIndex)), (n, n))
    if not np.array_equal(turned, indptr) or not np.array_equal(images, indices):
        return None
    row_of = np.repeat(np.arange(n, dtype=indices.dtype), counts)
    is_lower = indices < row_of
    lower = np.flatnonzero(is_lower)
    before = np.concatenate(([0], np.cumsum(is_lower))).astype(indptr.dtype)
    rows = (before[indptr], indices[lower])
    return Halves(mirrored.astype(NativeIndex, copy=False), lower, np.flatnonzero(indices == row_of), rows)


def _of_diagonal(matrix: Sparse, diagonal: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return two arrays with an element per diagonal entry: ``a_ii Σ_k a_ik²`` over k other than i, and ``a_ii³``."""
    assert matrix.rows is not None
    indptr, indices = matrix.rows
    on, values = indices[diagonal], matrix.values
    if not diagonal.size:
        return values[:0], values[:0]
    squares = np.append(values * values, values.dtype.type(0))
    squares[diagonal] = 0
    edges = np.stack([indptr[on], indptr[on + 1]], axis=1).reshape(-1)
    sums = np.add.reduceat(squares, edges)[::2]
    has_others = np.diff(edges)[::2] > 1  # else: no term, not 0 * inf
    own = values[diagonal]
    return np.where(has_others, own, own.dtype.type(0)) * sums, own * own * own
