"""Tests of rows divided at the cache lines of B: the same bits for any alignment, and no writes around the operands."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse._native.runtime_api import FLAG_ACCUMULATE

from tests.covering import covering
from tests.native.runtime_cases import Reference, assert_product, forced, isas, needs_runtime, patterns, spoken, values

pytestmark = needs_runtime

LINE = 64
PATTERNS = {name: made for name, made in patterns().items() if made.shape[1]}


def placed(array: np.ndarray, late: int, fill: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a copy that begins `late` bytes into a cache line, and the memory around it."""
    memory = np.full(array.size + 4 * LINE // array.itemsize, fill, array.dtype)
    start = (-memory.ctypes.data % LINE + LINE + late) // array.itemsize
    memory[start : start + array.size] = array.ravel()
    return memory[start : start + array.size].reshape(array.shape), memory


WIDTHS = (16, 32, 48, 64, 80, 96, 160, 256, 272, 544)


@covering(name=PATTERNS, isa=isas(), dtype=["float32", "float64"], columns=WIDTHS)
def test_bits_do_not_depend_on_where_operands_begin(name: str, isa: str, dtype: str, columns: int) -> None:
    A, csr = spoken(PATTERNS[name], dtype, "int32")
    if (A.nnz > 20_000 or A.shape[0] > 8000) and columns > 160:
        columns //= 2
    rng = np.random.default_rng(7)
    B, C = values(rng, (A.shape[1], columns), dtype), values(rng, (A.shape[0], columns), dtype)
    item = B.itemsize
    product = Reference(A, B)
    with forced(isa):
        for flags in (0, FLAG_ACCUMULATE):
            wanted = None
            for late_b, late_c, threads in (
                (0, 0, 2),
                (16, 16, 2),
                (item, 2 * item, 1),
                (48, 0, 3),
                (LINE - item, 16, 2),
            ):
                dense, _ = placed(B, late_b, np.nan)
                out, memory = placed(C, late_c, 7)
                runtime_api.matmul(csr, A.shape, dense, out, threads=threads, flags=flags)
                wanted = out if wanted is None else wanted
                np.testing.assert_array_equal(out, wanted)
                assert np.count_nonzero(memory == 7) >= memory.size - out.size
            product.check(wanted, added_to=C if flags else None)


@pytest.mark.parametrize("isa", isas())
def test_products_with_columns_of_a_wider_array(isa: str) -> None:
    """Check views of wider arrays: memory between rows of B and C neither affects results nor is written."""
    A, csr = spoken(PATTERNS["rows of at most 40"], "float32", "int32")
    rng = np.random.default_rng(8)
    wide, room = values(rng, (A.shape[1], 128), "float32"), np.full((A.shape[0], 96), 7, np.float32)
    wide[:, :4] = wide[:, 68:] = np.nan
    with forced(isa):
        runtime_api.matmul(csr, A.shape, wide[:, 4:68], room[:, 20:84], threads=2, flags=0)
    assert_product(room[:, 20:84], A, wide[:, 4:68])
    assert (room[:, :20] == 7).all()
    assert (room[:, 84:] == 7).all()
