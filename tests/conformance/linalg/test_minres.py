"""SciPy's test_minres.py with our solvers."""

from __future__ import annotations

from tests.conformance.linalg.shipped import over_ours

globals().update(over_ours("scipy.sparse.linalg._isolve.tests.test_minres"))
