"""Tests that run SciPy's tests of its constructors, of `tril` and `triu`, and of `load_npz` with our functions."""

from __future__ import annotations

from tests.conformance.construct import over_our_functions

for _name in ("construct", "extract", "matrix_io"):
    globals().update(over_our_functions(f"scipy.sparse.tests.test_{_name}"))
