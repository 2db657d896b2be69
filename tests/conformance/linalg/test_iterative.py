"""SciPy's test_iterative.py with our solvers."""

from __future__ import annotations

from tests.conformance.linalg.shipped import over_ours

globals().update(over_ours("scipy.sparse.linalg._isolve.tests.test_iterative"))
