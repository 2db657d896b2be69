"""Tests of explanations of matrices that are not tuned, and of kernels that could not be compiled."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


def test_a_matrix_that_is_not_tuned_yet_is_not_called_switched_off() -> None:
    A = autosparse.csr(sps.eye_array(50, format="csr"))
    assert "effort          none so far" in str(A.explain())
    with autosparse.options(effort="off"):
        A.tune("matmul", effort="off")
        assert "effort          off" in str(A.explain())


def test_a_plan_of_the_default_kernel_waits_for_no_comparison_with_it() -> None:
    A = autosparse.csr(sps.eye_array(50, format="csr").astype(np.complex64))
    assert A.tune("matmul", columns=8, effort="estimate").is_default, "models were not trained on complex values"
    assert "tuning is done" in str(A.explain(8))


def test_reasons_name_failed_compilations(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'error: no such luck' >&2\nexit 1\n")
    compiler.chmod(0o755)
    with autosparse.options(compiler=str(compiler)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        A = autosparse.csr(
            sps.random_array((400, 400), density=0.1, random_state=np.random.default_rng(0), format="csr")
        )
        A.tune("matmul", columns=8, effort="measure", budget_s=600)
        shown = str(A.explain(8))
    assert "no such luck" in next(line for line in shown.splitlines() if line.strip().startswith(("why", "failed")))
