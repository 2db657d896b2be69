"""In-register gather: ``B[at[0]], B[at[1]], ...`` as lanes from one load each, where gather instructions are slower.

`asp_gathers` (``runtime/spmv/gathers.c``) measures that; ``runtime/spmv/register_gather.h`` is the counterpart of the
default kernels.
"""

from __future__ import annotations

from typing import Final

from autosparse._native.ir.spec import KernelSpec

from autosparse.scalar import BY_BITS

REGISTER_GATHERS: Final = frozenset({("float32", 16), ("float32", 8), ("float64", 8), ("float64", 4)})
"""Value types and lanes with an in-register gather: one register of 64 or 32 bytes."""

_PLACES: Final = {
    16: """\
    uint64_t four;
    __builtin_memcpy(&four, at, 8);
    const uint64_t a = four & 0xffff, b = four >> 16 & 0xffff, c = four >> 32 & 0xffff, d = four >> 48;""",
    32: """\
    uint64_t low, high;
    __builtin_memcpy(&low, at, 8);
    __builtin_memcpy(&high, at + 2, 8);
    const uint64_t a = low & 0xffffffff, b = low >> 32, c = high & 0xffffffff, d = high >> 32;""",
    64: "    const int64_t a = at[0], b = at[1], c = at[2], d = at[3];",
}
"""Code that reads four indices of 16, 32 or 64 bits, which are never negative; narrow ones are loaded together."""
_FOUR: Final = {
    "float32": """\
    const __m128 low_two = _mm_insert_ps(_mm_load_ss(B + a), _mm_load_ss(B + b), 0x10);
    return _mm_insert_ps(_mm_insert_ps(low_two, _mm_load_ss(B + c), 0x20), _mm_load_ss(B + d), 0x30);""",
    "float64": """\
    const __m128d low_two = _mm_loadh_pd(_mm_load_sd(B + a), B + b);
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(low_two), _mm_loadh_pd(_mm_load_sd(B + c), B + d), 1);""",
}
_VECTORS: Final = {"float32": "__m128", "float64": "__m256d"}
_JOINED: Final = {
    ("float32", 8): "_mm256_insertf128_ps(_mm256_castps128_ps256({low}), {high}, 1)",
    ("float32", 16): "_mm512_insertf32x8(_mm512_castps256_ps512({low}), {high}, 1)",
    ("float64", 8): "_mm512_insertf64x4(_mm512_castpd256_pd512({low}), {high}, 1)",
}


def has_lookup(spec: KernelSpec, lanes: int) -> bool:
    """Return whether vectors of `lanes` elements are loaded one by one instead of by a gather instruction."""
    return not spec.gathers and (spec.dtype, lanes) in REGISTER_GATHERS and lanes <= spec.max_lanes


def four_helper(spec: KernelSpec, bits: int) -> str:
    """Return the helper ``four_16`` (or 32, 64), which loads four elements at indices of that many bits."""
    value, vector = spec.types.compute.c, _VECTORS[spec.dtype]
    head = f"static inline {vector} four_{bits}(const {value} *B, const {BY_BITS[bits].c} *at)"
    return f"{head}\n{{\n{_PLACES[bits]}\n{_FOUR[spec.dtype]}\n}}\n"


def lookup(spec: KernelSpec, lanes: int, bits: int, at: str = "at", first: int = 0) -> str:
    """Return a C expression of `lanes` elements of B at the indices `at` from `first` on; it calls `four_helper`'s."""
    if lanes == 4:
        return f"four_{bits}(B, {at}{f' + {first}' if first else ''})"
    low = lookup(spec, lanes // 2, bits, at, first)
    high = lookup(spec, lanes // 2, bits, at, first + lanes // 2)
    return _JOINED[spec.dtype, lanes].format(low=low, high=high)
