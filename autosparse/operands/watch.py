"""Watch: the mutation guard of one operand in C. A check runs no Python code while only values were written.

`_extension.Watch` (``_native/extension/watch.c``) reads the attributes of the operand, its array objects with the
expected references, and the hashes of the last look. `operands.watched` fills it in after each look in Python. There is
none without the extension module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autosparse._native import python_objects
from autosparse.operands import mutation_guard

if TYPE_CHECKING:
    from autosparse._native._extension import Watch
    from autosparse.operands.mutation_guard import Anchors, AnyArray, Print
    from autosparse.operands.native_rows import NativeRows

_PLAIN: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
INVALIDATED: Final = ("_invalidated_indptr", "_invalidated_indices", "_invalidated_data")
CLEANS: Final = ("_clean_indptr", "_clean_indices", "_clean_data")

make: Final = python_objects.Watch
"""Type of watches; None where watches are not supported."""


def fill_in(
    watch: Watch,
    arrays: list[Any],
    rows: NativeRows,
    anchors: list[Anchors],
    leased: list[bool],
    *,
    prints: list[Print | None],
    versions: AnyArray | None,
) -> None:
    """Watch these arrays from now on; `leased`: whether a view of ours refers to each."""
    specs, nnz = [], int(arrays[0][-1])
    for field, array in enumerate(arrays):
        held, known = anchors[field], prints[field]
        counted = None if held.expected == mutation_guard.NEVER_ALONE else held.arrays
        n_bytes = (rows.n_major + 1 if field == 0 else nnz) * array.itemsize
        is_known = known is not None and (known.dtype, known.n_bytes) == (array.dtype, n_bytes)
        hashes = known.hashes if known is not None and is_known else None
        counts = (counted, held.expected, held.n_beneath, leased[field])
        specs.append((array, *counts, hashes, versions if field == 2 else None))
    watch.fill_in(rows, (rows.n_major, nnz), rows.index_code, tuple(specs))


def can_watch(arrays: list[Any]) -> bool:
    """Return whether the guard in C can check these arrays: contiguous, aligned, one-dimensional ndarrays."""
    return make is not None and all(
        type(array) is np.ndarray and array.ndim == 1 and array.flags.num & _PLAIN == _PLAIN for array in arrays
    )
