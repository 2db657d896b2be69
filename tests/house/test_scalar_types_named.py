"""Test that few modules of the library spell a type of numbers: each is one row of `autosparse.scalar`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest

from autosparse.core import dtypes
from autosparse.scalar import REAL, SCALARS
from autosparse.scalar.kernel import KernelType
from tests.house.sources import Source, library

SPELLED: Final = {
    "autosparse.scalar",  # the rows
    "autosparse.core.dtypes",  # NumPy's classes by purpose
    "autosparse._native.c.types",  # C text of vector types, and conversions of half precision
    "autosparse._native.c.register_gather",  # intrinsics by type and lanes
    "autosparse._native.c.slices",
    "autosparse._native.numba.intrinsics",  # conversions of half precision
    "autosparse._native.storage.half_precision",
    "autosparse.contraction.lower.c_parts",  # C text without parameters
    "autosparse.contraction.lower.c_text",
}
"""Modules that may spell a type of numbers. The set may only shrink."""
MAX_SPELLED: Final = 15

_NAME: Final = (
    r"(?:b?float16|float32|float64|complex64|complex128|u?int(?:8|16|32|64)|c?longdouble"
    r"|bool_|intp|cdouble|cfloat|c_u?int\d+|c_float|c_double)"
)
ATTRIBUTE: Final = re.compile(rf"{_NAME}|double")
"""Attributes of NumPy, torch, numba and ctypes, and torch's method."""
TEXT: Final = re.compile(
    rf"(?<![A-Za-z0-9]){_NAME}(?:_t)?(?![A-Za-z0-9])"  # a dtype's name or a C type
    r"|(?<![A-Za-z0-9])(?:double|_Float16|__bf16|fp(?:16|32|64)|f32|f64)(?![A-Za-z0-9])"
    r"|(?<![A-Za-z0-9])float (?:\*|_Complex|\w+\()"  # C; `float` alone is Python's type
    r"|[<=|>][fiucb](?:1|2|4|8|16)(?![0-9])|^[fuc](?:2|4|8|16)$|^i[48]$|^u1$"  # NumPy's codes ("i1", "i2" are loops)
)
"""Text of a string that spells a type: for NumPy, torch, Triton, cffi or the C compiler."""


def docstrings(tree: ast.Module) -> set[ast.AST]:
    """Return the strings of a module that stand alone as a statement."""
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def spelled(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each place of a module that spells a type of numbers."""
    ignored = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ATTRIBUTE.fullmatch(node.attr):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Name) and re.fullmatch(_NAME, node.id):
            yield node.lineno, node.id
        elif isinstance(node, ast.alias) and re.fullmatch(_NAME, node.name):
            yield node.lineno, node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in ignored:
            yield from [(node.lineno, node.value)] if TEXT.search(node.value) else ()


def places(source: Source) -> list[str]:
    return [f"{source.name}:{line}: {text[:60]!r}" for line, text in spelled(source.tree)]


def test_few_modules_spell_a_type() -> None:
    found = {source.name: where for source in library() if (where := places(source))}
    unlisted = [one for name, where in found.items() if name not in SPELLED for one in where]
    assert not unlisted, f"use a row or a set of autosparse.scalar, or a class of autosparse.core.dtypes: {unlisted}"
    assert found.keys() == SPELLED, "a module that no longer spells a type leaves the list"
    assert len(SPELLED) <= MAX_SPELLED


@pytest.mark.parametrize(
    "text",
    ["np.int64", "x.double()", "int32", "from numpy import float32", "f(dtype='float64')", "cast('int32_t *', x)",
     "line(f'const double {x} = 0;')", "np.dtype('<f4')", "tl('*fp32')", "ctypes.c_int64", "new('float *')"],
)  # fmt: skip
def test_each_spelling_is_found(text: str) -> None:
    assert list(spelled(ast.parse(text)))


@pytest.mark.parametrize(
    "text", ["'''int64'''", "loops = 'i1', 'i2'", "float(x)", "cast('float | None', x)", "has.half(x)"]
)
def test_other_text_is_not_found(text: str) -> None:
    assert not list(spelled(ast.parse(text)))


@pytest.mark.parametrize("name", [row.name for row in SCALARS.values() if row.has_numpy])
def test_a_row_agrees_with_numpy(name: str) -> None:
    row, dtype = SCALARS[name], np.dtype(name)
    kinds = {"bool": "b", "unsigned": "u", "signed": "i", "real": "f", "complex": "c"}
    assert (row.dtype, row.itemsize, kinds[row.kind]) == (dtype, dtype.itemsize, dtype.kind)
    assert row.lanes(64) == 64 // dtype.itemsize


def test_rows_refer_to_rows_at_least_as_wide() -> None:
    for row in SCALARS.values():
        assert SCALARS[row.compute].itemsize >= row.itemsize
        assert SCALARS[row.sums].itemsize >= row.itemsize


@pytest.mark.parametrize("codes", [("code",), ("index_code",), ("stored_code",)])
def test_codes_of_the_runtime_are_distinct(codes: tuple[str]) -> None:
    found = sorted(code for row in SCALARS.values() if (code := getattr(row, codes[0])) >= 0)
    assert found == list(range(len(found)))


def test_rows_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot assign"):
        SCALARS[REAL[0]].itemsize = 3  # type: ignore[misc]


def test_a_kernel_computes_half_precision_in_a_wider_type() -> None:
    stored, indices, compute = KernelType.of("float16", "int64")
    assert (stored.name, indices.itemsize, compute.name) == ("float16", 8, "float32")


def test_classes_of_arrays_are_types_of_the_table() -> None:
    classes = [one for one in vars(dtypes).values() if isinstance(one, type) and issubclass(one, np.generic)]
    assert {np.dtype(one).name for one in classes} <= SCALARS.keys()
