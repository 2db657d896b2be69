"""Tests of emitted Python against golden texts, which are kept compressed as in `test_golden`.

To update the texts after an intended change: python -m tests.native.test_golden_numba
"""

from __future__ import annotations

import json
import lzma
from typing import Final

import pytest
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.numba.loops import emit

from tests.native.test_golden import FOLDER, difference
from tests.native.test_golden import KERNELS as C_KERNELS

COMPRESSED: Final = FOLDER / "numba_kernels.json.xz"
KERNELS: Final = {
    name: C_KERNELS[name] for name in ("csr_spmm_avx2", "bcsr_spmv_avx2", "sell_spmv_avx512", "csc_search_baseline")
}


def source(name: str) -> str:
    return emit(KernelSpec("matmul", *KERNELS[name]))


def golden() -> dict[str, str]:
    """Return the golden text of each kernel."""
    texts: dict[str, str] = json.loads(lzma.decompress(COMPRESSED.read_bytes()))
    return texts


@pytest.mark.parametrize("name", KERNELS)
def test_emitted_python_is_the_golden_text(name: str) -> None:
    if reason := difference(golden()[name], source(name)):
        pytest.fail(reason)


@pytest.mark.parametrize("name", KERNELS)
def test_emitted_python_parses(name: str) -> None:
    compile(source(name), name, "exec")


def test_every_golden_text_has_a_kernel() -> None:
    assert set(golden()) == set(KERNELS)


if __name__ == "__main__":
    written = json.dumps({each: source(each) for each in sorted(KERNELS)}, indent=1).encode()
    COMPRESSED.write_bytes(lzma.compress(written, preset=9 | lzma.PRESET_EXTREME))
