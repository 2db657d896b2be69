"""Tests of the repr of plans, candidates and explanations: one short line."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.core.plan import Candidate, Plan
from autosparse.core.solver import DEFAULT, choice_of
from autosparse.explain import Explanation
from tests.explain.samples import BLOCKS, CANDIDATES, TUNED, UNTUNED, report

MANY = dataclasses.replace(TUNED, candidates=CANDIDATES * 40)
LONG = dataclasses.replace(UNTUNED, why="one reason\nand another " * 60)


@pytest.mark.parametrize(
    "shown", [TUNED, UNTUNED, MANY, LONG, *CANDIDATES, Explanation(report(MANY)), Explanation(report(LONG))], ids=str
)
def test_one_line(shown: object) -> None:
    text = repr(shown)
    assert "\n" not in text
    assert len(text) <= 400


def test_the_line_says_what_runs_and_why() -> None:
    text = repr(TUNED)
    for words in (str(BLOCKS.format), TUNED.why, "1 ms", "default 2 ms", "measure"):
        assert words in text
    assert "default kernel" in repr(UNTUNED)
    assert UNTUNED.why in repr(UNTUNED)
    assert "SciPy" in repr(Plan(choice=DEFAULT, why="int8", served_by="SciPy"))
    assert "0.60 x default" in repr(Candidate(choice=choice_of(BLOCKS), predicted_ratio=0.6))


def test_repr_of_plans_of_a_matrix_is_one_line() -> None:
    A = asp.csr(sps.random_array((300, 200), density=0.05, format="csr", random_state=np.random.default_rng(1)))
    for shown in (A.tune(columns=4, budget_s=1), A.explain(4)):
        assert "\n" not in repr(shown)
        assert len(repr(shown)) <= 400
