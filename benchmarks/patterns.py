"""Time untuned products of matrices of eight patterns against SciPy, and print those that are slower.

    python benchmarks/patterns.py
    python benchmarks/patterns.py --threads 1 --entries 10000 --products A@x,x@A
    python benchmarks/patterns.py --quick

Each case has a matrix of its own, held as `asp.csr(m)` or `asp.csc(m)`, and alternates short samples with SciPy: the
first 150 products count. A case is slower if both the ratio of medians and that of minima (SciPy's time over ours) are
below 0.97. Repeated small products favour SciPy's loops: the processor remembers where the rows end.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from peerlib.environment import start_again
from peerlib.table import markdown

SLOWER: Final = 0.97
SAMPLE_S: Final = 1e-4
"""Duration of a sample, of at most `MAX_CALLS` products."""
MAX_CALLS: Final = 10
SMALL: Final = 30_000
"""Number of entries up to which a case has 15 rounds instead of 7."""

Product = Callable[[Any, Mapping[str, Any]], Any]
PRODUCTS: Final[Mapping[str, Product]] = {
    "A@x": lambda m, of: m @ of["x"],
    "x@A": lambda m, of: of["y"] @ m,
    "A.T@y": lambda m, of: m.T @ of["y"],
    "A@X2": lambda m, of: m @ of["X2"],
    "A@X5": lambda m, of: m @ of["X5"],
    "A@X16": lambda m, of: m @ of["X16"],
    "A.T@Y4": lambda m, of: m.T @ of["Y4"],
    "A@XF4": lambda m, of: m @ of["XF4"],
}
"""Products by name; the number is that of columns, F stands for Fortran order."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--entries", default="300,1000,3000,10000,30000,100000,300000", help="stored entries, comma-separated")
    add("--products", default=",".join(PRODUCTS), help="comma-separated")
    add("--dtypes", default="float64,float32", help="comma-separated")
    add("--threads", type=int, default=2)
    add("--quick", action="store_true", help="300 entries of float64 only, to check that the script works")
    parsed = parser.parse_args(given)
    if parsed.quick:
        parsed.entries, parsed.dtypes = "300", "float64"
    return parsed


def matrices(n: int) -> Iterator[tuple[str, Any]]:
    """Yield names and CSR arrays of about `n` entries."""
    rng = np.random.default_rng(0)

    def scattered(rows: int, cols: int) -> Any:
        return sps.random_array((rows, cols), density=min(1.0, n / rows / cols), format="csr", rng=rng)

    few = max(10, n // 5)
    yield "5 a row", scattered(few, few)
    yield "30 a row", scattered(max(10, n // 30), max(10, n // 30))
    yield "mostly empty rows", scattered(2 * n, 2 * n)
    yield "band", sps.diags_array([np.ones(few)] * 5, offsets=range(-2, 3), shape=(few, few)).tocsr()
    yield "diagonal", sps.eye_array(n, format="csr") * 2.0
    rows = max(10, n // 8)
    major = np.repeat(np.arange(rows), np.minimum(rng.pareto(1.2, rows) * 3 + 1, rows).astype(int))
    entries = rng.random(major.size), (major, rng.integers(0, rows, major.size))
    yield "long and short rows", sps.coo_array(entries, shape=(rows, rows)).tocsr()
    yield "wide", scattered(max(2, n // 3000), n)
    yield "four columns", sps.csr_array(rng.random((max(3, n // 4), 4)))


def operands(shape: tuple[int, int], dtype: str) -> dict[str, Any]:
    """Return the dense operands of all products with a matrix of this shape."""
    rng = np.random.default_rng(1)

    def made(*extents: int) -> Any:
        return rng.random(extents).astype(dtype)

    rows, cols = shape
    wide = {f"X{k}": made(cols, k) for k in (2, 5, 16)}
    return {"x": made(cols), "y": made(rows), "Y4": made(rows, 4), "XF4": np.asfortranarray(made(cols, 4)), **wide}


def ratios(theirs: Any, ours: Any, product: Product, of: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return SciPy's time over ours by medians and by minima, and our median in seconds."""
    product(theirs, of), product(ours, of)
    start = time.perf_counter()
    product(theirs, of)
    n_calls = max(1, min(MAX_CALLS, int(SAMPLE_S / (time.perf_counter() - start + 1e-9))))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(15 if theirs.nnz <= SMALL else 7):
        for one, samples in zip((theirs, ours), times, strict=True):
            start = time.perf_counter()
            for _ in range(n_calls):
                product(one, of)
            samples.append((time.perf_counter() - start) / n_calls)
    medians = [statistics.median(samples) for samples in times]
    return medians[0] / medians[1], min(times[0]) / min(times[1]), medians[1]


def main() -> int:
    """Measure and print the slower cases."""
    args = arguments()
    start_again(args.threads)
    import autosparse as asp

    rows, n_cases = [["dtype", "entries", "pattern", "format", "product", "ours, us", "medians", "minima"]], 0
    for dtype in args.dtypes.split(","):
        for n in map(int, args.entries.split(",")):
            for pattern, made in matrices(n):
                m = made.astype(dtype)
                of = operands(m.shape, dtype)
                for theirs, load in ((m, asp.csr), (m.tocsc(), asp.csc)):
                    for name in args.products.split(","):
                        median, least, ours_s = ratios(theirs, load(theirs), PRODUCTS[name], of)
                        n_cases += 1
                        if max(median, least) < SLOWER:
                            facts = [dtype, f"{n:,}", pattern, theirs.format, name, f"{ours_s * 1e6:.1f}"]
                            rows.append([*facts, f"{median:.2f}", f"{least:.2f}"])
    print(f"{markdown(rows)}\n\n{len(rows) - 1} of {n_cases} cases are slower than SciPy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
