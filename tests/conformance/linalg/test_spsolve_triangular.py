"""The tests of `spsolve_triangular` in SciPy's test_linsolve.py with our function."""

from __future__ import annotations

from tests.conformance.linalg.shipped import over_ours

TestSpsolveTriangular = over_ours("scipy.sparse.linalg._dsolve.tests.test_linsolve")["TestSpsolveTriangular"]
