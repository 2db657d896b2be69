"""csr to csc and back: the entries grouped by the other index, by a counting sort on several threads.

Arrays, dtypes and the order of entries are those of SciPy's ``csr_tocsc``: rows in order within each column.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from autosparse._native import memory, runtime_api
from autosparse.config import get_options
from autosparse.operands.csr import DATA, INDICES, INDPTR, Operand

Compressed = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # indptr, indices, data


def transposed_rows(cell: Operand) -> Compressed | None:
    """(indptr, indices, data) of the transpose of the rows in `cell`; None where SciPy should convert.

    Raises MemoryError without room, StructureError for indices out of bounds.
    """
    rows = cell.rows or cell.validate()
    if rows.dtype is None:
        return None
    indptr, indices, data = (cell.peek(field) for field in (INDPTR, INDICES, DATA))
    threads, shape = get_options().threads or runtime_api.max_threads(), (rows.n_major, rows.n_minor)
    made = runtime_api.transpose((indptr, indices, data), shape, threads=threads, room=memory.empty_output)
    t_indptr, t_indices, t_data, _ = made
    assert t_data is not None
    return t_indptr, t_indices, t_data
