"""Tests of the operation `einsum`: it is registered like the others, and explained with the loops that run."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse.tuner.space.families import schedule

import autosparse as asp
from autosparse import _native
from autosparse.contraction import remembered
from autosparse.contraction.routes import paid
from autosparse.errors import EinsumError, OptionError
from autosparse.explain import explain_einsum
from autosparse.ops import EINSUM, OPS


def square(n: int = 30) -> sps.csr_array:
    return sps.random_array((n, n), density=0.2, format="csr", random_state=np.random.default_rng(1))


def test_einsum_is_a_registered_operation_with_numpy_as_reference() -> None:
    A, x = square(), np.arange(30.0)
    assert OPS["einsum"] is EINSUM
    np.testing.assert_allclose(EINSUM.reference("ij,j->i", A, x), asp.einsum("ij,j->i", A, x))


def test_super_schedules_and_tune_refuse_einsum_with_a_reason() -> None:
    made = dataclasses.replace(schedule("matmul", "csr", {}), operation=EINSUM.name)
    assert "no index expression of its own" in str(_native.supports(EINSUM.name, made))
    with pytest.raises(OptionError, match="one of matmul"):
        asp.csr(square()).tune(EINSUM.name)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_einsum_is_explained_before_and_after_timing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(remembered, "RACE_S", 0.0)
    monkeypatch.setattr(paid, "is_sure", lambda: True)
    A = square()
    remembered._choices.clear()
    with asp.options(cache_dir=tmp_path):
        before = str(explain_einsum("ij,ik,kj->ij", A, A, A))
        with asp.options(runs=100):
            asp.einsum("ij,ik,kj->ij", A, A, A)
            asp.einsum("ij,ik,kj->ij", A, A, A)
        after = explain_einsum("ij,ik,kj->ij", A, A, A)
        (kept,) = (one for one in remembered._choices.values() if one.plan.candidates)
        remembered._choices.clear()
        later = str(explain_einsum("ij,ik,kj->ij", A, A, A))
    assert "its estimated cost is the least" in before
    assert f"fastest of {len(kept.plan.candidates)} that were timed" in str(after)
    assert "remembered on disk" in later
    assert "fastest of" in later, "the measurements survive the process"
    for shown in (before, str(after), later):
        assert "T0[i,j] sparse, " in shown
        assert "for (" in shown or "while (" in shown
    (row,) = (line for line in str(after).splitlines() if line.endswith("  runs"))
    assert kept.program.plan.text in row
    assert "The loops of the chosen program" in after.html(tmp_path / "page.html").read_text()


def test_expressions_without_a_generated_kernel_name_their_route() -> None:
    A, x = square(), np.ones(30)
    assert "The library's product" in str(explain_einsum("ij,j->i", A, x))
    assert "no operand is sparse" in str(explain_einsum("i->", x))
    assert "sums of rows" in str(explain_einsum("ij->i", A))
    assert "joins of two operands" in str(explain_einsum("ijk->k", asp.tensor([[0], [1], [0]], [1.0])))
    assert "products and sums" in str(explain_einsum("ab,bc,cd,de,ef->af", *[A] * 5))
    assert "along a path" in str(explain_einsum("ab,bc,cd,de,ef->abf", *[A] * 5))
    with pytest.raises(EinsumError, match=r"collapsing index|broadcast"):
        explain_einsum("ij,j->i", A, np.ones(7))
