"""autosparse against torch's own sparse products on one GPU: `python benchmarks/gpu.py`, at most nine minutes.

Every case is one JSON line in `--out`; a case that stands there is not run again (`--fresh`: all are). Each result is
compared with float64 before it is timed. `--dry` runs the same cases on tiny inputs in Triton's interpreter, on a
machine without a GPU: its times mean nothing. The table at the end is the geometric mean by part.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PARTS = ("spmv", "spmm", "spmm_half", "sddmm", "hybrid")
LIMIT_S = 540.0
ROUNDS = 30


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu.jsonl"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["spmv", "spmm", "spmm_half", "sddmm"])
    parser.add_argument("--hybrid", action="store_true", help="also the block-pruned weights of STile, Table 4")
    parser.add_argument("--matrices", type=Path, default=None, help="folder of real matrices (.npz of scipy.sparse)")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--dry", action="store_true")
    return parser.parse_args()


@dataclass(frozen=True)
class Case:
    """One product of one matrix."""

    part: str
    matrix: str
    columns: int
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.part} {self.matrix} {self.columns} {self.dtype}"


def log_sparse(n: int) -> object:
    """Attention mask: each position sees itself and those a power of 2 before it."""
    import numpy as np
    import scipy.sparse as sps

    rows, cols = [np.arange(n)], [np.arange(n)]
    for distance in (2**k for k in range(int(math.log2(n)) + 1)):
        rows.append(np.arange(distance, n))
        cols.append(np.arange(n - distance))
    return sps.csr_array((np.ones(sum(map(len, rows))), (np.concatenate(rows), np.concatenate(cols))), shape=(n, n))


def strided(n: int) -> object:
    """Attention mask: a band of sqrt(n) positions, and every sqrt(n)-th one."""
    import numpy as np
    import scipy.sparse as sps

    step = math.isqrt(n)
    i = np.arange(n)[:, None]
    j = np.arange(n)[None, :]
    return sps.csr_array(((i >= j) & ((i - j < step) | ((i - j) % step == 0))).astype(float))


def pruned(n: int, block: int, density: float) -> object:
    """Weights with whole blocks pruned at random (STile, Table 4)."""
    import numpy as np
    import scipy.sparse as sps

    kept = np.random.default_rng(0).random((n // block, n // block)) < density
    return sps.csr_array(np.kron(kept, np.ones((block, block))))


def matrices(options: argparse.Namespace) -> Iterator[tuple[str, object]]:
    import scipy.sparse as sps

    n = 64 if options.dry else 4096
    yield "LogSparse", log_sparse(n)
    yield "Strided", strided(n)
    if options.hybrid or "hybrid" in options.parts:
        for block in (16, 32):
            yield f"pruned {block}", pruned(n, block, 0.1)
    if options.matrices and not options.dry:
        yield from ((path.stem, sps.csr_array(sps.load_npz(path))) for path in sorted(options.matrices.rglob("*.npz")))


def cases(options: argparse.Namespace, matrix: str) -> Iterator[Case]:
    parts = [*options.parts, *(["hybrid"] if options.hybrid and "hybrid" not in options.parts else [])]
    widths = (16,) if options.dry else (32, 64, 128, 256, 512)
    for part in parts:
        if part == "spmv":
            yield Case(part, matrix, 1, "float32")
        elif part == "hybrid" and not matrix.startswith("pruned"):
            continue
        else:
            dtype = "float16" if part in ("spmm_half", "hybrid") and not options.dry else "float32"
            yield from (Case(part, matrix, width, dtype) for width in widths)


def measure(case: Case, given: object, dry: bool) -> dict[str, object]:
    """Time of torch's product and of ours after planning, and how far ours is from float64."""
    import torch

    import autosparse as asp
    from autosparse.cuda import matrix, products
    from autosparse.cuda.device import serving

    place = "cpu" if dry else "cuda"
    dtype = getattr(torch, case.dtype)
    arrays = [torch.from_numpy(one.astype("int32")).to(place) for one in (given.indptr, given.indices)]
    values = torch.randn(given.nnz, device=place).to(dtype)
    A = matrix.csr(torch.sparse_csr_tensor(*arrays, values, given.shape, check_invariants=False))
    n, m = A.shape
    sampled = case.part == "sddmm"
    B = torch.randn(m, *(() if case.part == "spmv" else (case.columns,)), device=place).to(dtype)
    X = torch.randn(n, case.columns, device=place).to(dtype)
    ours: Callable[[int], torch.Tensor]
    if sampled:
        ours = lambda number: products.sampled(A.structure, X, B)  # noqa: E731
        vendor = lambda number: products.torch_sampled(A.structure, X, B)  # noqa: E731
    else:
        ours = lambda number: A @ B  # noqa: E731
        vendor = lambda number: products.torch_matmul(A.structure, A.values, B, transposed=False)  # noqa: E731
    start_s = time.perf_counter()
    with asp.options(runs=10**9):
        ours(0)
    plan_s = time.perf_counter() - start_s
    device = serving(B)
    assert device is not None
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(1 if dry else 5):  # in turns, so that a change of the clock meets both
        times["torch"].append(device.seconds(vendor, rounds=ROUNDS))
        times["autosparse"].append(device.seconds(ours, rounds=ROUNDS))
    rows = torch.repeat_interleave(torch.arange(n, device=place), arrays[0].long().diff())
    cols = arrays[1].long()
    if sampled:
        wanted = (X.double()[rows] * B.double()[cols]).sum(1)
    else:
        exact = torch.sparse_csr_tensor(*arrays, A.values.double(), given.shape, check_invariants=False)
        wanted = exact @ B.double()
    error = ((ours(0).double() - wanted).abs().max() / wanted.abs().max().clamp(min=1)).item()
    (made,) = A.structure.choices.values()
    best = {name: sorted(found)[len(found) // 2] for name, found in times.items()}
    return {
        "case": case.name, "part": case.part, "nnz": int(given.nnz), "error": error, "plan_s": plan_s, "why": made.why,
        "schedule": None if made.schedule is None else str(made.schedule), "seconds": best,
        "candidates_s": made.measured_s, "device": device.name(B), "torch": torch.__version__,
    }  # fmt: skip


def table(lines: list[dict[str, object]]) -> str:
    """Geometric mean and worst of torch's time over ours, by part."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        seconds = line["seconds"]
        ratios[str(line["part"])].append(seconds["torch"] / seconds["autosparse"])
    rows = [f"{'part':<12} {'cases':>5} {'geomean':>8} {'worst':>8}"]
    for part, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        rows.append(f"{part:<12} {len(found):>5} {mean:>8.2f} {min(found):>8.2f}")
    return "\n".join(rows)


def main() -> int:
    options = arguments()
    if options.dry:
        os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
    import torch

    if not options.dry and not torch.cuda.is_available():
        print("no GPU: torch.cuda.is_available() is False. Cure: a machine with one, or --dry", file=sys.stderr)
        return 1
    if options.dry:
        from autosparse.cuda import device

        device.DEVICES["cpu"] = device.HostDevice()
    if options.fresh:
        options.out.unlink(missing_ok=True)
    lines = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done, start_s = {line["case"] for line in lines}, time.perf_counter()
    for name, given in matrices(options):
        for case in cases(options, name):
            if case.name in done:
                continue
            if time.perf_counter() - start_s > LIMIT_S:
                print("the time is over: run it again to go on", file=sys.stderr)
                break
            lines.append(measure(case, given, options.dry))
            with options.out.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    print(table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
