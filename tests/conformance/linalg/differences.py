"""Patterns, with reasons, of SciPy's tests that fail with our solvers or whose calls SciPy computes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent

COUNTS: Final = "AUTOSPARSE_TEST_COUNTS"
"""Environment variable with the file to which the counts of calls are written."""

OTHER_SOLVERS: Final = frozenset({"bicg", "gcrotmk", "lgmres", "tfqmr"})
"""Solvers that `autosparse.linalg` leaves to SciPy."""

DIFFERENT: Final[Mapping[str, str]] = {
    r"for_k_greater.*dense": "SciPy computes so many eigenvalues of a dense A by LAPACK, and refuses a sparse A",
    "test_positional_deprecation": "SciPy before 1.15 warns of positional arguments; later ones and ours refuse them",
}
"""Regular expression for a test's identifier -> why it fails with our solvers. If it passes again, the run fails."""

COMPUTED_BY_SCIPY: Final[Mapping[str, str]] = {
    "TestGMRES::test_restrt_dep": "gmres with `restrt`, which SciPy before 1.14 has",
    r"test_minres.py.*(sample_problem_complex|non_default_x0\[(sparse|dense)-True)": "minres of complex systems",
    r"test_iterative.py::test_precond_dummy\[rand-\w+-F-minres-\w+-batch": "minres of float32 and functions",
    r"test_ls[mq]r.py::test_nD": "SciPy refuses operators of three axes, which its versions from 1.18 can make",
    "test_lsmr_maxiter_zero_with_show": "lsmr that prints its iterations (a test of SciPy 1.18)",
    "testComplexX0": "lsmr with a complex x0 where A and b are real",
    "test_expm_multiply_dtype|test_sparse_expm_multiply_interval_dtypes": "expm_multiply in long double",
    "test_lobpcg.py::test_dtypes|test_diagonal_data_types": "lobpcg with an integer X or long double",
    r"test_lobpcg.py::test_(MikotaPair|diagonal\[|fiedler_small_8|inplace|nonhermitian|hermitian|verbosity)": (
        "lobpcg of fewer than five rows for each column, solved by LAPACK; and of verbose calls"
    ),
    "test_lobpcg.py::test_eigsh_consistency": "lobpcg of few rows",
    r"test_arpack.py::(test_eigen_bad_shapes|test_eigs.*_for_k_greater)": "SciPy refuses A or k",
    r"test_arpack.py::(test_parallel_threads|test_symmetric_starting_vector)": "eigsh copies A for so many eigenvalues",
}
"""Regular expression for a test's identifier -> why SciPy computes some of its calls."""

SLOW: Final = (
    r"[\[-]dense[\]-]|test_arpack|test_svds|poisson2d|test_dtypes|test_lobpcg.*test_tolerance|interval"
    r"|test_diagonal_data_types"
)
"""Regular expression for the identifiers of tests that run in `make test-full` only."""

COVERED: Final[Mapping[str, int]] = {
    "test_expm_multiply_dtype": 1,
    "test_b_orthonormalize|TestSpsolveTriangular::test_random": 2,
}
"""Regular expression for tests with many parameters -> 1 if `make test` covers each value, 2 if it covers each pair."""


def reason_for(identifier: str, table: Mapping[str, str]) -> str | None:
    """Return the reason of the first row of `table` whose pattern is found in the identifier of a test, or None."""
    return next((reason for pattern, reason in table.items() if re.search(pattern, identifier)), None)


def is_slow(identifier: str) -> bool:
    """Return whether a test runs in `make test-full` only."""
    return re.search(SLOW, identifier) is not None
