"""Test that few files of the library name an instruction set: each is one row and one header (`autosparse.isa`)."""

from __future__ import annotations

import re

import pytest

from tests.house.sources import IN_CHECKOUT, REPOSITORY

pytestmark = pytest.mark.skipif(not IN_CHECKOUT, reason="needs the sources: this is an installed copy")

NAME = re.compile(r"avx|sse[234]|\bneon\b|isa_neon", re.IGNORECASE)
INTRINSIC = re.compile(r"\b_mm\d*_|\b__m(128|256|512)|\b__builtin_ia32_(?!pause)|immintrin|arm_neon|\bv\w+q_f(32|64)\b")
NAMED = {
    "_native/c/include/immintrin.h",  # intrinsics of x86-64 for generated kernels, instead of the compiler's header
    "_native/runtime/isa/isa.h",  # the list
    "_native/runtime/isa/isa_avx2.h",
    "_native/runtime/isa/isa_avx512.h",
    "_native/runtime/isa/isa_neon.h",
    "autosparse/isa/__init__.py",
}
"""Files that may name an instruction set."""
USED = NAMED | {
    "_native/c/register_gather.py",
    "_native/c/slices.py",
    "_native/c/types.py",
    "_native/runtime/hash/xxh3_body.h",
    "_native/runtime/mttkrp/csf_body.h",
    "_native/runtime/sddmm/dots_any_body.h",
    "_native/runtime/sddmm/dots_rows_body.h",
    "_native/runtime/spmm/complex_rows.c",
    "_native/runtime/spmm/complex_rows_body.h",
    "_native/runtime/spmm/irregular_rows.c",
    "_native/runtime/spmm/two_columns.c",
    "_native/runtime/spmm/two_columns_body.h",
    "_native/runtime/spmv/gathers.c",
    "_native/runtime/spmv/register_gather.h",
    "_native/runtime/spmv/spmv_masked32.h",
    "_native/runtime/spmv/spmv_masked64.h",
    "_native/runtime/spmv/spmv_masked64_f32.h",
    "_native/runtime/spmv/spmv_masked64_f64.h",
    "_native/kernels/shipped_sources.py",
}
"""Files that may use one's intrinsics: kernels that win against portable vectors on a processor that has them."""


def spelling(pattern: re.Pattern[str]) -> set[str]:
    """Return the library's Python and C files that contain `pattern`."""
    found = set()
    for folder in ("autosparse", "_native", "tuner", "cache", "tools", "setup.py"):
        place = REPOSITORY / folder
        for path in [place] if place.is_file() else place.rglob("*"):
            name = path.relative_to(REPOSITORY).as_posix()
            if path.suffix in (".py", ".c", ".h") and pattern.search(path.read_text()):
                found.add(name)
    return found


def test_few_files_name_an_instruction_set() -> None:
    assert spelling(NAME) == NAMED, "use a property of `autosparse.isa.Isa`, or a name that isa.h defines"
    assert len(NAMED) <= 8


def test_intrinsics_are_used_where_they_are_listed() -> None:
    assert spelling(INTRINSIC) <= USED, "use the vector operations of VEC_HEADER (vec_base.h)"
