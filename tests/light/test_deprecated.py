"""Tests with a SciPy that deprecates sparse matrices: no warning from arrays, one at the user's line from matrices.

Versions after 1.18 warn in the constructor of `spmatrix`, at the first line outside SciPy. A process simulates it.
"""

from __future__ import annotations

import pytest

from tests.processes import run_with

LATER_SCIPY = """
import sys, warnings
import numpy as np, scipy.sparse as sps

def __init__(self, *args, **how):
    level = 1
    while "scipy/sparse" in sys._getframe(level).f_code.co_filename:
        level += 1
    warnings.warn(f"{type(self).__name__} is being replaced", DeprecationWarning, stacklevel=level + 1)
    super(sps.spmatrix, self).__init__(*args, **how)

if not "__init__" in vars(sps.spmatrix):
    sps.spmatrix.__init__ = __init__
import autosparse as asp
from autosparse import light
if sys.argv[1] == "complete":
    light.complete()

def lines(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert all(one.category is DeprecationWarning for one in found), found
    return [one.filename for one in found]

D, P, Q = np.eye(4), sps.csr_array(np.eye(4)), sps.csc_array(np.eye(4))
MAKE = (
    lambda kind: kind(D), lambda kind: kind(P), lambda kind: kind(Q), lambda kind: kind((3, 3)),
    lambda kind: kind([[1, 2]]), lambda kind: kind((P.data, P.indices, P.indptr), (4, 4)),
    lambda kind: kind((D[0], (P.indices, P.indices)), dtype="f4"),
)
USE = (
    lambda A: A @ D[0], lambda A: A.T @ D, lambda A: A @ A, lambda A: A + A, lambda A: A * 2, lambda A: A[1:],
    lambda A: A[0], lambda A: A.tocoo(), lambda A: A.tocsr(), lambda A: A.tocsc(), lambda A: A.copy(),
    lambda A: A.sum(0), lambda A: str(A), lambda A: A.multiply(A), lambda A: A != A, lambda A: A.astype("f4"),
    lambda A: A.max(0), lambda A: A.tolil(),
)
"""
ARRAYS = """
for kind in (asp.csr_array, asp.csc_array):
    assert not [line for make in MAKE for line in lines(lambda: make(kind))]
    A = kind(D)
    assert not [line for use in (*USE, lambda A: A.base) for line in lines(lambda: use(A))]
"""
MATRICES = """
for kind in (asp.csr_matrix, asp.csc_matrix):
    for make in (*MAKE, lambda kind: kind(D, copy=True)):
        assert set(lines(lambda: make(kind))) == {"<string>"}  # SciPy warns of matrices that its methods make, too
    assert lines(lambda: kind(P)) == lines(lambda: kind((3, 3))) == ["<string>"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        A = kind(D)
    for use in USE:
        assert set(lines(lambda: use(A))) <= {"<string>"}
    assert lines(lambda: A.tocoo()) == ["<string>"]
    assert lines(lambda: (A @ D, A.T @ D[0])) == []
    assert lines(lambda: A.base) == []  # light matrices become complete
"""


@pytest.mark.parametrize("how", ["light", "complete"])
@pytest.mark.parametrize("code", [ARRAYS, MATRICES], ids=["arrays", "matrices"])
def test_warnings_of_a_scipy_that_deprecates_matrices_name_the_users_line(code: str, how: str) -> None:
    done = run_with("scipy.sparse", LATER_SCIPY + code, how)
    assert not done.returncode, done.stderr
