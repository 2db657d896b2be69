"""Tests of `tune` and `explain` for products without a choice of kernels, and for kernels that cannot be built."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from autosparse.notices import FallbackWarning
from tests.tuning.forcing import ENOUGH_S, make

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")


def strided(array: np.ndarray) -> np.ndarray:
    """Return a copy of the array with a stride of two elements."""
    twice = np.repeat(array, 2)
    return twice[::2]


def of(dtype: str) -> sps.csr_array:
    return make(30, 40).astype(dtype)


def with_values(change: Callable[[np.ndarray], np.ndarray]) -> asp.csr_array:
    A = asp.csr(of("float64"), copy=True)
    A.data = change(A.data)
    return A


CASES = {
    "int64": (lambda: asp.csr(of("int64")), "matmul", ["default kernel of dtype pairs", "int64"]),
    "big-endian": (lambda: with_values(lambda data: data.astype(">f8")), "matmul", ["SciPy computes", "byte order"]),
    "strided": (lambda: with_values(strided), "matmul", ["SciPy computes", "contiguous"]),
    "one dimension": (lambda: asp.csr_array(np.ones(4)), "matmul", ["SciPy computes", "kernels take matrices"]),
    "complex sddmm": (lambda: asp.csr(of("complex64")), "sddmm", ["default kernel", "complex64"]),
    "integer sddmm": (lambda: asp.csr(of("int32")), "sddmm", ["NumPy computes", "int32"]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_reason_names_what_is_in_the_way(name: str) -> None:
    build, operation, words = CASES[name]
    A = build()
    plan = A.tune(operation, columns=3)
    text = str(A.explain(3, operation=operation))
    for word in words:
        assert word in plan.why, plan.why
        assert word in text
    assert ("own code" in text) == ("computes" in words[0])
    assert "dtype or layout" not in text


def test_reasons_of_tensors() -> None:
    coords = np.array([[0, 1], [1, 0], [0, 1]])
    whole = asp.tensor(coords, np.array([1, 2]), (2, 2, 2))
    assert "int64" in whole.tune(columns=2).why
    gaps = asp.tensor(coords, strided(np.ones(2)), (2, 2, 2), copy=False)  # a copy would be contiguous
    assert "contiguous" in gaps.tune(columns=2).why
    assert "contiguous" in str(gaps.explain(2))


def test_without_a_compiler_the_plan_says_so(tmp_path: Path) -> None:
    A = asp.csr(make(300, 300), copy=True)
    # The baseline has no kernels that were compiled at installation, which might win.
    options = asp.options(compiler="no-such-compiler", cache_dir=tmp_path, isa="baseline")
    with options, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = A.tune(columns=5, budget_s=ENOUGH_S)
        text = str(A.explain(5))
    assert [one.category for one in caught] == [FallbackWarning]
    message = str(caught[0].message)
    assert "no C compiler was found (looked for 'no-such-compiler')" in message
    assert "Hint:" in message
    assert plan.is_default
    assert "no C compiler was found" in plan.why
    why, failed = ([line for line in text.split("\n") if line.startswith(f"  {name} ")] for name in ("why", "failed"))
    assert "no C compiler was found" in why[0]
    assert len(failed) == 1
    assert "worth measuring" not in text


def test_a_compiler_is_looked_for_under_each_name_once() -> None:
    program = textwrap.dedent("""
        import importlib.util, os
        real = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name in ("numba", "ziglang") else real(name, *rest)
        os.environ["PATH"] = "/nonexistent"
        from autosparse._native.c.build import Compiler
        from autosparse.errors import BuildError
        try:
            Compiler.find()
        except BuildError as err:
            print(err)
    """)
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    names = said[said.index("(looked for ") :].split(")")[0].split("'")[1::2]
    assert len(names) == len(set(names)) >= 3
