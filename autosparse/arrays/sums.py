"""Sums, differences and elementwise products of two matrices of one class, on all threads if they are large.

The entries, their order and bits, and the dtypes are those of SciPy's loops. Those run on one thread: the helper of the
next product reads half of the result from another core, and the next result is written to lines that its core holds.
"""

from __future__ import annotations

from typing import Any

from autosparse import light
from autosparse._native import memory
from autosparse.config import get_options
from autosparse.light import sums
from autosparse.operands.csr import INDICES


def merged(A: Any, B: Any, name: str) -> Any:
    """Return A + B, A - B or A * B (by elements), as SciPy's loop `name` does; None where SciPy should compute it."""
    kind = type(A)
    if type(B) is kind._plain_class and kind._twin._twin is kind:
        B = kind(B)  # over the same arrays
    if not sums.are_of_a_class(A, B, name):
        return None
    pair = A._cell.checked_arrays()[1], B._cell.checked_arrays()[1]
    if not sums.are_alike(A, *pair):
        return None
    made = sums.of_one_pattern(name, *pair, memory.empty_output)
    if made is None and pair[0][INDICES].size >= sums.FROM_ENTRIES and (runtime := light.runtime()) is not None:
        made = runtime.sum_of(name, pair, memory.empty_output, get_options().threads or 0)
    return kind._of_rows(A._shape, made or sums.by_loop(name, A._cell.n_minor, *pair))
