"""Time untuned products of two dtypes, of integers and of booleans against SciPy, on real matrices.

    python benchmarks/dtype_pairs.py [--matrices DIR] [--min-nnz N] [--most N] [--quick] [--out FILE]
    python benchmarks/dtype_pairs.py --small

A case is a matrix, a pair of dtypes (values of A, values of B) and a number of columns of B. SciPy's class and ours
alternate in shuffled rounds in one process; the ratio is the median time of SciPy over ours. The table has the
geometric mean and the 5th percentile of the ratios of each pair. `--small` takes made matrices of 300 and 10,000
entries instead, where the ratio must not be below 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse
from peerlib.environment import matrices_folder, start_again
from peerlib.table import markdown
from peerlib.timing import Protocol, take_turns

PAIRS: Final = (
    ("f4", "f8"), ("f8", "f4"), ("i8", "f8"), ("i4", "f4"), ("?", "f4"), ("i8", "i8"), ("f8", "c16"), ("c16", "c16"),
)  # fmt: skip
COLUMNS: Final = (1, 32)
SMALL: Final = (300, 10_000)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of .npz files")
    add("--most", type=int, default=0, help="number of matrices, evenly chosen by their number of entries; 0: all")
    add("--min-nnz", type=int, default=0, help="leave out matrices with fewer entries: 100000 leaves 82 matrices")
    add("--quick", action="store_true", help="few matrices and rounds, to try the script out")
    add("--small", action="store_true", help="made matrices of 300 and 10,000 entries")
    add("--pairs", default="", help="pairs such as f4,f8;i8,i8")
    add("--rounds", type=int, default=5)
    add("--threads", type=int, default=2)
    add("--out", type=Path, help="write the cases as JSON lines")
    args = parser.parse_args(given)
    if args.quick:
        args.most, args.rounds = args.most or 2, 2
    return args


def matrices(args: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Return (name, csr_array) of every matrix, smallest first."""
    if args.small:
        for entries in SMALL:
            n = max(entries // 5, 1)
            made = scipy.sparse.random_array((n, n), density=entries / n**2, rng=np.random.default_rng(0), format="csr")
            yield f"{entries} entries", made
        return
    if args.matrices is None:
        raise SystemExit("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    paths = sorted(args.matrices.glob("*.npz"), key=lambda path: (path.stat().st_size, path.name))
    if args.most and args.most < len(paths):
        paths = [paths[at] for at in np.linspace(len(paths) // 4, len(paths) - 1, args.most).astype(int)]
    for path in paths:
        try:
            found = scipy.sparse.csr_array(scipy.sparse.load_npz(path))
        except ValueError:  # a tensor
            continue
        if found.nnz >= args.min_nnz:
            yield path.stem, found


def values(rng: np.random.Generator, dtype: str, shape: Any) -> Any:
    """Return random values of the dtype: small integers, so that all sums can be represented."""
    if np.dtype(dtype).kind in "biu":
        return rng.integers(0, 2 if dtype == "?" else 9, shape).astype(dtype)
    real = rng.standard_normal(shape)
    return (real + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else real).astype(dtype)


def case(M: Any, pair: tuple[str, str], columns: int, protocol: Protocol) -> dict[str, float]:
    """Return the median seconds of one product by SciPy and by us, after comparing the results."""
    import autosparse as asp

    rng, (a, b) = np.random.default_rng(0), pair
    M = scipy.sparse.csr_array((values(rng, a, M.nnz), M.indices, M.indptr), shape=M.shape)
    A = asp.csr(M, copy=True)
    B = values(rng, b, M.shape[1] if columns == 1 else (M.shape[1], columns))
    theirs, ours = M @ B, A @ B
    if theirs.dtype != ours.dtype or not np.allclose(
        theirs, ours, rtol=1e-3, atol=1e-3 * np.abs(theirs).max(initial=0)
    ):
        raise AssertionError(f"{a} @ {b}, {columns} columns: results differ")
    del theirs, ours
    found = take_turns({"scipy": lambda: M @ B, "ours": lambda: A @ B}, protocol)
    return {name: one.median_s for name, one in found.items()}


def table(cases: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table with a line per pair and number of columns."""
    rows = [["A @ B", "columns", "geometric mean", "5th percentile", "least", "at"]]
    for pair in dict.fromkeys(one["pair"] for one in cases):
        for columns in COLUMNS:
            some = [one for one in cases if (one["pair"], one["columns"]) == (pair, columns)]
            ratios = np.array([one["ratio"] for one in some])
            if not some:
                continue
            numbers = np.exp(np.log(ratios).mean()), np.percentile(ratios, 5), ratios.min()
            rows.append([pair, str(columns), *(f"{x:.2f}" for x in numbers), some[int(ratios.argmin())]["matrix"]])
    return markdown(rows)


def main() -> int:
    """Measure all cases and print the table."""
    args = arguments()
    start_again(args.threads)
    import autosparse as asp

    pairs = [tuple(one.split(",")) for one in args.pairs.split(";")] if args.pairs else PAIRS
    protocol = Protocol(rounds=args.rounds, sample_s=5e-4, warm_s=5e-4, most_s=2.0, least_rounds=min(3, args.rounds))
    cases = []
    with asp.options(effort="off", threads=args.threads):
        for name, M in matrices(args):
            for a, b in pairs:
                for columns in COLUMNS:
                    times = case(M, (a, b), columns, protocol)
                    facts = {"matrix": name, "nnz": M.nnz, "pair": f"{a} @ {b}", "columns": columns}
                    cases.append({**facts, "threads": args.threads, "ratio": times["scipy"] / times["ours"], **times})
    if args.out:
        args.out.write_text("".join(json.dumps(one) + "\n" for one in cases))
    print(table(cases))
    return 0


if __name__ == "__main__":
    sys.exit(main())
