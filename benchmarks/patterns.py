"""Time untuned products of matrices of eight patterns against SciPy, and print those that are slower.

    python benchmarks/patterns.py
    python benchmarks/patterns.py --threads 1 --entries 10000 --products A@x,x@A
    python benchmarks/patterns.py --patterns more --products more --dtypes complex128,int64 --indices int64
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
Patterns = Iterator[tuple[str, Any]]
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
WIDTHS: Final = (1, 3, 7, 10, 20, 50, 100)
MORE_PRODUCTS: Final[Mapping[str, Product]] = {
    **{f"A@X{k}": (lambda m, of, k=k: m @ of[f"X{k}"]) for k in WIDTHS},
    **{f"A.T@Y{k}": (lambda m, of, k=k: m.T @ of[f"Y{k}"]) for k in (3, 10, 20)},
    "Z4@A": lambda m, of: of["Z4"] @ m,
    "A@XF16": lambda m, of: m @ of["XF16"],
    "A@XS4": lambda m, of: m @ of["XS4"],
    "A@xs": lambda m, of: m @ of["xs"],
    "A@f": lambda m, of: m @ of["f"],
    "A@A.T": lambda m, of: m @ m.T if 64 * m.nnz > m.shape[0] ** 2 or m.shape[0] > 100 else m.T @ m,
    "A+A": lambda m, of: m + m,
    "A*A": lambda m, of: m.multiply(m),
    "A*y": lambda m, of: m.multiply(of["y"][:, None]),
    "sum0": lambda m, of: m.sum(axis=0),
    "sum1": lambda m, of: m.sum(axis=1),
    "A[rows]": lambda m, of: m[of["rows"]],
    "A[:][cols]": lambda m, of: m[:, of["cols"]],
    "A[a:b]": lambda m, of: m[of["half"]],
    "turned": lambda m, of: m.tocsc() if m.format == "csr" else m.tocsr(),
    "A.T.tocsr": lambda m, of: m.T.tocsr(),
    "tocoo": lambda m, of: m.tocoo(),
    "copy": lambda m, of: m.copy(),
    "2*A": lambda m, of: 2 * m,
    "abs": lambda m, of: abs(m),
    "diagonal": lambda m, of: m.diagonal(),
    "max1": lambda m, of: m.max(axis=1),
}
"""Other products, and operations that return sparse matrices; S stands for every second element, f for float64."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--entries", default="300,1000,3000,10000,30000,100000,300000", help="stored entries, comma-separated")
    add("--products", default=",".join(PRODUCTS), help="comma-separated, or 'more'")
    add("--patterns", default="", help="names, comma-separated; the eight by default, or 'more'")
    add("--indices", default="", help="dtype of indices")
    add("--dtypes", default="float64,float32", help="comma-separated")
    add("--threads", type=int, default=2)
    add("--quick", action="store_true", help="300 entries of float64 only, to check that the script works")
    parsed = parser.parse_args(given)
    if parsed.quick:
        parsed.entries, parsed.dtypes = "300", "float64"
    if parsed.products == "more":
        parsed.products = ",".join(MORE_PRODUCTS)
    return parsed


def matrices(n: int) -> Patterns:
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


def more_matrices(n: int) -> Patterns:
    """Yield names and CSR arrays of about `n` entries of other patterns."""
    rng = np.random.default_rng(2)
    rows = max(4, n // 3)
    ones = np.ones(rows)
    arrow = sps.dia_array((ones[None] * 2, [0]), shape=(rows, rows)).tolil()
    arrow[0], arrow[:, 0] = ones, ones[:, None]
    yield "arrow", arrow.tocsr()
    yield "dense blocks", sps.block_diag([rng.random((8, 8))] * max(1, n // 64), format="csr")
    small = max(4, n // 36)
    yield "kron", sps.kron(sps.random_array((small, small), density=4 / small, rng=rng), np.ones((3, 3)), format="csr")
    side = max(3, round((n / 5) ** 0.5))
    line = sps.diags_array([np.ones(side)] * 3, offsets=[-1, 0, 1], shape=(side, side))
    grid = (sps.kron(line, sps.eye_array(side)) + sps.kron(sps.eye_array(side), line)).tocsr()
    order = rng.permutation(grid.shape[0])
    yield "permuted grid", grid[order][:, order]
    yield "lower triangle", sps.tril(grid, format="csr")
    side = max(3, round((n / 27) ** (1 / 3)))
    line = sps.diags_array([np.ones(side)] * 3, offsets=[-1, 0, 1], shape=(side, side))
    yield "27 points", sps.kron(sps.kron(line, line), line, format="csr")
    bits = max(4, int(np.log2(max(2, n / 8))))
    quarter = rng.choice(4, (bits, n), p=[0.57, 0.19, 0.19, 0.05])
    power = 1 << np.arange(bits)
    ends = (power @ (quarter >> 1), power @ (quarter & 1))
    yield "R-MAT", sps.coo_array((rng.random(n), ends), shape=(1 << bits, 1 << bits)).tocsr()
    yield "three columns", sps.random_array((n, 3), density=1 / 3, format="csr", rng=rng)
    yield "tall", sps.random_array((n, 10), density=0.1, format="csr", rng=rng)
    yield "flat", sps.random_array((10, n), density=0.1, format="csr", rng=rng)
    yield (
        "dense column",
        (sps.eye_array(rows) + sps.coo_array((ones, (range(rows), ones * 0)), shape=(rows, rows))).tocsr(),
    )
    hubs = sps.random_array((4, rows), density=min(1, n / 8 / rows), rng=rng)
    yield "hub rows", sps.vstack([hubs, sps.random_array((rows, rows), density=1.5 / rows, rng=rng)], format="csr")
    edges = np.repeat(np.arange(max(2, n // 2)), 2), rng.integers(0, max(2, n // 4), 2 * max(2, n // 2))
    yield "incidence", sps.coo_array((np.resize([1.0, -1.0], edges[0].size), edges)).tocsr()
    found = sps.random_array((max(4, n // 5),) * 2, density=min(1, 5 / max(4, n // 5)), format="csr", rng=rng)
    mixed = np.concatenate([rng.permutation(part) for part in np.split(found.indices, found.indptr[1:-1])])
    yield "unsorted and twice", sps.csr_array((found.data, mixed // 2 * 2, found.indptr), shape=found.shape)
    yield "half zeros", sps.csr_array((found.data.round(), found.indices, found.indptr), shape=found.shape)


def selected(names: str, n: int) -> Patterns:
    """Yield the matrices that the option `--patterns` names."""
    if names == "":
        yield from matrices(n)
    elif names == "more":
        yield from more_matrices(n)
    else:
        yield from ((name, m) for name, m in (*matrices(n), *more_matrices(n)) if name in names.split(","))


class Operands(dict[str, Any]):
    """Dense operands and selections of a matrix of the given shape by name, made when they are first read."""

    def __init__(self, shape: tuple[int, int], dtype: str) -> None:
        self.shape, self.dtype, self.rng = shape, dtype, np.random.default_rng(1)

    def made(self, *extents: int) -> Any:
        """Return an array of random numbers."""
        return (self.rng.random(extents) * 9).astype(self.dtype)

    def __missing__(self, name: str) -> Any:
        rows, cols = self.shape
        k = int("".join(filter(str.isdigit, name)) or 0)
        makers: dict[str, Callable[[], Any]] = {
            "x": lambda: self.made(cols),
            "y": lambda: self.made(rows),
            "f": lambda: self.rng.random(cols),
            "xs": lambda: self.made(2 * cols)[::2],
            "X": lambda: self.made(cols, k),
            "Y": lambda: self.made(rows, k),
            "Z": lambda: self.made(k, rows),
            "XF": lambda: np.asfortranarray(self.made(cols, k)),
            "XS": lambda: self.made(cols, 2 * k)[:, ::2],
            "rows": lambda: self.rng.integers(0, rows, rows // 2),
            "cols": lambda: np.arange(0, cols, 2),
            "half": lambda: slice(rows // 3, rows),
        }
        self[name] = makers[name.rstrip("0123456789")]()
        return self[name]


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

    known = {**PRODUCTS, **MORE_PRODUCTS}
    rows, n_cases = [["dtype", "entries", "pattern", "format", "product", "ours, us", "medians", "minima"]], 0
    for dtype in args.dtypes.split(","):
        for n in map(int, args.entries.split(",")):
            for pattern, made in selected(args.patterns, n):
                m = (made if dtype[0] in "fc" else made * 9).astype(dtype)
                if args.indices:
                    m.indices, m.indptr = m.indices.astype(args.indices), m.indptr.astype(args.indices)
                of = Operands(m.shape, dtype)
                for theirs, load in ((m, asp.csr), (m.tocsc(), asp.csc)):
                    for name in args.products.split(","):
                        median, least, ours_s = ratios(theirs, load(theirs), known[name], of)
                        n_cases += 1
                        if max(median, least) < SLOWER:
                            facts = [dtype, f"{n:,}", pattern, theirs.format, name, f"{ours_s * 1e6:.1f}"]
                            rows.append([*facts, f"{median:.2f}", f"{least:.2f}"])
                            print(*rows[-1], sep=", ", file=sys.stderr, flush=True)
    print(f"{markdown(rows)}\n\n{len(rows) - 1} of {n_cases} cases are slower than SciPy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
