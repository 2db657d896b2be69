"""Markers and warning filters that SciPy's test files expect in the configuration of pytest."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "slow",
        "xslow",
        "thread_unsafe",
        "parallel_threads(n)",
        "parallel_threads_limit(n)",
        "fail_slow(n)",
    ):
        config.addinivalue_line("markers", f"{marker}: used by SciPy's tests")
