"""Tests of errors for operands of different shapes: SciPy's first line and type, both shapes, and a hint."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

from autosparse import light
from autosparse.errors import ShapeError
from autosparse.light import matrices
from tests.arrays.test_selected_rows import KINDS, ours, same
from tests.light.test_light import run

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "A + B": operator.add,
    "A - B": operator.sub,
    "A.multiply(B)": lambda A, B: A.multiply(B),
    "A < B": operator.lt,
    "A >= B": operator.ge,
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_shapes_that_differ_are_both_named(name: str, kind: Any) -> None:
    plain = kind(sps.eye_array(3, 4)), kind(sps.eye_array(5, 5))
    with pytest.raises(ValueError, match="inconsistent shape") as theirs:
        OPERATIONS[name](*plain)
    for right in (ours(plain[1]), plain[1], plain[1].tocoo()):
        with pytest.raises(ShapeError) as error:
            OPERATIONS[name](ours(plain[0]), right)
        text = str(error.value)
        assert text.startswith(str(theirs.value))
        assert "(3, 4)" in text
        assert "(5, 5)" in text
        assert "Hint: " in text


def test_light_matrices_raise_the_same_error_and_stay_light() -> None:
    lines = """
for operation in (lambda B: A + B, lambda B: A - B, lambda B: A.multiply(B), lambda B: A < B):
    try:
        operation(asp.csr(m[:7, :5]))
    except ValueError as error:
        print(type(error).__name__, "(7, 5)" in str(error), "Hint" in str(error), light.is_complete)
"""
    assert run(lines).split("\n") == ["ShapeError True True False"] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_other_errors_and_broadcasts_are_scipys(kind: Any) -> None:
    m = kind(sps.random_array((4, 5), density=0.5, random_state=np.random.default_rng(0)))
    A = ours(m)
    for operation in (lambda A: A + 1, lambda A: A + np.ones((3, 3)), lambda A: A + "x"):
        with pytest.raises((ValueError, TypeError, NotImplementedError)) as theirs:
            operation(m)
        with pytest.raises(type(theirs.value)) as error:
            operation(A)
        assert type(error.value) is type(theirs.value)
        assert str(error.value) == str(theirs.value)
    row, column = np.arange(5.0), np.arange(4.0)[:, None]
    for other in (row, column, sps.csr_array(row[None]), sps.csr_array(column), 2.0):
        found, expected = A.multiply(other), m.multiply(other)
        assert found.format == expected.format
        np.testing.assert_array_equal(found.toarray(), expected.toarray())


def test_operands_of_one_class_and_shape_skip_scipys_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert light.complete()
    m = sps.random_array((30, 30), density=0.1, format="csr", random_state=np.random.default_rng(0))
    A, B, wanted = ours(m), ours(m * 2), [m + m, m - m * 2, m.multiply(m)]

    def refuse(*_: Any) -> Any:
        raise AssertionError("SciPy's method was called")

    for name in ("__add__", "__sub__", "multiply"):
        monkeypatch.setattr(matrices.csr_array._plain_class, name, refuse)
    found = [A + A, A - B, A.multiply(A)]
    monkeypatch.undo()
    for one, other in zip(found, wanted, strict=True):
        same(one, other, type(A))
