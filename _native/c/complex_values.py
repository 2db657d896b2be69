"""C text of complex values: a vector of n lanes is a vector of 2n real numbers, real and imaginary parts in turn.

Loads, stores, sums and comparisons with zero are therefore those of real vectors. This module has what differs: the
product, and everything that moves single elements. A product has four real multiplications, as SciPy's has; infinities
are not recovered from NaN (C11, Annex G, does that).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autosparse._native.ir.spec import KernelSpec

from autosparse.scalar import BY_BITS, C_SIZE, REAL, SCALARS, ScalarType

HAS_SHUFFLE: Final = "defined(__clang__) || __GNUC__ >= 12"
"""C condition that the compiler has `__builtin_shufflevector`, whose result may have more lanes than its operands."""


def is_complex(spec: KernelSpec) -> bool:
    """Return whether the kernel computes complex values."""
    return spec.types.compute.kind == "complex"


def part_of(spec: KernelSpec) -> ScalarType:
    """Return the type of real and imaginary parts, or the kernel's own type."""
    return SCALARS[spec.types.compute.part]


def word_of(spec: KernelSpec) -> ScalarType | None:
    """Return the real type with the size of an element, whose gathers move elements; None if there is none."""
    return next((SCALARS[name] for name in REAL if SCALARS[name].itemsize == spec.value_bytes), None)


def element_text(spec: KernelSpec) -> str:
    """Return the types of an element in memory, which has the alignment of its parts, and of a vector of one lane."""
    short, part = spec.types.compute.short, part_of(spec)
    vector = f"vector_size({spec.value_bytes})"
    return (
        f"typedef {part.c} {short} __attribute__(({vector}, aligned({part.itemsize}), may_alias));\n"
        f"typedef {part.c} {short}x1 __attribute__(({vector}));\n"
    )


def vector_text(spec: KernelSpec, lanes: int) -> str:
    """Return the helpers of vectors of `lanes` complex values beside loads, stores and sums."""
    short = spec.types.compute.short
    name, half, part = f"{short}x{lanes}", f"{short}x{lanes // 2}", part_of(spec)
    size, places = lanes * spec.value_bytes, range(2 * lanes)
    text = _WORDS.format(name=name, word=word.c, align=part.itemsize, size=size) if (word := word_of(spec)) else ""
    if lanes > 1 and word is None:
        text += _JOIN.format(name=name, half=half, places=", ".join(map(str, places)), test=HAS_SHUFFLE)
    return text + _PRODUCTS.format(
        name=name, one=f"{short}x1", integer=BY_BITS[8 * part.itemsize].c, size=size, test=HAS_SHUFFLE,
        real=", ".join(str(at & ~1) for at in places), imaginary=", ".join(str(at | 1) for at in places),
        swapped=", ".join(str(at ^ 1) for at in places), signs=", ".join("1" if at % 2 else "-1" for at in places),
    )  # fmt: skip


_WORDS: Final = """\
typedef {word} {name}_word __attribute__((aligned({align}), may_alias));
typedef {word} {name}_words __attribute__((vector_size({size})));
"""
_JOIN: Final = """\
static inline {name} join_{name}({half} low, {half} high)
{{
#if {test}
    return __builtin_shufflevector(low, high, {places});
#else
    union {{ {half} half[2]; {name} whole; }} u = {{{{low, high}}}};
    return u.whole;
#endif
}}
"""
_PRODUCTS: Final = """\
#if {test}
#define permuted_{name}(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
typedef {integer} {name}_places __attribute__((vector_size({size})));
#define permuted_{name}(v, ...) __builtin_shuffle(v, ({name}_places){{__VA_ARGS__}})
#endif
static inline {name} first_{name}({one} value) {{ return ({name}){{value[0], value[1]}}; }}
static inline {name} real_{name}({name} v) {{ return permuted_{name}(v, {real}); }}
static inline {name} imaginary_{name}({name} v) {{ return permuted_{name}(v, {imaginary}); }}
static inline {name} whole_{name}({name} sum, {name} turned)
{{
    const {name} signs = {{{signs}}};
    return sum + signs * permuted_{name}(turned, {swapped});
}}
static inline {name} scaled_{name}({one} a, {name} b) {{ return whole_{name}(a[0] * b, a[1] * b); }}
static inline int is_nonzero_{name}({name} v)
{{
    return v[0] != 0 || v[1] != 0;
}}
"""
"""Sums of products by real and by imaginary parts are kept apart, so that no product exchanges lanes."""


def declared(spec: KernelSpec, vector: str, name: str, start: str) -> str:
    """Return the declaration of the accumulator `name`; the products by imaginary parts have one of their own."""
    turned = f", turned_{name} = {{0}}" if is_complex(spec) else ""
    return f"{vector} {name} = {start}{turned};"


def add_product(spec: KernelSpec, lanes: int, to: str, factors: Sequence[str], scalar: int | None = None) -> str:
    """Return the statement that adds the product of `factors` to the accumulator `to`.

    The factor at `scalar` is a scalar. Complex products have two factors.
    """
    if not is_complex(spec):
        return f"{to} += {' * '.join(factors)};"
    name, (first, second) = f"{spec.types.compute.short}x{lanes}", factors
    if scalar is None and lanes > 1:
        both = f"{to} += real_{name}({first}) * other; turned_{to} += imaginary_{name}({first}) * other;"
        return f"{{ const {name} other = {second}; {both} }}"
    one, vector = (second, first) if scalar == 1 else (first, second)
    return f"{to} += {one}[0] * {vector}; turned_{to} += {one}[1] * {vector};"


def add_sum(spec: KernelSpec, to: str, other: str) -> str:
    """Return the statement that adds one accumulator to another."""
    return f"{to} += {other};" + (f" turned_{to} += turned_{other};" if is_complex(spec) else "")


def whole(spec: KernelSpec, lanes: int, name: str) -> str:
    """Return the expression of the sum in the accumulator `name`."""
    return f"whole_{spec.types.compute.short}x{lanes}({name}, turned_{name})" if is_complex(spec) else name


def zero_of(spec: KernelSpec) -> str:
    """Return the C expression of a scalar zero."""
    return f"({spec.types.compute.short}){{0}}" if is_complex(spec) else "0"


def elements(spec: KernelSpec, lanes: int, at: str = "at", first: int = 0) -> str:
    """Return the C expression of the vector of the elements of B at the indices `at` from `first` on."""
    name = f"{spec.types.compute.short}x{lanes}"
    if word_of(spec) is not None:
        listed = ", ".join(f"((const {name}_word *)B)[{at}[{first + lane}]]" for lane in range(lanes))
        return f"({name})({name}_words){{{listed}}}"
    if lanes == 1:
        return f"B[{at}[{first}]]"
    low, high = (elements(spec, lanes // 2, at, first + step) for step in (0, lanes // 2))
    return f"join_{name}({low}, {high})"


def partial_text(spec: KernelSpec, lanes: int) -> str:
    """Return loads and stores that stop at the end of an operand; see `types.partial_helpers`."""
    short = spec.types.compute.short
    return _PARTIAL.format(value=short, name=f"{short}x{lanes}", lanes=lanes, size=C_SIZE)


_PARTIAL: Final = """\
typedef union {{ {name} whole; {value} lane[{lanes}]; }} {name}_lanes;
static inline {name} load_part_{name}(const {value} *p, {size} n)
{{
    {name}_lanes v = {{{{0}}}};
    for (int lane = 0; lane < {lanes} && lane < n; lane++)
        v.lane[lane] = p[lane];
    return v.whole;
}}
static inline void store_part_{name}({value} *p, {name} whole, {size} n)
{{
    const {name}_lanes v = {{whole}};
    for (int lane = 0; lane < {lanes} && lane < n; lane++)
        p[lane] = v.lane[lane];
}}
/* Reads past the end give the last value: it meets a padded zero. */
static inline {name} load_clamped_{name}(const {value} *p, {size} k, {size} n)
{{
    {name}_lanes v;
    if (k + {lanes} <= n)
        return load_{name}(p + k);
    for (int lane = 0; lane < {lanes}; lane++)
        v.lane[lane] = p[k + lane < n ? k + lane : n - 1];
    return v.whole;
}}
"""


def scatter_body(spec: KernelSpec, lanes: int) -> str:
    """Return the body of the scatter of a vector `v` to the rows below n, lane by lane."""
    short = spec.types.compute.short
    return f"""\
    const union {{ {short}x{lanes} whole; {short} lane[{lanes}]; }} u = {{v}};
    for (int lane = 0; lane < {lanes}; lane++)
        if (row[lane] < n)
            C[row[lane]] = u.lane[lane];"""
