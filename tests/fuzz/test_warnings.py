"""Fuzz tests with every warning an error: products that SciPy computes succeed, whatever fails besides the product."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from autosparse import cache
from autosparse.notices import forget_warnings
from tests.tuning.compilers import executable

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")

DTYPES = ("float32", "float64", "complex64", "complex128", "int8", "int32", "int64", "uint16", "bool", "float16")
VALUES: tuple[Callable[[np.random.Generator, int], Any], ...] = (
    lambda rng, n: rng.standard_normal(n),
    lambda rng, n: rng.integers(0, 100, n),
    lambda rng, n: rng.choice([0.0, 1.0, -1.0, 3e38, 1e308, 1e-310], n),
    lambda rng, n: rng.choice([np.nan, np.inf, -np.inf, 1.0], n),
)
OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "A @ x": lambda A, x, X: A @ x,
    "A @ X": lambda A, x, X: A @ X,
    "A @ list": lambda A, x, X: A @ x.tolist(),
    "A.T @ x": lambda A, x, X: A.T @ x,
    "X.T @ A": lambda A, x, X: X.T @ A,
    "x @ A": lambda A, x, X: x @ A,
    "A @ A": lambda A, x, X: A @ A,
    "A.T @ A": lambda A, x, X: A.T @ A,
    "A + A": lambda A, x, X: A + A,
    "A * 2": lambda A, x, X: A * 2,
    "A.multiply": lambda A, x, X: A.multiply(A),
    "A.sum": lambda A, x, X: A.sum(axis=0),
    "A slices": lambda A, x, X: A[2:5, ::2],
    "A @ strided": lambda A, x, X: A @ np.repeat(X, 2, axis=1)[:, ::2],
    "A @ Fortran": lambda A, x, X: A @ np.asfortranarray(X),
    "A.astype": lambda A, x, X: A.astype(np.complex128) @ x,
}
UNASKED = {"overhead": 1.0, "runs": 10**9, "budget_s": 1e6}


@pytest.fixture
def troubles(tmp_path: Path) -> list[dict[str, Any]]:
    """Return options under which something besides the product fails."""
    failing = executable(tmp_path / "cc", "#!/bin/sh\nexit 1\n")
    no_folder = tmp_path / "file"
    no_folder.write_text("no folder")
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    return [
        {},
        {"cache_dir": no_folder, **UNASKED},
        {"cache_dir": open_to_all, "compiler": "no-such-compiler", **UNASKED},
        {"cache_dir": tmp_path / "new", "compiler": "no-such-compiler", **UNASKED},
        {"cache_dir": tmp_path / "new", "compiler": failing, **UNASKED},
        {"extra_memory": 0.0, "compiler": "no-such-compiler", **UNASKED},
        {"models": no_folder, "compiler": "no-such-compiler", **UNASKED},
        {"deterministic": True},
        {"effort": "off", "threads": 1},
    ]


def _cast(values: Any, dtype: str) -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(values).astype(dtype)


def cases(n_cases: int, seed: int) -> Iterator[tuple[str, Any, Any, Any, int]]:
    """Yield (operation, A of SciPy, x, X, index of the options)."""
    rng = np.random.default_rng(seed)
    for number in range(n_cases):
        n, dtype, other = int(rng.integers(1, 14)), rng.choice(DTYPES), rng.choice(DTYPES)
        plain = sps.random_array((n, n), density=0.4, random_state=rng, format=str(rng.choice(("csr", "csc"))))
        values = VALUES[rng.integers(len(VALUES))]
        if dtype == "float16":
            dtype = "float32"  # SciPy has no float16
        data = _cast(values(rng, plain.nnz), dtype)
        A = type(plain)((data, plain.indices, plain.indptr), shape=plain.shape)
        x, X = _cast(values(rng, n), other), _cast(values(rng, n * 3).reshape(n, 3), other)
        yield list(OPERATIONS)[number % len(OPERATIONS)], A, x, X, int(rng.integers(9))


def outcome(operation: str, A: Any, x: Any, X: Any) -> Any:
    """Return the dense result, or the class of the exception raised."""
    try:
        with np.errstate(all="warn"):
            found = OPERATIONS[operation](A, x, X)
    except Exception as err:  # noqa: BLE001  # whatever SciPy raises is allowed
        return type(err)
    return found.toarray() if hasattr(found, "toarray") else np.asarray(found)


def agree(ours: Any, theirs: Any) -> bool:
    """Return whether our result is right.

    Where a warning made SciPy raise, ours may be a result.
    """
    if isinstance(theirs, type):
        return issubclass(theirs, Warning) or (isinstance(ours, type) and issubclass(ours, theirs.__mro__[-3:]))
    if isinstance(ours, type) or ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if theirs.size and not np.abs(theirs).max() < 1e15:
            return True  # the sum of such numbers depends on their order
        finite = np.isfinite(theirs)
        return bool(np.allclose(ours[finite], theirs[finite], rtol=1e-3, atol=1e-3, equal_nan=True))


@pytest.mark.parametrize("n_cases", [160, pytest.param(10_000, marks=pytest.mark.full)])
def test_products_with_warnings_as_errors(n_cases: int, troubles: list[dict[str, Any]]) -> None:
    wrong = []
    for operation, plain, x, X, trouble in cases(n_cases, seed=n_cases):
        forget_warnings()
        with asp.options(**troubles[trouble]), warnings.catch_warnings():
            warnings.simplefilter("error")
            theirs, A = outcome(operation, plain, x, X), asp.csr(plain) if plain.format == "csr" else asp.csc(plain)
            for _ in range(2):
                ours = outcome(operation, A, x, X)
                if not agree(ours, theirs):
                    wrong.append((operation, plain.dtype, x.dtype, troubles[trouble], ours, theirs))
    cache.close_stores()
    assert not wrong, (len(wrong), wrong[0])


@pytest.mark.parametrize("n_cases", [12, pytest.param(600, marks=pytest.mark.full)])
def test_tuning_with_warnings_as_errors(n_cases: int, troubles: list[dict[str, Any]]) -> None:
    """`tune` must neither raise nor spoil the products that follow."""
    rng = np.random.default_rng(n_cases)
    for number in range(n_cases):
        forget_warnings()
        n, dtype = int(rng.integers(1, 60)), str(rng.choice(("float32", "float64")))
        plain = sps.random_array((n, n), density=0.2, random_state=rng, format="csr", dtype=dtype)
        plain.data[:] = _cast(VALUES[number % len(VALUES)](rng, plain.nnz), dtype)
        A, columns = asp.csr(plain, copy=True), int(rng.choice((1, 4)))
        with asp.options(**troubles[number % len(troubles)]), warnings.catch_warnings(), np.errstate(all="warn"):
            warnings.simplefilter("error")
            A.tune(
                columns=columns,
                effort=str(rng.choice(("estimate", "measure"))),
                budget_s=0.05,
                transposed=number % 3 == 0,
            )
            X = np.ones((n, columns), dtype)
            ours = A @ X
        assert agree(ours, np.asarray(plain @ X))
    cache.close_stores()
