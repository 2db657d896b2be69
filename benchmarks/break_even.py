"""Measure after how many products lazy tuning has paid for itself, with a C compiler and without one.

    python benchmarks/break_even.py --matrices DIR                         # a table on standard output
    python benchmarks/break_even.py --matrices DIR --part gains            # what `measure` finds without a compiler
    python benchmarks/break_even.py --quick                                # a generated matrix, to check the script

Every cell is a process of its own with an empty cache, default settings and the matrix made by ``asp.csr(m)``. The
library is loaded before, because untuned products load it as well; with `--loading`, the loop's first products do. The
process computes SpMV in a loop for `--seconds`, and then for half as long with ``effort="off"``. It then times the
default kernel and the kernel that ``A.tune()`` finds in as long, in turns. T(n) are the seconds of the first n
products of the first loop, and d the mean of those of the second one, so that both count interruptions. The break-even
is the smallest N with T(n) <= n d for every n >= N of the loop. The greatest excess is the maximum of T(n) - n d, in
products of d. `end` is the speed of the loop's last third over the tuned kernel's.

`--part gains` compares the gain over the default kernel of ``tune(effort="measure")`` without a compiler with the gain
with one, for 1, 8, 32 and 256 columns. One process tunes both ways, with an empty cache each, and then times the
default kernel and the two winners in turns. With `--keep FILE` an interrupted run goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib.environment import child_environment, matrices_folder
from peerlib.matrices import find_matrices, load
from peerlib.table import markdown

NO_COMPILER: Final = "no-such-compiler"
"""Command of AUTOSPARSE_CC that stands for a machine without a compiler."""
DTYPES: Final = ("float32", "float64")
WIDTHS: Final = (1, 8, 32, 256)
HEAD: Final = (
    *("matrix", "dtype", "compiler", "default kernel, us", "tuned over default", "break-even", "greatest excess"),
    "end",
)
N_PACED: Final = 41
"""Blocks in which the default and the tuned kernel are timed in turns after the loop."""
BLOCK_S: Final = 2e-3
"""Least duration of such a block, in seconds."""


@dataclass(frozen=True)
class Loop:
    """Measurements of one process."""

    default_us: float
    tuned_us: float
    end_us: float  # median of the loop's last third
    n: int
    break_even: int | None  # products, or None if the loop ended before
    excess: float  # in products of the default kernel

    @property
    def end(self) -> float:
        """Speed at the end of the loop over the tuned kernel's."""
        return self.tuned_us / self.end_us


def break_even(times_s: Sequence[float], default_s: float) -> tuple[int | None, float]:
    """Return the break-even of products that took `times_s`, and the greatest excess in products of `default_s`."""
    behind = np.cumsum(np.asarray(times_s) - default_s)
    late = np.flatnonzero(behind > 0.0)
    first = 0 if late.size == 0 else int(late[-1]) + 1
    return (None if first == len(behind) else first), float(max(behind.max(), 0.0) / default_s)


# -- one process -----------------------------------------------------------------------------------------------------


def matrix(path: str, dtype: str) -> Any:
    """Load a matrix, or generate one for an empty path."""
    import scipy.sparse as sps

    if path:
        return sps.csr_array(load(Path(path), dtype=dtype))
    m = sps.random_array((20_000, 20_000), density=5e-4, format="csr", rng=np.random.default_rng(0))
    return sps.csr_array(m.astype(dtype))


def loop(path: str, dtype: str, seconds: float, *, is_light: bool) -> Loop:
    """Compute products for `seconds`, then time both kernels. `is_light`: the products load the library."""
    import autosparse as asp

    m = matrix(path, dtype)
    if not is_light:
        asp.get_options()
    A, x = asp.csr(m), np.ones(m.shape[1], dtype)
    times = timed(A, x, seconds)
    with asp.options(effort="off"):
        plain_s = statistics.fmean(timed(A, x, seconds / 2))
    A.tune(budget_s=seconds)
    default_s, tuned_s = paces([(A, x, {"effort": "off"}), (A, x, {})])
    even, excess = break_even(times, plain_s)
    end_s = statistics.median(times[-max(len(times) // 3, 1) :])
    return Loop(1e6 * default_s, 1e6 * tuned_s, 1e6 * end_s, len(times), even, excess)


def timed(A: Any, x: Any, seconds: float) -> list[float]:
    """Return the seconds of each product of a loop."""
    times: list[float] = []
    begin = last = time.perf_counter()
    while last - begin < seconds:
        A @ x
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return times


def paces(products: Sequence[tuple[Any, Any, dict[str, Any]]]) -> list[float]:
    """Return the median seconds of `products` (matrix, operand, options), timed in turns."""
    import autosparse as asp

    n, found = 1, [list[float]() for _ in products]
    for _ in range(N_PACED):
        for (A, X, options), times in zip(products, found, strict=True):
            with asp.options(**options):
                A @ X
                start = time.perf_counter()
                for _ in range(n):
                    A @ X
                times.append((time.perf_counter() - start) / n)
        n = max(n, round(BLOCK_S / found[-1][-1]))
    return [statistics.median(times) for times in found]


def gain(path: str, dtype: str, columns: int, budget_s: float) -> list[Any]:
    """Return the gains of the kernels that `measure` finds with and without a compiler, and their schedules."""
    import autosparse as asp

    m = matrix(path, dtype)
    X = np.ones((m.shape[1], columns) if columns > 1 else m.shape[1], dtype)
    products, schedules = [(asp.csr(m), X, {"effort": "off"})], list[str]()
    for options in ({}, {"compiler": NO_COMPILER}):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        A, own = asp.csr(m.copy()), options | {"cache_dir": folder.name}
        with folder, asp.options(**own):
            schedule = A.tune(columns=columns, effort="measure", budget_s=budget_s).schedule
        schedules.append("" if schedule is None else schedule.to_json())
        products.append((A, X, own))
    default_s, *tuned_s = paces(products)
    return [[default_s / one_s if text else 1.0, text] for one_s, text in zip(tuned_s, schedules, strict=True)]


# -- many processes --------------------------------------------------------------------------------------------------


class Kept:
    """Measurements of children, kept in a file of lines so that an interrupted run can go on."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self._found = dict[str, Any](map(json.loads, lines))

    def measured(self, *arguments: str, has_compiler: bool) -> Any:
        """Return what the child of `arguments` printed, now or in an earlier run."""
        key = " ".join((*arguments, "cc" if has_compiler else "no"))
        if key not in self._found:
            self._found[key] = measured(*arguments, has_compiler=has_compiler)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([key, self._found[key]]) + "\n")
        return self._found[key]


def measured(*arguments: str, has_compiler: bool) -> Any:
    """Run this script as a child with an empty cache and return what it printed."""
    with tempfile.TemporaryDirectory() as cache:
        extra = {"AUTOSPARSE_CACHE_DIR": cache} | ({} if has_compiler else {"AUTOSPARSE_CC": NO_COMPILER})
        command = [sys.executable, "-W", "ignore", __file__, "--child", *arguments]
        done = subprocess.run(command, env=child_environment(**extra), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def loops(paths: Sequence[str], seconds: float, kept: Kept, kind: str = "loop") -> str:
    """Return the table of break-evens, with medians in the last rows; `kind` of the children: "loop" or "light"."""
    rows, found = [], dict[tuple[str, bool], list[Loop]]()
    for path in paths:
        for dtype in DTYPES:
            for has_compiler in (True, False):
                one = Loop(**kept.measured(kind, path, dtype, str(seconds), has_compiler=has_compiler))
                found.setdefault((dtype, has_compiler), []).append(one)
                rows.append([name_of(path), dtype, *cells(has_compiler, [one])])
                print(*rows[-1], file=sys.stderr, flush=True)
    rows += [["median", dtype, *cells(has_compiler, ones)] for (dtype, has_compiler), ones in found.items()]
    return markdown([HEAD, *rows])


def cells(has_compiler: bool, ones: Sequence[Loop]) -> list[str]:
    """Return the medians of processes as cells of a row. A loop that ended before its break-even counts as infinite."""
    even = statistics.median(float("inf") if one.break_even is None else one.break_even for one in ones)
    longest = max(one.n for one in ones)
    return [
        "yes" if has_compiler else "no",
        f"{statistics.median(one.default_us for one in ones):.0f}",
        f"{statistics.median(one.default_us / one.tuned_us for one in ones):.2f}",
        f"> {longest:,}" if even == float("inf") else f"{even:,.0f}",
        f"{statistics.median(one.excess for one in ones):,.0f}",
        f"{statistics.median(one.end for one in ones):.2f}",
    ]


def gains(paths: Sequence[str], budget_s: float, kept: Kept) -> str:
    """Return the table of gains with and without a compiler, with geometric means in the last rows."""
    rows, shares = [], dict[tuple[str, int], list[tuple[float, float]]]()
    for path in paths:
        for dtype in DTYPES:
            for columns in WIDTHS:
                both = kept.measured("gain", path, dtype, str(columns), str(budget_s), has_compiler=True)
                shares.setdefault((dtype, columns), []).append((both[0][0], both[1][0]))
                print(name_of(path), dtype, columns, *both, file=sys.stderr, flush=True)
    for (dtype, columns), pairs in shares.items():
        logs = np.log(pairs)
        with_one, without = np.exp(logs.mean(0))
        share = np.exp(logs[:, 1] - logs[:, 0])
        rows.append(
            [dtype, str(columns), *(f"{one:.2f}" for one in (with_one, without, without / with_one, min(share)))]
        )
    head = ["dtype", "columns", "gain with a compiler", "without", "share", "least share"]
    return markdown([head, *rows])


def name_of(path: str) -> str:
    """Return the name of a matrix for a table."""
    return Path(path).name.split(".")[0] if path else "generated"


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--matrices", type=Path, default=matrices_folder(), help="folder of matrices")
    parser.add_argument("--part", choices=("loops", "gains"), default="loops")
    parser.add_argument("--min-nnz", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=7, help="every so many matrices, by name")
    parser.add_argument("--limit", type=int, default=12, help="at most so many matrices")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each loop, or of each tuning of `gains`")
    parser.add_argument("--loading", action="store_true", help="count the loading of the library by the first products")
    parser.add_argument("--out", type=Path, help="write the table to this file")
    parser.add_argument("--keep", type=Path, help="keep measurements in this file, and do not repeat those in it")
    parser.add_argument("--quick", action="store_true", help="one generated matrix and short loops")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Do what the command line says."""
    args = arguments()
    if args.child:
        kind, path, dtype, *numbers = args.child
        is_loop = kind in ("loop", "light")
        one = loop(path, dtype, float(numbers[0]), is_light=kind == "light") if is_loop else None
        print(json.dumps(asdict(one) if one else gain(path, dtype, int(numbers[0]), float(numbers[1]))))
        return 0
    if not args.quick and args.matrices is None:
        print("no folder of matrices: name one with --matrices or AUTOSPARSE_MATRICES", file=sys.stderr)
        return 2
    files = [] if args.quick else find_matrices(args.matrices, min_nnz=args.min_nnz)
    paths = [str(one.path) for one in files if not one.is_tensor][:: args.every][: args.limit] or [""]
    seconds = 0.2 if args.quick else args.seconds
    kept = Kept(args.keep)
    kind = "light" if args.loading else "loop"
    text = loops(paths, seconds, kept, kind) if args.part == "loops" else gains(paths, seconds, kept)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
