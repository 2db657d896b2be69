"""Tests that explanations of all planners list candidates in one table; `tests/triton/choosing.py` has that of GPUs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

import autosparse as asp
from autosparse.core.composite import REST, Composite, Part, Rows
from autosparse.core.plan import Candidate
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import Choice, Cost, choice_of
from autosparse.explain import Explanation, explain_einsum
from autosparse.explain.sparse_products import explain_sparse_product
from tests.explain.samples import CANDIDATES, TUNED, report
from tests.tuning.forcing import make

HEAD: Final = re.compile(r"^Candidates\n +measured +predicted +build +pack +memory$", re.MULTILINE)
"""Title and header of the table."""
PLAIN: Final = SuperSchedule()
PARTS: Final = choice_of(Composite(parts=(Part(Rows(2), PLAIN), Part(REST, dataclasses.replace(PLAIN, unroll=4)))))


def by_parts() -> Any:
    """Return the explanation of a plan by a composite, which competed with a solver that does not apply."""
    others = (Candidate(choice=PARTS, measured_s=1e-3), Candidate(choice=Choice("mkl"), failed="it is not installed"))
    return Explanation(report(dataclasses.replace(TUNED, choice=PARTS, candidates=(*CANDIDATES, *others))))


def by_einsum(**how: Any) -> Any:
    """Return the explanation of an einsum."""
    A, B, C = (asp.csr(make(30, 30, seed=seed), copy=True) for seed in range(3))
    return explain_einsum("ij,kj,kl->il", A, B, C, **how)


def by_rows() -> Any:
    """Return the explanation of a product of two sparse matrices for which a registered solver competes."""
    A = asp.csr(make(30, 30), copy=True)
    asp.register_solver(Toy())
    try:
        return explain_sparse_product(A, A)
    finally:
        asp.unregister_solver(Toy.name)


class Toy:
    """Solver of sparse products with one choice."""

    name = "toy of rows"
    operations = ("spgemm",)

    def applicable(self, problem: Any) -> str | None:
        return None

    def knobs(self, problem: Any) -> list[int]:
        return [1]

    def cost(self, problem: Any, knobs: Any) -> Cost:
        return Cost()

    def prepare(self, operand: Any, knobs: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("explained", "names"),
    [
        (lambda: Explanation(report()), ["default kernel", "BCSR"]),
        (by_parts, ["rows(2..)", "mkl", "it is not installed"]),
        (by_einsum, ["products and sums", "a generated program"]),
        (lambda: by_einsum(semiring="max_times"), ["T0", "T1", "T2", "runs"]),
        (by_rows, ["by class", Toy.name]),
    ],
)
def test_candidates_are_listed_alike(explained: Callable[[], Any], names: list[str]) -> None:
    text = str(explained())
    found = HEAD.search(text)
    assert found is not None, text
    listed = text[found.end() :].partition("\n\n")[0]
    assert [name for name in names if name not in listed] == [], listed
