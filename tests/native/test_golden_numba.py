"""Tests of emitted Python against golden files, as in `test_golden`.

To update the files after an intended change: python -m tests.native.test_golden_numba
"""

from __future__ import annotations

from typing import Final

import pytest
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.numba.emit import emit

from tests.native.test_golden import FOLDER as C_FOLDER
from tests.native.test_golden import KERNELS as C_KERNELS

FOLDER: Final = C_FOLDER.parent / "numba_kernels"
KERNELS: Final = {
    name: C_KERNELS[name] for name in ("csr_spmm_avx2", "bcsr_spmv_avx2", "sell_spmv_avx512", "csc_search_baseline")
}


def source(name: str) -> str:
    return emit(KernelSpec("matmul", *KERNELS[name]))


@pytest.mark.parametrize("name", KERNELS)
def test_emitted_python_is_the_golden_file(name: str) -> None:
    assert source(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), "read the diff, then the docstring"


@pytest.mark.parametrize("name", KERNELS)
def test_emitted_python_parses(name: str) -> None:
    compile(source(name), name, "exec")


def test_every_golden_file_has_a_kernel() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(KERNELS)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in KERNELS:
        (FOLDER / f"{each}.txt").write_text(source(each), encoding="utf-8")
