"""Markers and warning filters that SciPy's test files expect in the configuration of pytest."""

from __future__ import annotations

import re
from typing import Final

import pytest

HEAVY: Final = (
    r"::Test(CSR|CSC)Matrix(NonCanonical::|::test_(slicing_3|add_sub|setdiag_comprehensive|sum|le|lt|ge|gt)\b)"
    r"|::TestCSCNonCanonical::test_(slicing_3|add_sub|mu)\b|::TestCSC::test_slicing_3\b"
    r"|::Test(BSR|DOK|LIL)|::TestCOO(Matrix|NonCanonical)|::TestDIA::|_int32_overflow"
)
"""Regular expression for tests that run in `make test-full` only.

They are the non-canonical matrices, the longest tests of methods that matrices share with arrays, and four long tests
of CSC that run with CSR. Of the formats other than CSR and CSC, arrays of COO and matrices of DIA run in `make test`.
"""


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "slow",
        "xslow",
        "thread_unsafe",
        "parallel_threads(n)",
        "parallel_threads_limit(n)",
        "iterations(n)",
        "fail_slow(n)",
        "xfail_on_32bit(reason)",
        "skip_xp_backends(backends)",
        "xfail_xp_backends(backends)",
        "uses_xp_capabilities(status)",
    ):
        config.addinivalue_line("markers", f"{marker}: used by SciPy's tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `HEAVY`, which run in `make test-full` only."""
    for item in items:
        if "conformance" in item.nodeid and re.search(HEAVY, item.nodeid):
            item.add_marker(pytest.mark.full)
