"""SciPy's test_svds.py with our solvers."""

from __future__ import annotations

from tests.conformance.linalg.shipped import over_ours

globals().update(over_ours("scipy.sparse.linalg._eigen.tests.test_svds"))
