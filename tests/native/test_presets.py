"""Tests of the formats named in the literature: parsing, printing, packing, and products equal to SciPy's.

All of `core.formats.PRESETS` are tested. Values are small integers, so that products are exact in any order of
summation; the interpreter is compared with the kernel.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse import _native
from autosparse.core.formats import CSR, PRESETS, Format
from autosparse.core.schedule import SuperSchedule
from tests.covering import in_turn
from tests.native import cases, operands, test_kernels, test_mttkrp, test_sddmm

ORDER_OF: Final = {name: len({level.coordinate[0] for level in row.format.levels}) for name, row in PRESETS.items()}
MATRICES: Final = [name for name, order in ORDER_OF.items() if order == 2]
TENSORS: Final = [name for name, order in ORDER_OF.items() if order == 3]
OF_ONE_COLUMN: Final = {"SELL", "SELL with diagonals"}
"""Formats whose rows are vector lanes: they support neither columns of B nor sums over columns of X and Y."""
TYPES: Final = (("float32", "int32"), ("float64", "int64"))
TILE: Final = 16


def concordant(operation: str, name: str, *, tile: int) -> SuperSchedule:
    """Return the schedule that walks the levels of a preset in their order, columns inside."""
    fmt = PRESETS[name].format
    loops = " ".join([*fmt.order, *(("j1", "j0") if tile else ())])
    parallel = "i1" if operation == "matmul" else fmt.order[0]
    return operands.schedule(operation, str(fmt), loops, tile, parallel=parallel)


def test_the_formats_of_the_papers_have_names() -> None:
    """Check presets by their level formats, outermost first (WACO §3.1, §5.2.1)."""
    kinds = {"".join(level.kind.value for level in row.format.levels) for row in PRESETS.values()}
    assert kinds >= {"UC", "CC", "UCUU", "UCU", "UUC", "CCC", "NQ", "USU"}
    assert PRESETS["CSR"].format == CSR
    assert CSR.is_csr
    assert PRESETS["CSC"].format.order == CSR.order[::-1]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_parses_and_prints(name: str) -> None:
    row = PRESETS[name]
    fmt = row.format
    assert Format.parse(str(fmt)) == fmt
    assert str(fmt).startswith(row.levels)
    assert sorted(fmt.splits) == sorted((index, fmt.split(index)) for index in "ikl" if f"{index}0" in row.levels)
    operation = "mttkrp" if name in TENSORS else "matmul"
    made = concordant(operation, name, tile=0)
    assert SuperSchedule.from_json(made.to_json()) == made


@pytest.mark.parametrize("name", MATRICES)
@settings(max_examples=10)
@given(data=st.data(), transposed=st.booleans())
def test_a_matrix_is_packed_and_unpacked(name: str, data: st.DataObject, transposed: bool) -> None:
    fmt = PRESETS[name].format
    taken = data.draw(cases.samples(dtype="float64", index_dtype="int32"))
    packed = _native.pack(taken.pattern, taken.data, fmt, transposed=transposed)
    indptr, indices, values = packed.unpack()
    expected = (taken.matrix.T if transposed else taken.matrix).toarray()
    found = np.zeros_like(expected)
    np.add.at(found, (np.repeat(np.arange(expected.shape[0]), np.diff(indptr)), indices), values)
    np.testing.assert_array_equal(found, expected)
    assert packed.nbytes <= _native.packed_bytes(taken.pattern, fmt, 8, transposed=transposed)


@in_turn(
    "name_and_tile",
    "types",
    first=[(name, tile) for tile in (0, TILE) for name in MATRICES if not (tile and name in OF_ONE_COLUMN)],
    second=TYPES,
)
def test_products_are_scipys(
    name_and_tile: tuple[str, int], types: tuple[str, str], pytestconfig: pytest.Config
) -> None:
    """Compare kernel (on one and two threads), interpreter and SciPy, also for empty matrices.

    Without --full only the first pattern is multiplied both as it is and transposed, the others in one of the two ways.
    """
    (name, tile), (dtype, index_dtype) = name_and_tile, types
    made = concordant("matmul", name, tile=tile)
    assert _native.supports("matmul", made) is None
    for seed, (n_rows, n_cols, lengths) in enumerate(PATTERNS):
        taken = cases.sample(n_rows, n_cols, lengths, seed=seed, dtype=dtype, index_dtype=index_dtype)
        assert cases.fits(made, taken, transposed=False)
        is_whole = not seed or pytestconfig.getoption("--full")
        for transposed in (False, True) if is_whole else (bool(seed % 2),):
            test_kernels.check(made, taken, transposed=transposed, seed=seed)


PATTERNS: Final = (
    (23, 31, [0, 5, 1, 3, 0, 9, 2, 2, 4, 1, 0, 0, 7, 3, 1, 1, 2, 30, 0, 4, 5, 6, 3]),
    (5, 70, [3, 0, 60, 1, 2]),
    (70, 3, [1] * 70),
    (4, 4, [0] * 4),
    (0, 3, []),
)
"""(rows, columns, entries of each row): ragged, wide with a dense row, tall, without entries, without rows."""


@pytest.mark.parametrize("name", sorted(OF_ONE_COLUMN))
def test_wide_products_by_slices_are_refused_with_the_reason(name: str) -> None:
    reason = _native.supports("matmul", concordant("matmul", name, tile=TILE))
    assert reason is not None
    assert "one dense column" in reason


@in_turn("name", "tile", first=sorted(set(MATRICES) - OF_ONE_COLUMN), second=[0, TILE])
def test_sampled_products_are_numpys(name: str, tile: int) -> None:
    made = concordant("sddmm", name, tile=tile)
    assert _native.supports("sddmm", made) is None
    for seed, (n_rows, n_cols, lengths) in enumerate(PATTERNS):
        dtype, index_dtype = TYPES[seed % 2]
        taken = cases.sample(n_rows, n_cols, lengths, seed=seed, dtype=dtype, index_dtype=index_dtype)
        assert _native.reason_unfit(taken.pattern, made.format, transposed=False) is None
        test_sddmm.check(made, taken, seed=seed)


@pytest.mark.parametrize("name", sorted(OF_ONE_COLUMN))
def test_formats_of_products_are_refused_for_sampled_ones_with_the_reason(name: str) -> None:
    reason = _native.supports("sddmm", concordant("sddmm", name, tile=0))
    assert reason is not None
    assert "sddmm" in reason


@in_turn("name", "tile", first=TENSORS, second=[0, TILE])
def test_products_of_tensors_are_numpys(name: str, tile: int) -> None:
    made = concordant("mttkrp", name, tile=tile)
    assert _native.supports("mttkrp", made) is None
    for seed, (shape, n_entries) in enumerate((((9, 8, 7), 90), ((1, 30, 4), 25), ((6, 5, 4), 0), ((0, 4, 4), 0))):
        pattern = operands.tensor(shape, n_entries, seed=seed)
        for mode in range(3):
            test_mttkrp.check(made, pattern, mode, seed=seed, dtype=TYPES[seed % 2][0])
