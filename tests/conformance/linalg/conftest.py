"""Fixtures that run each test of SciPy's solvers twice: with sparse matrices of ours, and with dense ones too."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autosparse.linalg import block_eigenvalues
from tests import covering
from tests.conformance.linalg import differences
from tests.conformance.linalg.shipped import CALLS, SOLVERS, Switch


@pytest.fixture(params=["sparse", "dense"], autouse=True)
def matrices_made_ours(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the switch, and fail a test whose calls ran SciPy's solvers for no listed reason.

    lobpcg computes small blocks itself, as it does large ones.
    """
    monkeypatch.setattr(block_eigenvalues, "MIN_ELEMENTS", 0)
    Switch.dense = request.param == "dense"
    before = CALLS.copy()
    yield
    Switch.dense = False
    theirs = sorted(name for (name, ran), n in (CALLS - before).items() if ran == "SciPy" and n)
    reason = differences.reason_for(request.node.nodeid, differences.COMPUTED_BY_SCIPY)
    assert not theirs or reason, f"SciPy computed calls of {theirs}"


@pytest.fixture
def xp() -> Any:
    """Return NumPy in the form that SciPy's tests of several array libraries take (SciPy 1.18 and later)."""
    return pytest.importorskip("scipy._lib._array_api").np_compat


@pytest.fixture
def num_parallel_threads() -> int:
    """Return 1: the number that pytest-run-parallel gives SciPy's tests where it does not run them in threads."""
    return 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out parameters of SciPy's other solvers; mark what is slow, and what is known to differ."""
    others = [item for item in items if _is_of_another_solver(item)]
    items[:] = [item for item in items if not _is_of_another_solver(item)]
    config.hook.pytest_deselected(items=others)
    unneeded = _unneeded(items)
    for item in items:
        if not _is_here(item):
            continue
        if differences.is_slow(item.nodeid) or item in unneeded:
            item.add_marker(pytest.mark.full)
        if reason := differences.reason_for(item.nodeid, differences.DIFFERENT):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _unneeded(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the tests of `differences.COVERED` whose parameters occur together in others of the same function."""
    functions: dict[tuple[str, int], dict[covering.Combination, Any]] = {}
    for item in items:
        together = [n for pattern, n in differences.COVERED.items() if re.search(pattern, item.nodeid)]
        if _is_here(item) and together and not differences.is_slow(item.nodeid):
            row: Any = item
            rows = functions.setdefault((row.originalname, together[0]), {})
            rows[tuple(map(repr, row.callspec.params.values()))] = item
    return {rows[one] for (_, n), rows in functions.items() for one in rows.keys() - set(covering.cover(rows, n))}


def _is_here(item: pytest.Item) -> bool:
    return item.path.parent == differences.FOLDER


def _is_of_another_solver(item: Any) -> bool:
    """Return whether a parameter of the test is a solver of SciPy's that has no counterpart of ours."""
    if not _is_here(item) or not hasattr(item, "callspec"):
        return False
    values = list(item.callspec.params.values())
    solvers = [getattr(value, "solver", value) for value in values]
    names = {one.__name__ for one in solvers if callable(one) and getattr(one, "__module__", "").startswith("scipy")}
    return bool(names - set(SOLVERS)) and bool(names & differences.OTHER_SOLVERS)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the counts of this process where `test_counts.py` asks for them."""
    if file := os.environ.get(differences.COUNTS):
        rows = [[name, ran, n] for (name, ran), n in sorted(CALLS.items())]
        Path(file).write_text(json.dumps(rows), encoding="utf-8")
