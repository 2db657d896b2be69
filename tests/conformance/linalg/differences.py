"""Where a test of SciPy's files fails with our solvers, or where SciPy computes its calls: patterns with reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent

OTHER_SOLVERS: Final = frozenset({"bicg", "gcrotmk", "lgmres", "tfqmr"})
"""Solvers that `autosparse.linalg` leaves to SciPy."""

DIFFERENT: Final[Mapping[str, str]] = {}
"""Part of a test's identifier -> why it fails with our solvers. A test that passes again fails the run."""

COMPUTED_BY_SCIPY: Final[Mapping[str, str]] = {}
"""Part of a test's identifier -> why SciPy computes some of its calls."""

SLOW: Final = r"[\[-]dense\]|test_arpack|test_svds|test_precond_inverse\[poisson2d"
"""Tests that run in `make test-full` only."""


def reason_for(identifier: str, table: Mapping[str, str]) -> str | None:
    """Return the reason of the first row of `table` whose pattern is found in the identifier of a test, or None."""
    return next((reason for pattern, reason in table.items() if re.search(pattern, identifier)), None)


def is_slow(identifier: str) -> bool:
    """Return whether a test runs in `make test-full` only."""
    return re.search(SLOW, identifier) is not None
