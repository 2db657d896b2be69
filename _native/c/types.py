"""C text that kernels share: the ABI's structures, vector types with their helpers, and small functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from autosparse._native.c.complex_values import (
    element_text,
    elements,
    is_complex,
    part_of,
    partial_text,
    vector_text,
)
from autosparse._native.c.register_gather import four_helper, has_lookup, lookup
from autosparse._native.ir.spec import KernelSpec

from autosparse.core.expression import IndexExpression
from autosparse.isa import ISAS
from autosparse.scalar import BY_BITS, BYTE, GENERATED, SCALARS

C_VALUES: Final = {name: row.c if (row := SCALARS[name]).kind == "real" else row.short for name in GENERATED}
"""C types of an element in memory; that of complex values is a typedef of `vector_helpers`."""
C_NUMBER: Final = BYTE.c
"""C type of dictionary-encoded values, which are indices into a table."""
C_INDICES: Final = {bits: row.c for bits, row in BY_BITS.items()}
MAX_LEVELS: Final = 12
MAX_INDICES: Final = 6

OPERAND_STRUCT: Final = f"""\
typedef void (*asp_task)(void *context, int64_t begin, int64_t end);
typedef int (*asp_parallel_function)(asp_task task, void *context, int64_t n_items, int64_t min_items,
                                     int64_t max_items, int n_threads, double serial_ns);
typedef struct {{
    int64_t size[{MAX_INDICES}];            /* extents of the indices, the sparse operand's first */
    const void *pos[{MAX_LEVELS}], *crd[{MAX_LEVELS}]; /* by depth of the level */
    const void *vals;
    int64_t n_positions[{MAX_LEVELS}];     /* of each level; the last level's number the values */
    int64_t sorted;             /* bit d: the level at depth d lists ascending coordinates */
    asp_parallel_function parallel; /* NULL: one thread */
    const void *origin, *repeats; /* of structures: entry at each position, next entry at the same one */
    void *(*take)(size_t bytes);  /* work space, and back */
    void (*give)(void *elements, size_t bytes);
    void (*done)(void *observer, int64_t begin, int64_t end); /* NULL, or told which rows of the result are complete */
    void *observer;
    int64_t window;              /* rows of the result are permuted within windows of so many rows */
}} asp_operand;
"""
"""C declaration of the packed operand that kernels read. The declaration that cffi parses has the same layout."""

PRODUCT_PROTOTYPE: Final = (
    "int asp_kernel(const asp_operand *A, uintptr_t {B}, int64_t ld{B}, uintptr_t {C}, int64_t ld{C}, int64_t n_j, "
    "int64_t n_threads, int64_t chunk)"
)
"""Prototype of plain products.

The dense operand B and the output C are addresses, ldB and ldC elements between rows. `chunk` is the number of
iterations per range; 0 means equal shares of the entries. The kernel returns 1 if a result that padding may have
affected is not finite, else 0.
"""

DENSE_KERNEL_PROTOTYPE: Final = (
    "int asp_kernel(const asp_operand *A, const uintptr_t *at, const int64_t *ld, int64_t n_j, int64_t n_threads, "
    "int64_t chunk)"
)
"""Prototype of other operations.

`at` and `ld` hold the addresses and the elements between rows of the dense operands, then of the output; for a sampled
output `at` also holds the address of the values.
"""


def call_struct(expression: IndexExpression) -> str:
    """Return the structure of the kernel's arguments that its tasks read."""
    tensors = [access.tensor for access in (*expression.dense, expression.output)]
    addresses = [*tensors, "vals"] if expression.sampled else tensors
    leading = [f"ld{tensor}" for tensor in tensors]
    return (
        "typedef struct {\n    const asp_operand *A;\n"
        f"    uintptr_t {', '.join(addresses)};\n"
        f"    int64_t {', '.join(leading)}, n_j, n_threads, chunk;\n}} asp_call;\n"
    )


def call_of(expression: IndexExpression) -> tuple[str, str, tuple[str, ...]]:
    """Return the prototype of the kernel, the initializer of its call, and the names of its parameters."""
    common = ("n_j", "n_threads", "chunk")
    tensors = [access.tensor for access in (*expression.dense, expression.output)]
    if expression.is_plain_product:
        B, C = tensors
        prototype = PRODUCT_PROTOTYPE.format(B=B, C=C)
        return prototype, ", ".join(("A", B, C, f"ld{B}", f"ld{C}", *common)), ("A", f"ld{B}", f"ld{C}", *common)
    addresses = [f"at[{place}]" for place in range(len(tensors) + expression.sampled)]
    leading = [f"ld[{place}]" for place in range(len(tensors))]
    return DENSE_KERNEL_PROTOTYPE, ", ".join(("A", *addresses, *leading, *common)), ("A", *common)


INCLUDES: Final = "#include <stddef.h>\n#include <stdint.h>\n"

HELPERS: Final = {
    "asp_min": """\
static inline int64_t asp_min(int64_t a, int64_t b) { return a < b ? a : b; }
""",
    "asp_boundary": """\
/* First of n iterations at which the share `part` of n_parts begins: chunk iterations each, or equal
 * numbers of entries and iterations. */
static int64_t asp_boundary(const POS *pos, int64_t n, int64_t chunk, int64_t part, int64_t n_parts)
{
    if (part >= n_parts)
        return n;
    if (chunk > 0)
        return part * chunk;
    if (!pos)
        return n * part / n_parts;
    const double wanted = ((double)(pos[n] - pos[0]) + 2.0 * (double)n) * (double)part / (double)n_parts;
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if ((double)(pos[middle] - pos[0]) + 2.0 * (double)middle < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
""",
    "asp_first": """\
/* First position in low .. high whose coordinate is not below the wanted one; low where they are not sorted. */
static inline int64_t asp_first(const CRD *crd, int64_t low, int64_t high, int64_t wanted, int sorted)
{
    if (!sorted)
        return low;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if ((int64_t)crd[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
""",
}
"""Functions that a kernel may call; POS and CRD stand for its index types."""


def vector_type(spec: KernelSpec, lanes: int) -> str:
    """Return the name of the type of `lanes` values ("f32x1" is a scalar)."""
    return f"{spec.types.compute.short}x{lanes}"


def vector_helpers(spec: KernelSpec, lanes_used: Iterable[int]) -> str:
    """Return types and functions for all widths up to the widest used, because sums proceed by halves."""
    widest = max(lanes_used)
    return "".join(_vector_helper(spec, 1 << bit) for bit in range(widest.bit_length()))


def _vector_helper(spec: KernelSpec, lanes: int) -> str:
    value, name, part = C_VALUES[spec.dtype], vector_type(spec, lanes), part_of(spec)
    size, own = lanes * spec.value_bytes, vector_text(spec, lanes) if is_complex(spec) else ""
    if lanes == 1:
        types = element_text(spec) if own else f"typedef {value} {name};\n"
        return (
            f"{types}static inline {name} load_{name}(const {value} *p) {{ return *p; }}\n"
            f"static inline void store_{name}({value} *p, {name} v) {{ *p = v; }}\n"
            f"static inline {value} sum_{name}({name} v) {{ return v; }}\n{own}"
        )
    half = vector_type(spec, lanes // 2)
    return f"""\
typedef {part.c} {name} __attribute__((vector_size({size})));
typedef {part.c} {name}_unaligned __attribute__((vector_size({size}), aligned({part.itemsize}), may_alias));
static inline {name} load_{name}(const {value} *p) {{ return *(const {name}_unaligned *)p; }}
static inline void store_{name}({value} *p, {name} v) {{ *({name}_unaligned *)p = v; }}
static inline {value} sum_{name}({name} v)
{{
    union {{ {name} whole; {half} half[2]; }} u = {{v}};
    return sum_{half}(u.half[0] + u.half[1]);
}}
{own}"""


def stored_type(spec: KernelSpec) -> str:
    """Return the C type of A's values as they are stored."""
    return C_VALUES.get(spec.types.stored.name, spec.types.stored.c)


_WIDEN: Final = {
    "bfloat16": "    return (f32x{n})(wide << 16);",
    "float16": """\
    const f32x{n} magnitude = (f32x{n})((wide & 0x7fff) << 13) * 0x1p112f; /* no infinities are stored */
    return (f32x{n})((u32x{n})magnitude | (wide & 0x8000) << 16);""",
}


def stored_helpers(spec: KernelSpec, lanes_used: Iterable[int]) -> str:
    """Return ``load_stored``, which widens half-precision values to float32 exactly, one by one and as vectors."""
    kind = spec.schedule.format.values
    scalar = {
        "bfloat16": "    u.bits = (uint32_t)h << 16;\n",
        "float16": "    u.bits = (uint32_t)(h & 0x7fff) << 13;\n    u.value *= 0x1p112f; \n"
        "    u.bits |= (uint32_t)(h & 0x8000) << 16;\n",
    }[kind]
    text = (
        "static inline float widen_f32x1(uint16_t h)\n{\n    union { uint32_t bits; float value; } u;\n"
        f"{scalar}    return u.value;\n}}\n"
        "static inline float load_stored_f32x1(const uint16_t *p) { return widen_f32x1(*p); }\n"
    )
    for n in sorted(set(lanes_used) - {1}):
        text += f"""\
typedef uint16_t u16x{n} __attribute__((vector_size({2 * n})));
typedef uint16_t u16x{n}_unaligned __attribute__((vector_size({2 * n}), aligned(2), may_alias));
typedef uint32_t u32x{n} __attribute__((vector_size({4 * n})));
static inline f32x{n} widen_f32x{n}(u16x{n} h)
{{
    const u32x{n} wide = __builtin_convertvector(h, u32x{n});
{_WIDEN[kind].format(n=n)}
}}
static inline f32x{n} load_stored_f32x{n}(const uint16_t *p) {{ return widen_f32x{n}(*(const u16x{n}_unaligned *)p); }}
"""
    return text


def partial_helpers(spec: KernelSpec, lanes: int) -> str:
    """Return loads and stores that stop at the end of an operand, for vectors along a sparse index."""
    if is_complex(spec):
        return partial_text(spec, lanes)
    value, name = C_VALUES[spec.dtype], vector_type(spec, lanes)
    at = "v" if lanes == 1 else "v[lane]"
    return f"""\
static inline {name} load_part_{name}(const {value} *p, int64_t n)
{{
    {name} v = {{0}};
    for (int lane = 0; lane < {lanes} && lane < n; lane++)
        {at} = p[lane];
    return v;
}}
static inline void store_part_{name}({value} *p, {name} v, int64_t n)
{{
    for (int lane = 0; lane < {lanes} && lane < n; lane++)
        p[lane] = {at};
}}
/* Reads past the end give the last value: it meets a padded zero. */
static inline {name} load_clamped_{name}(const {value} *p, int64_t k, int64_t n)
{{
    {name} v;
    if (k + {lanes} <= n)
        return load_{name}(p + k);
    for (int lane = 0; lane < {lanes}; lane++)
        {at} = p[k + lane < n ? k + lane : n - 1];
    return v;
}}
"""


def head_helpers(spec: KernelSpec, lanes: int) -> str:
    """Return loads and stores of the first n lanes; the others' memory is not accessed, and they are loaded as zero."""
    value, name, part = C_VALUES[spec.dtype], vector_type(spec, lanes), part_of(spec)
    n_parts = spec.value_bytes // part.itemsize
    letter, n_reals, n = "s" if part.itemsize == 4 else "d", lanes * n_parts, "n" if n_parts == 1 else f"{n_parts} * n"
    if lanes * spec.value_bytes == 64:
        mask, p = "uint16_t" if n_reals == 16 else "uint8_t", "p" if n_parts == 1 else f"(const {part.c} *)(p)"
        return f"""\
#ifdef __clang__
#include <immintrin.h>
#define mask_load(p, m) ({name})_mm512_maskz_loadu_p{letter}(m, p)
#define mask_store(p, m, v) _mm512_mask_storeu_p{letter}(p, m, v)
#else
#define mask_load(p, m) __builtin_ia32_loadup{letter}512_mask({p}, ({name}){{0}}, m)
#define mask_store(p, m, v) __builtin_ia32_storeup{letter}512_mask({p.replace("const ", "")}, v, m)
#endif
typedef {mask} head_{name};
static inline head_{name} make_head_{name}(int64_t n)
{{
    return (head_{name})(n >= {lanes} ? {hex((1 << n_reals) - 1)}u : n > 0 ? (1u << {n}) - 1u : 0u);
}}
static inline {name} load_head_{name}(const {value} *p, head_{name} m) {{ return mask_load(p, m); }}
static inline void store_head_{name}({value} *p, {name} v, head_{name} m) {{ mask_store(p, m, v); }}
"""
    integer = "int" if part.itemsize == 4 else "long long"  # types with which the builtins are declared
    places = ", ".join(str(at // n_parts) for at in range(n_reals))
    return f"""\
typedef {integer} head_{name} __attribute__((vector_size({lanes * spec.value_bytes})));
static inline head_{name} make_head_{name}(int64_t n)
{{
    return (head_{name}){{{places}}} < ({integer})n;
}}
static inline {name} load_head_{name}(const {value} *p, head_{name} m)
{{
    return __builtin_ia32_maskloadp{letter}256((const {name} *)p, m);
}}
static inline void store_head_{name}({value} *p, {name} v, head_{name} m)
{{
    __builtin_ia32_maskstorep{letter}256(({name} *)p, m, v);
}}
"""


def gather_helpers(spec: KernelSpec, lanes: int) -> str:
    """Return the gather of ``B[crd[0]], B[crd[1]], ...``; with masks, a product of the first n lanes."""
    value, name, crd = C_VALUES[spec.dtype], vector_type(spec, lanes), C_INDICES[spec.coordinate_bits]
    if not masked_gather(spec, lanes):
        listed = f"({name}){{{', '.join(f'B[crd[{lane}]]' for lane in range(lanes))}}}"
        found = elements(spec, lanes, "crd") if is_complex(spec) else listed
        head = f"static inline {name} gather_{name}(const {value} *B, const {crd} *crd)"
        if has_lookup(spec, lanes):
            bits = spec.coordinate_bits
            text = f"    return ({name}){lookup(spec, lanes, bits, 'crd')};"
            return f"#include <immintrin.h>\n{four_helper(spec, bits)}{head}\n{{\n{text}\n}}\n"
        return f"{head}\n{{\n    return {found};\n}}\n"
    text, fours = _MASKED_GATHER[spec.dtype, spec.coordinate_bits], ""
    if has_lookup(spec, lanes):
        text, fours = _masked_lookup(spec, lanes), four_helper(spec, spec.coordinate_bits)
    if spec.schedule.format.values:
        text = text.replace("_mm512_maskz_loadu_ps(m, vals)", _WIDENED_GATHER)
    return f"""\
#include <immintrin.h>
{fours}/* The first n entries of a fiber, n <= {lanes}: products of the others are zero, and none of them is read. */
static inline {name} product_{name}(const {stored_type(spec)} *vals, const {crd} *crd, const {value} *B, int64_t n)
{{
    const __mmask{max(8, lanes)} m = (__mmask{max(8, lanes)})(n >= {lanes} ? {hex((1 << lanes) - 1)}u : (1u << n) - 1u);
{text}
}}
"""


def _masked_lookup(spec: KernelSpec, lanes: int) -> str:
    """Return the body of products with one load per element; lanes beyond the last element use index 0."""
    bits, crd = spec.coordinate_bits, C_INDICES[spec.coordinate_bits]
    vector, letter = ("__m512", "s") if spec.dtype == "float32" else ("__m512d", "d")
    places = f"_mm{'' if lanes * bits == 128 else lanes * bits}"
    return f"""\
    {vector} b;
    if (n >= {lanes}) {{
        b = {lookup(spec, lanes, bits, "crd")};
    }} else {{
        {crd} at[{lanes}];
        {places}_storeu_si{lanes * bits}((void *)at, {places}_maskz_loadu_epi{bits}(m, crd));
        b = _mm512_maskz_mov_p{letter}(m, {lookup(spec, lanes, bits)});
    }}
    return ({vector_type(spec, lanes)})_mm512_mul_p{letter}(_mm512_maskz_loadu_p{letter}(m, vals), b);"""


def masked_gather(spec: KernelSpec, lanes: int) -> bool:
    """Return whether a fiber's incomplete last step can be gathered by the same vectors, with masked lanes."""
    return (
        ISAS[spec.isa].has_masked_gather
        and lanes == spec.max_lanes
        and (spec.dtype, spec.coordinate_bits) in _MASKED_GATHER
    )


_WIDENED_GATHER: Final = "(__m512)widen_f32x16((u16x16)_mm256_maskz_loadu_epi16(m, vals))"
_MASKED_GATHER: Final = {
    ("float32", 32): """\
    const __m512i at = _mm512_maskz_loadu_epi32(m, crd);
    const __m512 b = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), m, at, B, 4);
    return (f32x16)_mm512_mul_ps(_mm512_maskz_loadu_ps(m, vals), b);""",
    ("float32", 16): """\
    const __m512i at = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, crd));
    const __m512 b = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), m, at, B, 4);
    return (f32x16)_mm512_mul_ps(_mm512_maskz_loadu_ps(m, vals), b);""",
    ("float64", 32): """\
    const __m256i at = _mm256_maskz_loadu_epi32(m, crd);
    const __m512d b = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), m, at, B, 8);
    return (f64x8)_mm512_mul_pd(_mm512_maskz_loadu_pd(m, vals), b);""",
    ("float64", 16): """\
    const __m256i at = _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(m, crd));
    const __m512d b = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), m, at, B, 8);
    return (f64x8)_mm512_mul_pd(_mm512_maskz_loadu_pd(m, vals), b);""",
}
