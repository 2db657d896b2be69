"""Time torch.sparse products with and without autosparse: forward, backward, sampled products, overhead of a call.

    python benchmarks/bench_torch.py --matrices DIR --json benchmarks/results/torch.jsonl

Matrices are square CSR tensors with int64 indices (PyTorch's default), float32. The override is switched during the
untimed calls that precede each sample. A new file starts with the overhead of small calls and of a dense product.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from peerlib.environment import matrices_folder, start_again
from peerlib.machine import machine_facts
from peerlib.matrices import find_matrices, load
from peerlib.records import ResultFile
from peerlib.summary import Distribution, Versus
from peerlib.table import aligned, distribution_rows, seconds, worst
from peerlib.timing import Protocol, Timing, take_turns

WIDTHS: Final = "16,32,64,128,256"
CASES: Final = ("forward", "training", "sampled")


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of matrices, or one file")
    add("--min-nnz", type=int, default=100_000)
    add("--only", action="append", default=[], metavar="NAME")
    add("--limit", type=int)
    add("--widths", default=WIDTHS, help="feature widths")
    add("--cases", default=",".join(CASES))
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=7)
    add("--most-s", type=float, default=10.0, help="measuring time per case, seconds")
    add("--effort", default=None, help="option effort (default: the library's own)")
    add("--json", type=Path)
    parsed = parser.parse_args(given)
    if parsed.matrices is None:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


class Switch:
    """Switch of the override. It acts only when the contender changes, because switching takes a millisecond."""

    def __init__(self) -> None:
        self.is_on = False

    def turned(self, run: Callable[[], Any], *, on: bool) -> Callable[[], Any]:
        """Return `run` wrapped to run with the override on, or off."""
        import autosparse.torch

        def call() -> Any:
            if self.is_on is not on:
                self.is_on = on
                (autosparse.torch.install if on else autosparse.torch.uninstall)()
            return run()

        return call


def contest(run: Callable[[], Any], protocol: Protocol) -> dict[str, Timing]:
    """Time `run` with PyTorch and with autosparse in alternation."""
    switch = Switch()
    found = take_turns({"torch": switch.turned(run, on=False), "ours": switch.turned(run, on=True)}, protocol)
    switch.turned(lambda: None, on=False)()
    return found


def runs_of(case: str, A: Any, width: int) -> Callable[[], Any]:
    """Return a function that makes one call of the case."""
    import torch

    n, m = A.shape
    generator = torch.Generator().manual_seed(0)
    X, Y = (torch.randn(k, width, generator=generator) for k in (n, m))
    if case == "sampled":
        return lambda: torch.sparse.sampled_addmm(A, X, Y.t(), beta=0.0)
    if case == "forward":
        return lambda: A @ Y
    leaf = Y.requires_grad_()

    def training() -> Any:
        leaf.grad = None
        (A @ leaf).backward(X)
        return leaf.grad

    return training


def checked(run: Callable[[], Any]) -> None:
    """Raise AssertionError if PyTorch and autosparse disagree."""
    import torch

    import autosparse.torch

    def dense() -> Any:
        result = run()
        return (result.values() if result.layout == torch.sparse_csr else result).clone()

    want = dense()
    with autosparse.torch.override():
        got = dense()
    scale = want.abs().max().clamp(min=1e-30)
    assert ((got - want).abs().max() / scale) < 1e-4, "the override gives another answer"


def torch_csr(path: Path) -> Any:
    """Load the matrix as PyTorch stores it by default: sparse_csr with int64 indices."""
    import torch

    m = load(path, dtype="float32")
    indices = (torch.from_numpy(a).long() for a in (m.indptr, m.indices))
    return torch.sparse_csr_tensor(*indices, torch.from_numpy(m.data), m.shape, check_invariants=False)


def overheads(protocol: Protocol) -> dict[str, dict[str, float]]:
    """Time calls on 8 × 8 operands, and a dense product that autosparse does not handle."""
    import torch

    A, B, D, x, y = torch.eye(8).to_sparse_csr(), torch.randn(8, 8), torch.randn(8, 8), torch.randn(8), torch.randn(8)
    C, out, vector = torch.eye(8).to_sparse_coo().coalesce(), torch.empty(8, 8), torch.empty(8)
    calls = {
        "A @ B, 8 x 8": lambda: A @ B,
        "A @ x, 8 x 8": lambda: A @ x,
        "sampled_addmm, 8 x 8": lambda: torch.sparse.sampled_addmm(A, B, D),
        "dense B @ D, 8 x 8": lambda: B @ D,
        "sparse.mm": lambda: torch.sparse.mm(A, B),
        "sparse.mm, reduce": lambda: torch.sparse.mm(A, B, reduce="sum"),
        "mm, out": lambda: torch.mm(A, B, out=out),
        "addmm": lambda: torch.addmm(D, A, B),
        "addmm, scalars": lambda: torch.addmm(D, A, B, beta=0.5, alpha=2.0),
        "addmm, out": lambda: torch.addmm(D, A, B, out=out),
        "addmv": lambda: torch.addmv(y, A, x),
        "addmv, scalars": lambda: torch.addmv(y, A, x, beta=0.5, alpha=2.0),
        "addmv, out": lambda: torch.addmv(y, A, x, out=vector),
        "mv, out": lambda: torch.mv(A, x, out=vector),
        "COO @ B": lambda: C @ B,
        "COO @ x": lambda: C @ x,
        "sparse.mm of COO": lambda: torch.sparse.mm(C, B),
        "addmm of COO": lambda: torch.addmm(D, C, B),
    }
    return {
        name: {who: timing.median_s for who, timing in contest(run, protocol).items()} for name, run in calls.items()
    }


def overhead_rows(found: dict[str, dict[str, float]]) -> list[list[str]]:
    """Return the rows of the table of `overheads`."""
    rows = [["", "torch", "ours", "difference"]]
    for name, times in found.items():
        theirs_s, ours_s = times["torch"], times["ours"]
        rows.append([name, seconds(theirs_s), seconds(ours_s), f"{(ours_s - theirs_s) * 1e6:+.2f} us"])
    return rows


def cases(args: argparse.Namespace) -> Iterator[tuple[str, Path, list[tuple[str, int]]]]:
    """Yield (matrix, path, [(case, width)])."""
    wanted = [(case, int(width)) for case in args.cases.split(",") for width in args.widths.split(",")]
    for file in find_matrices(args.matrices, min_nnz=args.min_nnz, only=tuple(args.only), limit=args.limit):
        yield file.name, file.path, wanted


def measure(args: argparse.Namespace, results: ResultFile) -> list[dict[str, Any]]:
    """Measure every case that the file does not hold yet; return the records of all cases."""
    protocol = Protocol(rounds=args.rounds, most_s=args.most_s)
    known = {record["key"]: record for record in results.cases(threads=args.threads)}
    found = []
    for name, path, wanted in cases(args):
        A = None
        for case, width in wanted:
            key = f"{name}|{case}|{width}"
            if key not in known:
                A = torch_csr(path) if A is None else A
                if A.shape[0] != A.shape[1]:
                    break
                run = runs_of(case, A, width)
                checked(run)
                times = {who: timing.median_s for who, timing in contest(run, protocol).items()}
                known[key] = {
                    "kind": "case", "key": key, "matrix": name, "case": case, "width": width, "nnz": A._nnz(),
                    "threads": args.threads, "times": times,
                }  # fmt: skip
                results.append(known[key])
                ratio = times["torch"] / times["ours"]
                print(f"{name} {case} {width}: {seconds(times['torch'])} / {seconds(times['ours'])} = {ratio:.2f}")
            found.append(known[key])
    return found


def report(found: Sequence[dict[str, Any]]) -> str:
    """Format the ratios PyTorch / autosparse by case and width."""
    named, texts = [], []
    for case in sorted({record["case"] for record in found}):
        for width in sorted({record["width"] for record in found}):
            rows = [record for record in found if (record["case"], record["width"]) == (case, width)]
            versus = [Versus(r["matrix"], "torch", r["times"]["torch"] / r["times"]["ours"]) for r in rows]
            if versus:
                named.append((f"{case} {width}", Distribution.of([v.ratio for v in versus])))
                texts.append(f"{case} {width}: {worst(versus)}")
        ratios = [r["times"]["torch"] / r["times"]["ours"] for r in found if r["case"] == case]
        named.append((f"{case}, all widths", Distribution.of(ratios)))
    return "\n".join([aligned(distribution_rows(named)), *texts])


def main() -> int:
    """Measure the cases, record them, and print the report."""
    args = arguments()
    start_again(args.threads)
    warnings.filterwarnings("ignore", message="Sparse")
    import torch

    from autosparse.config import set_options

    torch.set_num_threads(min(args.threads, os.cpu_count() or 1))
    if args.effort:
        set_options(effort=args.effort)
    results = ResultFile(args.json)
    if not any(line["kind"] == "overhead" for line in results.lines()):
        found = overheads(Protocol(rounds=4 * args.rounds, sample_s=5e-3, warm_s=3e-3))
        results.append({"kind": "run", "run": time.strftime("%Y-%m-%dT%H:%M:%S"), **machine_facts()})
        results.append({"kind": "overhead", "threads": args.threads, "times": found})
        print(aligned(overhead_rows(found)))
    cases = measure(args, results)
    if cases:
        print(report(cases))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
