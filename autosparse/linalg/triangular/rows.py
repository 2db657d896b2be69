"""`Rows`: compressed rows whose indices ascend, and the position of the diagonal in each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from autosparse._native import runtime_api
from autosparse.config import decisive_options
from autosparse.core.dtypes import WideIndex
from autosparse.operands.csr import Operand
from autosparse.scalar import WIDE_INDEX

AnyArray = NDArray[Any]  # indices, or values of a dtype of the solvers

DTYPES: Final = "fdFD"
"""dtype characters that the kernels compute in; their positions are the codes of the runtime."""


class Rows(NamedTuple):
    """Compressed rows of a square matrix."""

    indptr: AnyArray
    indices: AnyArray
    data: AnyArray

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.indptr.size - 1


class Split(NamedTuple):
    """Positions of the diagonal in the rows of a matrix. `lower_stop` is that of the diagonal entry if there is one."""

    lower_stop: AnyArray  # end of the entries left of the diagonal
    upper_start: AnyArray  # begin of the entries right of the diagonal
    n_left: int
    n_right: int
    missing: int  # first row without a diagonal entry; -1: none


def n_threads() -> int:
    """Return the maximum number of threads under the present options."""
    return decisive_options()[1] or runtime_api.max_threads()


def code_of(indices: AnyArray) -> int:
    """Return the runtime's code of an index dtype."""
    return runtime_api.INDEX_CODES[indices.dtype.name]


def rows_of(operand: Operand) -> Rows:
    """Return the arrays of `operand`, after a check of their bounds.

    The arrays are those of the matrix where its dtypes allow it. StructureError is raised for indices out of bounds.
    """
    if operand.rows is None:
        operand.validate()
    indptr, indices, data = operand.indptr, operand.indices[: operand.nnz], operand.data[: operand.nnz]
    if indptr.dtype != indices.dtype or indptr.dtype.name not in runtime_api.INDEX_CODES:
        indptr, indices = indptr.astype(WideIndex), indices.astype(WideIndex)
    return Rows(*(np.ascontiguousarray(one, one.dtype.newbyteorder("=")) for one in (indptr, indices, data)))


def split_of(rows: Rows) -> Split | None:
    """Return the positions of the diagonal; None unless the indices of every row ascend strictly."""
    lower_stop, upper_start = (np.empty(rows.n, rows.indptr.dtype) for _ in range(2))
    facts = np.empty(4, WideIndex)
    pointers = map(runtime_api.pointer, (rows.indptr, rows.indices, lower_stop, upper_start))
    facts_pointer = runtime_api.ffi.cast(WIDE_INDEX.pointer, runtime_api.address_of(facts))
    runtime_api.lib.asp_triangle_split(code_of(rows.indptr), rows.n, *pointers, facts_pointer, n_threads())
    is_sorted, n_left, n_right, missing = facts.tolist()
    return Split(lower_stop, upper_start, n_left, n_right, missing) if is_sorted else None


def canonical(rows: Rows) -> tuple[Rows, Split]:
    """Return the rows and their split; rows whose indices do not ascend are copied, and their duplicates added."""
    split = split_of(rows)
    if split is not None:
        return rows, split
    copy = sps.csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n, rows.n), copy=True)
    copy.sum_duplicates()
    rows = Rows(copy.indptr, copy.indices, copy.data)
    split = split_of(rows)
    assert split is not None
    return rows, split


def taken(rows: Rows, start: AnyArray, stop: AnyArray) -> Rows:
    """Return a copy of the entries [start[i], stop[i]) of all rows."""
    n_entries = int(stop.sum(dtype=WideIndex) - start.sum(dtype=WideIndex))
    start, stop = np.ascontiguousarray(start), np.ascontiguousarray(stop)
    made = Rows(
        np.empty(rows.n + 1, rows.indptr.dtype), np.empty(n_entries, rows.indices.dtype),
        np.empty(n_entries, rows.data.dtype),
    )  # fmt: skip
    arrays = (start, stop, rows.indices, rows.data, *made)
    runtime_api.lib.asp_triangle_take(
        code_of(rows.indptr), rows.data.itemsize, rows.n, *map(runtime_api.pointer, arrays)
    )
    return made


def inverse_of(diagonal: AnyArray) -> AnyArray:
    """Return 1 / diagonal, with infinities and without warnings where it overflows."""
    with np.errstate(all="ignore"):
        inverse: AnyArray = np.reciprocal(diagonal)
    return inverse


def first_where(mask: Callable[[AnyArray], AnyArray], values: AnyArray) -> int:
    """Return the first position at which `mask` of the values is true; -1: none."""
    found = np.flatnonzero(mask(values))
    return int(found[0]) if found.size else -1
