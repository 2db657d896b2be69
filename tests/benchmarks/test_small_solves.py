"""Tests of the benchmark of small solves: every form runs, and the report names each miss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg
from solverlib import small

import autosparse as asp


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", small.SOLVERS)
@pytest.mark.parametrize("dtype", small.DTYPES)
def test_every_form_runs_with_both_libraries(solver: str, dtype: str) -> None:
    for form in small.forms(solver, dtype):
        system = small.system_of(solver, dtype, 30)
        solve = small.solve_of(solver, form, system)
        found, wanted = (
            shapes(solve(lib, small.taken(lib, system.m, form))) for lib in (asp.linalg, scipy.sparse.linalg)
        )
        assert found == wanted


def shapes(found: Any) -> list[Any]:
    """Return dtype and shape of each result."""
    parts = found if isinstance(found, tuple) else (found,)
    return [(np.asarray(one).dtype, np.shape(one)) for one in parts]


def test_the_report_names_each_miss() -> None:
    case = {"solver": "cg", "dtype": "float64", "form": "plain", "SciPy_s": 1e-4}
    good = [case | {"n": n, "ratio": 2.0, "interval": (1.5, 2.5), "first_s": 1e-3} for n in small.SMALL]
    assert small.misses(good) == ["no miss"]
    slow = good[0] | {"ratio": 1.0, "interval": (0.9, 1.1)}
    late = good[1] | {"first_s": 0.02}
    assert len(small.misses([*good, slow, late])) == 2
    header, row = small.table(good)
    assert len(header) == len(row) == 4 + len(small.SMALL)
