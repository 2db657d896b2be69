"""Tests of emitted C against golden texts: a change of the emitter shows as a diff for review.

A text holds the heading with the loop nest, and the code from the task on. What is between them (types, vectors,
shared helpers) is left out; `test_kernels` covers it by running kernels. `csr_spmv_avx512.c` is a file that can be
read; the other texts are 130 kB of generated code and are kept compressed.

    python -m tests.native.test_golden                 # update the texts after an intended change
    python -m tests.native.test_golden build/golden    # write them as files into a folder, to read or compare them
"""

from __future__ import annotations

import difflib
import functools
import json
import lzma
import sys
from pathlib import Path
from typing import Final

import pytest
from autosparse._native.c.emit import emit
from autosparse._native.ir.spec import KernelSpec

from tests.native import operands
from tests.native.cases import schedule

FOLDER: Final = Path(__file__).resolve().parent.parent / "golden"
READABLE: Final = FOLDER / "csr_spmv_avx512.c"
COMPRESSED: Final = FOLDER / "kernels.json.xz"
KERNELS: Final = {
    "csr_spmv_avx512": (schedule("i1:U,k1:C", "i1 k1", unroll=16), "float32", "int32", "avx512"),
    "csr_spmv_by_loads_avx512": (
        schedule("i1:U,k1:C | bits=16", "i1 k1", unroll=16), "float32", "int32", "avx512", False, False,
    ),
    "csr_spmv_baseline": (schedule("i1:U,k1:C", "i1 k1", unroll=4), "float64", "int64", "baseline"),
    "csr_spmm_avx2": (schedule("i1:U,k1:C", "i1 j1 k1 j0", 32, prefetch=8), "float32", "int32", "avx2"),
    "bcsr_spmm_avx512": (
        schedule("i1:U,k1:C,i0:U,k0:U | i=2,k=2", "i1 j1 k1 i0 k0 j0", 32), "float32", "int32", "avx512",
    ),
    "bcsr_spmv_avx2": (schedule("i1:U,k1:C,i0:U,k0:U | i=2,k=4", "i1 k1 i0 k0"), "float32", "int32", "avx2"),
    "ucu_spmv_avx512": (schedule("i1:U,k1:C,i0:U | i=16", "i1 k1 i0"), "float32", "int32", "avx512"),
    "panels_spmm_avx512": (
        schedule("k1:U,i1:U,k0:C | k=16384 | bits=16", "k1 i1 j1 k0 j0", 32), "float32", "int32", "avx512",
    ),
    "dcsr_spmm_baseline": (schedule("i1:C,k1:C", "i1 j1 k1 j0", 4), "float64", "int32", "baseline"),
    "sell_spmv_avx512": (
        schedule("i1:U,k1:D,i0:U | i=16 | sigma=512 | bits=16", "i1 k1 i0", unroll=2, prefetch=16),
        *("float32", "int32", "avx512"),
    ),
    "sell_spmv_by_loads_avx2": (
        schedule("i1:U,k1:D,i0:U | i=8 | sigma=512 | bits=16", "i1 k1 i0", unroll=2),
        *("float64", "int64", "avx2", False, False),
    ),
    "sell_spmv_baseline": (schedule("i1:U,k1:S,i0:U | i=4", "i1 k1 i0", unroll=2), "float64", "int64", "baseline"),
    "csr_sddmm_avx2": (
        operands.schedule("sddmm", "i1:U,k1:C", "i1 j1 k1 j0", 16, unroll=4, prefetch=8), "float32", "int32", "avx2",
    ),
    "csr_sddmm_avx512": (operands.schedule("sddmm", "i1:U,k1:C", "i1 k1 j1 j0", 32), "float32", "int32", "avx512"),
    "csr_ordered_sddmm_avx512": (
        operands.schedule("sddmm", "i1:U,k1:C | rows=rcm", "i1 k1 j1 j0", 32, unroll=4), "float32", "int32", "avx512",
    ),
    "bcsr_sddmm_baseline": (
        operands.schedule("sddmm", "i1:U,k1:C,i0:U,k0:U | i=2,k=2", "i1 k1 j1 i0 k0 j0", 4),
        *("float64", "int32", "baseline"),
    ),
    "csf_mttkrp_avx512": (
        operands.schedule("mttkrp", "i1:U,k1:C,l1:C", "i1 j1 k1 l1 j0", 16, prefetch=8), "float32", "int32", "avx512",
    ),
    "csf_mttkrp_baseline": (
        operands.schedule("mttkrp", "k1:C,i1:C,l1:C", "k1 i1 j1 l1 j0", 2, parallel="k1"),
        *("float64", "int64", "baseline"),
    ),
    "bfloat16_spmv_avx512": (schedule("i1:U,k1:C | values=bfloat16", "i1 k1", unroll=16), "float32", "int32", "avx512"),
    "float16_bcsr_spmm_avx2": (
        schedule("i1:U,k1:C,i0:U,k0:U | i=2,k=2 | values=float16", "i1 j1 k1 i0 k0 j0", 16),
        *("float32", "int32", "avx2"),
    ),
    "csc_search_baseline": (schedule("k1:U,i1:C", "i1 k1"), "float64", "int32", "baseline"),
}  # fmt: skip


def source(name: str) -> str:
    """Return the heading and body of the emitted kernel."""
    whole = emit(KernelSpec(KERNELS[name][0].operation, *KERNELS[name]))
    heading, opened, rest = whole.partition("#include ")
    shared, task, body = rest.partition("typedef struct {\n    const asp_call *call;\n")
    found = all((opened, "asp_operand;" in shared, task))
    assert found, "the emitter no longer begins a kernel in this way"
    return heading + task + body


@functools.cache
def golden() -> dict[str, str]:
    """Return the golden text of each kernel."""
    texts: dict[str, str] = json.loads(lzma.decompress(COMPRESSED.read_bytes()))
    return texts | {READABLE.stem: READABLE.read_text(encoding="utf-8")}


def store() -> None:
    """Write the emitted kernels as the golden texts."""
    texts = {name: source(name) for name in sorted(KERNELS)}
    READABLE.write_text(texts.pop(READABLE.stem), encoding="utf-8")
    COMPRESSED.write_bytes(lzma.compress(json.dumps(texts, indent=1).encode(), preset=9 | lzma.PRESET_EXTREME))


def difference(before: str, now: str) -> str:
    """Return the lines that differ as a message; "" if none do."""
    if before == now:
        return ""
    diff = difflib.unified_diff(before.splitlines(), now.splitlines(), "golden", "emitted", n=3, lineterm="")
    return "\n".join(["read the diff, then the docstring of this file", *diff])


@pytest.mark.parametrize("name", KERNELS)
def test_emitted_c_is_the_golden_text(name: str) -> None:
    if reason := difference(golden()[name], source(name)):
        pytest.fail(reason)


def test_every_golden_text_has_a_kernel() -> None:
    assert set(golden()) == set(KERNELS)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        store()
    else:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        for each in KERNELS:
            (folder / f"{each}.c").write_text(source(each), encoding="utf-8")
