"""Tests that the explanation of a product with the transpose shows its own formula, shape and loops."""

from __future__ import annotations

from autosparse.explain.explanation import Explanation
from tests.explain.samples import UNTUNED, problem, report


def test_transposed_problem_shows_the_shape_and_the_formula_of_the_transpose() -> None:
    text = str(Explanation(report(problem=problem(transposed=True))))
    assert "A.T @ B" in text
    words = [line.split() for line in text.split("\n")]
    assert ["A.T", "7", "x", "5,", "10", "entries,"] in [line[:6] for line in words]  # A itself has 5 rows
    assert any(line[:4] == ["computes", "C[i,j]", "+=", "A.T[i,k]"] for line in words)


def test_the_default_kernel_of_a_transpose_runs_over_the_stored_rows() -> None:
    text = str(Explanation(report(UNTUNED, problem=problem(transposed=True))))
    assert "C[i, :] += A[k, i] * B[k, :]" in text
    assert "A[i, k]" not in text
