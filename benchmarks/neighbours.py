"""Time products between calls of NumPy's BLAS and of PyTorch, against a plain OpenMP loop and SciPy.

    python benchmarks/neighbours.py [--rounds 5] [--matrix FILE ...] [--json FILE]

The program alternates between a product `asp.matmul(A, B, out=C)` (float32, 32 columns, two threads, untuned) and a
call of another library: nothing, NumPy's product of two 200 x 200 matrices, PyTorch's, or both. OpenBLAS's threads
stay busy for 50 ms after a call and libgomp's for some milliseconds, so that more threads run than there are cores.
Each cell is measured in fresh processes, one contender each; processes of all cells alternate. The tables show the
median time of a product, and of a whole cycle (product and neighbour): a contender whose threads take a core from the
neighbour would gain in the first table alone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from peerlib.c_peers import address, compile_shared
from peerlib.environment import child_environment

NEIGHBOURS: Final = ("nothing", "numpy", "torch", "torch + numpy")
CONTENDERS: Final = ("autosparse", "openmp", "scipy")
SIZES: Final = {"small": (13_000, 8), "large": (120_000, 10)}
"""Rows and entries per row of the generated matrices."""
N_COLUMNS: Final = 32
SIDE: Final = 200
"""Rows and columns of the matrices that a neighbour multiplies."""
THREADS: Final = 2
SETTLE_S: Final = 0.3
"""Seconds of the loop before products are timed."""
MIN_CYCLES: Final = 5
"""Minimum number of timed cycles of a process."""

Call = Callable[[], object]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="fresh processes per cell")
    add("--seconds", type=float, default=0.5, help="seconds of each loop")
    add("--matrix", type=Path, action="append", default=[], help="file of a matrix, instead of generated ones")
    add("--neighbour", action="append", default=[], choices=NEIGHBOURS, help="only this situation (repeatable)")
    add("--contender", action="append", default=[], choices=CONTENDERS, help="only this contender (repeatable)")
    add("--json", type=Path, help="append the results of each process to this file")
    add("--quick", action="store_true", help="one small matrix, one short process per cell, no PyTorch")
    add("--child", help=argparse.SUPPRESS)
    return parser.parse_args(given)


def generated(folder: Path, names: Sequence[str]) -> list[Path]:
    """Write random matrices of SIZES to `folder`; return their files."""
    for name in names:
        n, per_row = SIZES[name]
        rng = np.random.default_rng(0)
        m = sps.random_array((n, n), density=per_row / n, rng=rng, format="csr", dtype=np.float32)
        sps.save_npz(folder / f"{name}.npz", m, compressed=False)
    return [folder / f"{name}.npz" for name in names]


def neighbour_of(what: str) -> Call:
    """Return the call between two products."""
    square = np.ones((SIDE, SIDE), np.float32)
    calls: list[Call] = []
    if "torch" in what:
        import torch

        torch.set_num_threads(THREADS)
        tensor = torch.ones((SIDE, SIDE))
        calls.append(lambda: torch.mm(tensor, tensor))
    if "numpy" in what:
        calls.append(lambda: square @ square)
    return lambda: [call() for call in calls]


def product_of(contender: str, m: Any, loop: str) -> Call:
    """Return one product of the contender, into an existing array where it can."""
    B = np.random.default_rng(1).standard_normal((m.shape[1], N_COLUMNS), np.float32)
    C = np.empty((m.shape[0], N_COLUMNS), np.float32)
    if contender == "scipy":
        return lambda: m @ B
    if contender == "openmp":
        call, wide = ctypes.CDLL(loop)["plain_spmm"], ctypes.c_int64
        arrays = [address(one) for one in (m.indptr, m.indices, m.data, B, C)]
        return lambda: call(wide(m.shape[0]), *arrays, wide(N_COLUMNS), ctypes.c_int(THREADS)) or (B, C)
    import autosparse as asp

    asp.set_options(effort="off", threads=THREADS)
    A = asp.csr(m)
    return lambda: asp.matmul(A, B, out=C)


def child(contender: str, neighbour: str, whats: Sequence[str], seconds: float, loop: str) -> list[dict[str, Any]]:
    """Measure one process: for each matrix the median microseconds of a product and of a cycle."""
    act, found = neighbour_of(neighbour), []
    for what in whats:
        m = sps.csr_array(sps.load_npz(what)).astype(np.float32)
        product, products, cycles = product_of(contender, m, loop), list[float](), list[float]()
        begin = time.perf_counter()
        while (start := time.perf_counter()) < begin + SETTLE_S + seconds or len(products) < MIN_CYCLES:
            act()
            middle = time.perf_counter()
            product()
            end = time.perf_counter()
            if start > begin + SETTLE_S:
                products.append(end - middle)
                cycles.append(end - start)
        found.append({
            "contender": contender, "neighbour": neighbour, "matrix": Path(what).stem,
            "product_us": 1e6 * statistics.median(products), "cycle_us": 1e6 * statistics.median(cycles),
        })  # fmt: skip
    return found


def measured(args: argparse.Namespace, loop: str, whats: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run the fresh processes of all rounds, cells alternating, and yield their records."""
    for _ in range(args.rounds):
        for neighbour in args.neighbour or NEIGHBOURS:
            for contender in args.contender or CONTENDERS:
                given = json.dumps([contender, neighbour, whats, args.seconds, loop])
                command = [sys.executable, "-W", "ignore", __file__, "--child", given]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=child_environment())
                yield from json.loads(done.stdout)


def table(records: Sequence[dict[str, Any]], name: str) -> str:
    """Return the medians of field `name`, and autosparse's over the plain OpenMP loop's."""
    cells: dict[tuple[str, str], dict[str, list[float]]] = {}
    for one in records:
        cells.setdefault((one["matrix"], one["neighbour"]), {}).setdefault(one["contender"], []).append(one[name])
    contenders = [one for one in CONTENDERS if any(one in found for found in cells.values())]
    lines = [
        f"| matrix | between | {' | '.join(contenders)} | autosparse / openmp |",
        f"|{'---|' * (3 + len(contenders))}",
    ]
    for (matrix, neighbour), found in sorted(
        cells.items(), key=lambda cell: (cell[0][0], NEIGHBOURS.index(cell[0][1]))
    ):
        medians = {one: statistics.median(times) for one, times in found.items()}
        ratio = f"{medians['autosparse'] / medians['openmp']:.2f}" if {"autosparse", "openmp"} <= set(medians) else ""
        shown = (f"{medians[one]:,.0f}" if one in medians else "" for one in contenders)
        lines.append(f"| {matrix} | {neighbour} | {' | '.join(shown)} | {ratio} |")
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print."""
    args = arguments(given)
    if args.child:
        print(json.dumps(child(*json.loads(args.child))))
        return 0
    if args.quick:
        args.rounds, args.seconds, args.neighbour = 1, 0.05, ["nothing", "numpy"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(__file__).with_name("peerlib") / "csr_openmp.c"
        loop = str(compile_shared(source, Path(folder), name="csr_openmp", extra=("-DREAL=float",)))
        files = args.matrix or generated(Path(folder), list(SIZES)[: 1 if args.quick else None])
        records = []
        for one in measured(args, loop, [str(path.resolve()) for path in files]):
            records.append(one)
            if args.json:
                with args.json.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(one) + "\n")
    for name, title in {"product_us": "one product, µs", "cycle_us": "one cycle, µs"}.items():
        print(f"\n{title}\n\n{table(records, name)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
