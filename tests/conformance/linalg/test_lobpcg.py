"""SciPy's test_lobpcg.py with our solvers."""

from __future__ import annotations

from tests.conformance.linalg.shipped import over_ours

globals().update(over_ours("scipy.sparse.linalg._eigen.lobpcg.tests.test_lobpcg"))
