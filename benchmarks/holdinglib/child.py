"""Child process of holding.py: time one way of holding a matrix with SciPy, the default kernel and tuned; print JSON.

python -m holdinglib.child WAY MATRIX COLUMNS DTYPE WINDOWS PRODUCTS
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
from typing import Any, Final

import numpy as np
import scipy.sparse

from holdinglib.ways import WAYS, Held, Library, Way

N_WARM: Final = 20
"""Number of untimed products of each variant; a matrix that is made anew each time needs some for lazy tuning."""


def grid(n: int) -> Any:
    """Make the five-point stencil of an n x n grid."""
    line = scipy.sparse.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1])
    whole = scipy.sparse.eye_array(n)
    made = scipy.sparse.csr_array(scipy.sparse.kron(line, whole) + scipy.sparse.kron(whole, line))
    made.sum_duplicates()
    return made


def scattered(n: int) -> Any:
    """Make a matrix with nine entries per row at random columns."""
    return scipy.sparse.random_array((n, n), density=9 / n, format="csr", random_state=np.random.default_rng(0))


MATRICES: Final = {
    "grid": lambda: grid(240),
    "random": lambda: scattered(30_000),
    "small grid": lambda: grid(40),
}
"""Function that makes each matrix, by name; "small grid" is for --quick."""


def prepared(way: Way, m: Any, x: np.ndarray, *, tuned: bool | None) -> Held:
    """Prepare the way on a copy of `m`, with SciPy (`tuned` is None) or autosparse.

    A matrix is tuned if `tuned` is true, unless the way makes a new one for each product.
    """
    held = way.make(Library(tuned is not None, x), m.copy())
    if tuned and held.A is not None and not way.anew:
        held.A.tune("matmul", columns=1 if x.ndim == 1 else x.shape[1], effort="measure", runs=10**6)
    return held


def looks_ns(A: Any) -> int:
    """Return the total time of all checks of A's arrays for modifications, in nanoseconds."""
    return int(A._cell.total_look_ns)


def measure(way: Way, m: Any, x: np.ndarray, n_windows: int, n_products: int) -> dict[str, Any]:
    """Return medians of interleaved windows, in microseconds per product, and the time of checks per product."""
    import autosparse

    variants = {name: prepared(way, m, x, tuned=tuned) for name, tuned in (("scipy", None), ("default", False))}
    variants["tuned"] = prepared(way, m, x, tuned=True)
    windows: dict[str, list[float]] = {name: [] for name in variants}
    look_ns = n_looked = 0
    results = {}
    for turn in range(-1, n_windows):
        for name, held in variants.items():
            n = n_products if turn >= 0 else N_WARM
            off = name == "default" and way.anew
            before = looks_ns(held.A) if name == "tuned" and held.A is not None else 0
            with autosparse.options(effort="off") if off else contextlib.nullcontext():
                start_s = time.perf_counter()
                for _ in range(n):
                    results[name] = held.step()
                took_us = (time.perf_counter() - start_s) / n * 1e6
            if turn >= 0:
                windows[name].append(took_us)
                if name == "tuned" and held.A is not None:
                    look_ns, n_looked = look_ns + looks_ns(held.A) - before, n_looked + n
    for name in ("default", "tuned"):
        np.testing.assert_allclose(results[name], results["scipy"], rtol=2e-3 if m.dtype == np.float32 else 1e-9)
    median_us = {name: statistics.median(found) for name, found in windows.items()}
    return {"median_us": median_us, "look_us": look_ns / n_looked / 1e3 if n_looked else None}


def main() -> None:
    """Measure and print."""
    name, matrix, columns, dtype, n_windows, n_products = sys.argv[1:]
    way, m = WAYS[name], MATRICES[matrix]().astype(dtype)
    rng = np.random.default_rng(1)
    m.data = rng.random(m.nnz).astype(dtype)
    shape = (m.shape[1],) if int(columns) == 1 else (m.shape[1], int(columns))
    found = measure(way, m, rng.random(shape).astype(dtype), int(n_windows), int(n_products))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
