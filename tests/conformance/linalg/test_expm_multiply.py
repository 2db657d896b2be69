"""SciPy's test_expm_multiply.py with our solvers."""

from __future__ import annotations

from tests.conformance.linalg.shipped import over_ours

globals().update(over_ours("scipy.sparse.linalg.tests.test_expm_multiply"))
