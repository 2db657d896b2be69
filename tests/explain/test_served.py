"""Tests that an explanation names the kernel that serves where checking the arrays costs time, and that cost."""

from __future__ import annotations

import dataclasses

import pytest
from autosparse._native import runtime_api

import autosparse as asp
from autosparse.tuning.report import ServingCosts
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


def test_serving_facts_are_plain_values() -> None:
    served = ServingCosts(
        is_packed=False, has_in_place=True, gain_s=None, look_s=0.0, look_rate=1.0, repack_s=0.0, repack_rate=0.0
    )
    assert dataclasses.replace(served, is_packed=True) != served
    assert ServingCosts.of(None) is None
