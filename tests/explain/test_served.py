"""Tests that an explanation names the kernel that serves where checking the arrays costs time, and that cost."""

from __future__ import annotations

import pytest
from autosparse._native import runtime_api

import autosparse as asp
from tests.tuning.forcing import dense, make
from tests.tuning.test_service import LARGE_GAIN, SMALL_GAIN, install, plan_of

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")


@pytest.mark.parametrize(("gain", "words"), [(SMALL_GAIN, "the default kernel: "), (LARGE_GAIN, "the packed copy: ")])
def test_explain_of_a_sharing_matrix_names_the_kernel_and_the_check_cost(gain: dict[str, float], words: str) -> None:
    m = make()
    with asp.options(extra_memory=50.0):
        A = asp.csr(m, copy=False)
        install(A, plan_of(**gain))
        x = dense(A, 0)
        A @ x
        text = str(A.explain(x))
    line = next(line for line in text.splitlines() if "serves now" in line)
    assert words in line
    assert "checking the arrays" in line
    assert "the packed copy saves" in line
    assert "to avoid the check" in text


def test_an_owning_matrix_has_nothing_to_say() -> None:
    with asp.options(extra_memory=50.0):
        A = asp.csr(make())
        install(A, plan_of(**SMALL_GAIN))
        assert "serves now" not in str(A.explain(dense(A, 0)))


def test_an_explanation_keeps_the_facts_of_its_time() -> None:
    m = make()
    with asp.options(extra_memory=50.0):
        A = asp.csr(m, copy=False)
        install(A, plan_of(**LARGE_GAIN))
        x = dense(A, 0)
        A @ x
        served = A.explain(x).report.served
        known = served.spent_s, served.n_changes
        for _ in range(3):
            A @ x
        assert (served.spent_s, served.n_changes) == known
        assert A.explain(x).report.served.spent_s > served.spent_s
