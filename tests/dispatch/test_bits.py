"""Tests of `deterministic=True`: the same bits for any number of threads, and while another thread multiplies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp

WIDTHS = (1, 3, 8, 24, 64, 100)
THREADS = (1, 2, 3, 4, 5)
Call = Callable[[], Any]


def matrix(dtype: str) -> Any:
    """Return a matrix with rows of very different lengths, so that shares of entries begin within rows."""
    rng = np.random.default_rng(4)
    lengths = np.minimum(rng.zipf(1.4, size=900), 400)
    rows = np.repeat(np.arange(900), lengths)
    entries = rng.standard_normal(rows.size), (rows, rng.integers(0, 400, rows.size))
    return sps.csr_array(sps.coo_array(entries, shape=(900, 400)).astype(dtype))


def dense(n: int, width: int, dtype: str, *, late: int = 0) -> Any:
    """Return values determined by the arguments, placed `late` bytes behind the beginning of a cache line."""
    values = np.random.default_rng(n + width).standard_normal((n, width)).astype(dtype)
    memory = np.empty(values.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + late
    placed = memory[start : start + values.nbytes].view(dtype).reshape(n, width)
    placed[:] = values
    return placed


def tensor(dtype: str) -> Any:
    rng = np.random.default_rng(5)
    coords = np.unique(rng.integers(0, (60, 40, 30), (20_000, 3)), axis=0).T
    return asp.tensor(coords, rng.standard_normal(coords.shape[1]).astype(dtype), shape=(60, 40, 30))


def products(m: Any, width: int, dtype: str, late: int) -> dict[str, Call]:
    """Return a call of every operation on matrices, by name."""
    A = asp.csr(m.copy())
    x, X = dense(400, width, dtype, late=late), dense(900, width, dtype, late=late)
    Y = np.asfortranarray(dense(400, width, dtype).T)
    found: dict[str, Call] = {
        "A @ B": lambda: A @ x,
        "A @ B in Fortran order": lambda: A @ np.asfortranarray(x),
        "A.T @ B": lambda: A.T @ X,
        "A.T @ B in Fortran order": lambda: A.T @ np.asfortranarray(X),
        "sddmm": lambda: asp.sddmm(A, X, x.T).data,
        "sddmm of rows": lambda: asp.sddmm(A, X, Y).data,
        "einsum": lambda: asp.einsum("ij,jk->ik", A, x),
    }
    if width == 1:
        found["A @ x"] = lambda: A @ x[:, 0]
        found["x @ A"] = lambda: X[:, 0] @ A
        found["A @ A.T"] = lambda: (A @ A.T).data
    return found


@contextmanager
def concurrent_calls(m: Any) -> Iterator[None]:
    """Multiply in another thread while the block lasts."""
    stop = threading.Event()
    B, X = asp.csr(m.copy()), np.ones((400, 16), m.dtype)

    def multiply() -> None:
        with asp.options(deterministic=True, threads=2):
            while not stop.is_set():
                B @ X

    other = threading.Thread(target=multiply)
    other.start()
    try:
        yield
    finally:
        stop.set()
        other.join()


def bits(result: Any) -> bytes:
    return np.ascontiguousarray(result.data if sps.issparse(result) else result).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("width", WIDTHS)
def test_matrix_operations_give_the_same_bits(width: int, dtype: str) -> None:
    m = matrix(dtype)
    seen: dict[str, set[bytes]] = {}
    for late in (0, 16, 24):
        calls = products(m, width, dtype, late)
        for threads in THREADS:
            with asp.options(deterministic=True, threads=threads):
                for name, call in calls.items():
                    seen.setdefault(name, set()).add(bits(call()))
    with concurrent_calls(m), asp.options(deterministic=True, threads=2):
        for name, call in products(m, width, dtype, 0).items():
            seen[name].update(bits(call()) for _ in range(5))
    assert {name: len(found) for name, found in seen.items() if len(found) > 1} == {}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_tensor_operations_give_the_same_bits(mode: int, dtype: str) -> None:
    T = tensor(dtype)
    seen: dict[int, set[bytes]] = {width: set() for width in WIDTHS}
    for width in WIDTHS:
        factors = [dense(n, width, dtype) for n in T.shape]
        for threads in THREADS:
            with asp.options(deterministic=True, threads=threads):
                seen[width].add(bits(asp.mttkrp(T, factors, mode=mode)))
        with concurrent_calls(matrix(dtype)), asp.options(deterministic=True, threads=2):
            seen[width].update(bits(asp.mttkrp(T, factors, mode=mode)) for _ in range(5))
    assert {width: len(found) for width, found in seen.items() if len(found) > 1} == {}
