"""Emission of slices in C: lanes are rows, slots are steps; one loop for each way in which a slice may store columns.

``runtime/pack/pack_slices.c`` describes the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosparse._native.c.block import Used
from autosparse._native.c.complex_values import (
    add_product,
    add_sum,
    declared,
    elements,
    is_complex,
    scatter_body,
    whole,
    word_of,
)
from autosparse._native.c.register_gather import four_helper, has_lookup, lookup
from autosparse._native.c.types import C_NUMBER, C_VALUES, stored_type, vector_type
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.block import lanes_of
from autosparse._native.ir.slice_layout import BASE_SHIFT, DIAGONAL, IN_ORDER, KIND_MASK, NARROW, SIDES, WIDE
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.ir.writer import Writer

from autosparse.core.formats import DICTIONARY
from autosparse.core.values import dataclass
from autosparse.scalar import C_SIZE, COORDINATE, NARROW_INDEX

CACHE_LINE_BYTES: Final = 64


def slice_declarations(value: str) -> dict[str, str]:
    """Return the declarations of the arrays of `SIDES`; `value` is C's type of values."""
    kinds = (
        dict.fromkeys(("begin", "what"), C_SIZE) | dict.fromkeys(("first", "rows"), NARROW_INDEX.c) | {"table": value}
    )
    return {
        f"slice_{name}": f"const {kinds[name]} *restrict slice_{name} = A->{kind}[{depth}];"
        for name, (kind, depth) in SIDES.items()
    }


@dataclass(frozen=True)
class SliceShape:
    """One slice: its lanes in vectors of as many as a register has, and its accumulators."""

    spec: KernelSpec
    node: ir.SumSlots

    @property
    def lanes(self) -> int:
        """Number of lanes of one vector."""
        return lanes_of(self.node.lanes.split, self.spec.max_lanes)

    @property
    def vector(self) -> str:
        """Name of the vector type."""
        return vector_type(self.spec, self.lanes)

    @property
    def groups(self) -> range:
        """Number of the first lane of each vector of a slice."""
        return range(0, self.node.lanes.split, self.lanes)

    def kinds(self) -> list[int]:
        """Return the kinds of slices that the format has, the most common one last."""
        return [DIAGONAL] * self.node.diagonals + [WIDE] + [NARROW] * self.node.narrow


def emit_slice(out: Writer, spec: KernelSpec, node: ir.SumSlots, used: Used) -> None:
    """Emit the code of one slice: accumulators, the sum over its slots, and the store by rows."""
    shape = SliceShape(spec, node)
    used.lanes.add(shape.lanes)
    used.slices.add(shape.lanes)
    split = node.lanes.split
    out.line(f"const int64_t n_slots = {node.level.name}_pos[i1 + 1] - {node.level.name}_pos[i1];")
    out.line(f"const {stored_type(spec)} *v = vals + {node.level.name}_pos[i1] * {split};")
    kinds = shape.kinds()
    if len(kinds) > 1 or node.is_permuted:
        out.line("const int64_t what = slice_what[i1];")
    for copy in range(node.copies):
        for group in shape.groups:
            out.line(declared(spec, shape.vector, f"sum{copy}_{group}", "{0}"))
    for at, kind in enumerate(kinds):
        test = f"if ((what & {KIND_MASK}) == {kind})"
        head = "" if len(kinds) == 1 else test if at == 0 else "else" if at + 1 == len(kinds) else f"else {test}"
        with out.block(head):
            _emit_slots(out, shape, kind)
    _emit_store(out, shape, used)


def _emit_slots(out: Writer, shape: SliceShape, kind: int) -> None:
    """Emit all slots of a slice with columns of this kind: whole steps, then the rest by halves."""
    spec, node = shape.spec, shape.node
    crd, split, tensor = f"{node.level.name}_crd", node.lanes.split, node.expression.dense[0].tensor
    stored = (COORDINATE if kind == NARROW else NARROW_INDEX).c
    begin = "slice_begin[i1]" if node.diagonals or node.narrow else f"{node.level.name}_pos[i1] * {split}"
    base = f" + (what >> {BASE_SHIFT})" if kind == NARROW else ""
    out.line(f"const {C_VALUES[spec.dtype]} *x = {tensor}_{base};")
    out.line(f"const {stored} *at = (const {stored} *)({crd} + {begin});")
    out.line("int64_t s = 0;")
    step = node.copies
    with out.block(f"for (; s + {step} <= n_slots; s += {step})"):
        _emit_step(out, shape, kind, step)
    while step > 1:
        step //= 2
        with out.block(f"if (n_slots & {step})"):
            _emit_step(out, shape, kind, step)
            if step > 1:
                out.line(f"s += {step};")


def _emit_step(out: Writer, shape: SliceShape, kind: int, n: int) -> None:
    """Emit `n` slots, each with its own accumulators, and prefetches at the schedule's distance."""
    split, vector, ahead = shape.node.lanes.split, shape.vector, shape.node.prefetch
    if ahead and n == shape.node.copies:
        value_bytes = 1 if shape.node.numbered else shape.spec.value_bytes
        streams = {"v": value_bytes, "at": {DIAGONAL: 0, WIDE: 4, NARROW: 2}[kind]}
        for name, item_bytes in streams.items():
            for line in range(0, n * split * item_bytes, CACHE_LINE_BYTES):
                out.line(f"__builtin_prefetch({name} + (s + {ahead}) * {split} + {line // max(1, item_bytes)});")
    for copy in range(n):
        slot = f"s + {copy}" if copy else "s"
        for group in shape.groups:
            lane = f" + {group}" if group else ""
            cell = f"({slot}) * {split}{lane}" if copy else f"s * {split}{lane}"
            dense = {
                DIAGONAL: f"load_{vector}(x + at[{slot}]{lane})",
                WIDE: f"gather_32_{vector}(x, at + {cell})",
                NARROW: f"gather_16_{vector}(x, at + {cell})",
            }[kind]
            load = f"look_up_{vector}(slice_table, " if shape.node.numbered else f"load_{vector}("
            out.line(add_product(shape.spec, shape.lanes, f"sum{copy}_{group}", (f"{load}v + {cell})", dense)))


def _emit_store(out: Writer, shape: SliceShape, used: Used) -> None:
    """Sum the copies, check for values that are not finite, and store by rows."""
    node, split, vector = shape.node, shape.node.lanes.split, shape.vector
    output, n = f"{node.expression.output.tensor}_", f"n_{node.expression.output.indices[0]}"
    for group in shape.groups:
        step = node.copies
        while step > 1:  # by halves, for short dependency chains
            step //= 2
            for copy in range(step):
                out.line(add_sum(shape.spec, f"sum{copy}_{group}", f"sum{copy + step}_{group}"))
        if is_complex(shape.spec):
            out.line(f"sum0_{group} = {whole(shape.spec, shape.lanes, f'sum0_{group}')};")
        out.line(f"check_{shape.lanes} += sum0_{group} * 0;")
    if node.is_permuted:
        with out.block(f"if (what & {IN_ORDER})"):
            for group in shape.groups:
                out.line(f"store_{vector}({output} + slice_first[i1] + {group}, sum0_{group});")
        with out.block("else"):
            out.line(f"const int32_t *row = slice_rows + slice_first[i1] * (int64_t){split};")
            for group in shape.groups:
                out.line(f"scatter_{vector}({output}, row + {group}, sum0_{group}, {n});")
        return
    used.partial.add(shape.lanes)
    for group in shape.groups:
        row = f"i1 * {split} + {group}"
        out.line(f"if ({n} - ({row}) >= {shape.lanes})")
        out.line(f"    store_{vector}({output} + {row}, sum0_{group});")
        out.line("else")
        out.line(f"    store_part_{vector}({output} + {row}, sum0_{group}, {n} - ({row}));")


def slice_helpers(spec: KernelSpec, lanes: int) -> str:
    """Return gathers of ``B[at[0]], B[at[1]], ...`` for columns of 16 and 32 bits, and the scatter to rows below n."""
    if is_complex(spec):
        return _complex_helpers(spec, lanes)
    value, name = C_VALUES[spec.dtype], vector_type(spec, lanes)
    is_register = (spec.dtype, lanes) in _GATHER and lanes <= spec.max_lanes
    has_scatter = spec.gathers and is_register and (spec.dtype, lanes) in _SCATTER
    each = f"    return ({name}){{{', '.join(f'B[at[{lane}]]' for lane in range(lanes))}}};"
    gather = dict.fromkeys((16, 32), each)
    if has_lookup(spec, lanes):
        gather = {bits: f"    return ({name}){lookup(spec, lanes, bits)};" for bits in gather}
    elif is_register:
        gather = {bits: _GATHER[spec.dtype, lanes][bits] for bits in gather}
    numbered = _table_helper(spec, lanes) if spec.schedule.format.values == DICTIONARY else ""
    fours = "".join(four_helper(spec, bits) for bits in gather) if has_lookup(spec, lanes) else ""
    scatter = _SCATTER[spec.dtype, lanes] if has_scatter else _LANE_SCATTER.format(lanes=lanes)
    head = f"{'#include <immintrin.h>' if is_register else ''}\n{numbered}{fours}"
    return head + _movers(value, name, gather, scatter)


def _complex_helpers(spec: KernelSpec, lanes: int) -> str:
    """Return the helpers of slices of complex values; elements of 8 bytes are gathered as real values of 8 bytes."""
    value, name, word = C_VALUES[spec.dtype], vector_type(spec, lanes), word_of(spec)
    gather = dict.fromkeys((16, 32), f"    return {elements(spec, lanes)};")
    scatter = scatter_body(spec, lanes)
    if word is None or not spec.gathers or (word.name, lanes) not in _GATHER or lanes > spec.max_lanes:
        return _movers(value, name, gather, scatter)
    found = _GATHER[word.name, lanes]
    gather = {
        bits: text.replace(f"({word.short}x{lanes})", f"({name})").replace("B,", f"(const {word.c} *)B,")
        for bits, text in found.items()
    }
    return "#include <immintrin.h>\n" + _movers(value, name, gather, _SCATTER.get((word.name, lanes), scatter))


def _movers(value: str, name: str, gather: Mapping[int, str], scatter: str) -> str:
    """Return the functions that gather vectors and scatter them, given their bodies."""
    return f"""\
static inline {name} gather_16_{name}(const {value} *B, const uint16_t *at)
{{
{gather[16]}
}}
static inline {name} gather_32_{name}(const {value} *B, const int32_t *at)
{{
{gather[32]}
}}
static inline void scatter_{name}({value} *C, const int32_t *row, {name} v, int64_t n)
{{
{scatter}
}}
"""


def _table_helper(spec: KernelSpec, lanes: int) -> str:
    """Return the helper that decodes ``table[at[0]], table[at[1]], ...`` as lanes, in registers if these are wide
    enough.
    """
    value, name = C_VALUES[spec.dtype], vector_type(spec, lanes)
    text = f"    return ({name}){{{', '.join(f'table[at[{lane}]]' for lane in range(lanes))}}};"
    if lanes <= spec.max_lanes:
        text = _LOOK_UP.get((spec.dtype, lanes), text)
    return f"static inline {name} look_up_{name}(const {value} *table, const {C_NUMBER} *at)\n{{\n{text}\n}}\n"


_LOOK_UP: Final = {
    ("float32", 16): """\
    return (f32x16)_mm512_permutexvar_ps(_mm512_cvtepu8_epi32(*(const __m128i_u *)at), _mm512_loadu_ps(table));""",
    ("float64", 8): """\
    const __m512i wide = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)at));
    return (f64x8)_mm512_permutex2var_pd(_mm512_loadu_pd(table), wide, _mm512_loadu_pd(table + 8));""",
    ("float32", 8): """\
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)at));
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), wide);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), wide);
    return (f32x8)_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 28)));""",
}
"""Bodies of lookups in a table of 16 entries, by value type and lanes."""
_GATHER: Final = {
    ("float32", 16): {
        32: "    return (f32x16)_mm512_i32gather_ps(_mm512_loadu_si512(at), B, 4);",
        16: """\
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)at));
    return (f32x16)_mm512_i32gather_ps(wide, B, 4);""",
    },
    ("float32", 8): {
        32: "    return (f32x8)_mm256_i32gather_ps(B, _mm256_loadu_si256((const __m256i *)at), 4);",
        16: """\
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)at));
    return (f32x8)_mm256_i32gather_ps(B, wide, 4);""",
    },
    ("float64", 8): {
        32: "    return (f64x8)_mm512_i32gather_pd(_mm256_loadu_si256((const __m256i *)at), B, 8);",
        16: """\
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)at));
    return (f64x8)_mm512_i32gather_pd(wide, B, 8);""",
    },
    ("float64", 4): {
        32: "    return (f64x4)_mm256_i32gather_pd(B, _mm_loadu_si128((const __m128i *)at), 8);",
        16: """\
    const __m128i wide = _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)at));
    return (f64x4)_mm256_i32gather_pd(B, wide, 8);""",
    },
}
"""Bodies of gathers by value type and lanes (registers of 64 and 32 bytes), then by bits of a column."""
_SCATTER: Final = {
    ("float32", 16): """\
    const __m512i rows = _mm512_loadu_si512(row);
    const __mmask16 m = _mm512_cmplt_epi32_mask(rows, _mm512_set1_epi32((int)n));
    _mm512_mask_i32scatter_ps(C, m, rows, (__m512)v, 4);""",
    ("float64", 8): """\
    const __m256i rows = _mm256_loadu_si256((const __m256i *)row);
    const __mmask8 m = _mm256_cmplt_epi32_mask(rows, _mm256_set1_epi32((int)n));
    _mm512_mask_i32scatter_pd(C, m, rows, (__m512d)v, 8);""",
}
_LANE_SCATTER: Final = """\
    for (int lane = 0; lane < {lanes}; lane++)
        if (row[lane] < n)
            C[row[lane]] = v[lane];"""
