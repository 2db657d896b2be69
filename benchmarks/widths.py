"""Time products of every width against the next multiple of the vector length, single columns, and other libraries.

    python benchmarks/widths.py --out build/benchmarks/widths.jsonl
    python benchmarks/widths.py --quick

Operations: ``A @ B`` ("spmm"), ``A.T @ B`` ("transposed"), SDDMM and MTTKRP, all untuned. Each case alternates

- the product of width w,
- the product of the next multiple of the vector length of the instruction set,
- for 2 to 7 columns of a matrix product, ``A @ x``, whose time counts w times,
- a plain OpenMP loop in C and torch, where they have the operation.

Ratios are (our time) / (time of the other), so 1 or less is good. The table has the geometric mean and the maximum over
the matrices and dtypes, by operation and width. Goals: at most 1.1 against the next multiple, 1 against the others.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib import c_peers, matrices, python_peers, sampled_peers, tensor_peers
from peerlib.case import Case, Operation
from peerlib.environment import matrices_folder, start_again
from peerlib.machine import machine_facts
from peerlib.records import ResultFile, given_arguments
from peerlib.table import markdown
from peerlib.timing import Protocol, take_turns

WIDTHS: Final = "2,3,4,5,6,7,10,20,33,50,100,130,300"
SDDMM_WIDTHS: Final = "1,2,3,5,7,10,20,33,50,100,130,300"
MTTKRP_WIDTHS: Final = "1,2,3,5,7,10,20,33,50,100"
OPERATIONS: Final = {"spmm": WIDTHS, "transposed": WIDTHS, "sddmm": SDDMM_WIDTHS, "mttkrp": MTTKRP_WIDTHS}
MATRICES: Final = (
    "4elt", "email-Enron", "ybus_ACTIVSg70k", "soc-brightkite", "cotan_armadillo", "pfjac_ACTIVSg25k", "cage10",
    "bcsstk16", "gene_ontology_closure", "qp_CONT-300_A", "elast_elbow", "a9a",
)  # fmt: skip
"""Twelve matrices: meshes, graphs, power networks, finite elements, optimisation and machine learning."""
QUICK: Final = {"matrices": MATRICES[:3], "widths": {2, 3, 7, 10, 33}, "dtypes": ("float32",), "rounds": 3}
FEW: Final = range(2, 8)
"""Numbers of columns that are compared with as many products of one column."""
VECTOR_BYTES: Final = {"baseline": 16, "avx2": 32, "avx512": 64}
PEERS: Final[dict[str, dict[str, Callable[[Any], Any]]]] = {
    "spmm": {"openmp": c_peers.openmp_plain, "scalar": c_peers.openmp_scalar, "torch": python_peers.torch_csr_out},
    "transposed": {},
    "sddmm": {"openmp": sampled_peers.openmp_sampled, "scalar": sampled_peers.openmp_scalar},
    "mttkrp": {"openmp": tensor_peers.openmp_csf},
}
MAX_SCALAR: Final = 16
"""Maximum width for which the loop is also compiled without vector instructions; the faster of both counts."""
AGAINST: Final = ("next", "vectors", "openmp", "torch")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An operation on one matrix or tensor: as the peers hold it (transposed already), and in autosparse."""

    operation: str
    name: str
    theirs: Any
    ours: Any
    isa: str

    @property
    def dtype(self) -> str:
        """Return the name of the dtype."""
        return str(self.theirs.dtype)

    def case(self, width: int, threads: int) -> Case:
        """Return the case of `width` columns."""
        kind = "spmm" if self.operation == "transposed" else self.operation
        text = "spmv" if kind == "spmm" and width == 1 else f"{kind}{width}"
        operation = Operation.parse(text)
        return Case.of(self.name, self.theirs, operation, threads=threads, effort="off", budget_s=0.0, seed=0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Ratios of one operation and width on one matrix; `us` is our median time in microseconds."""

    operation: str
    matrix: str
    dtype: str
    width: int
    us: float
    ratios: dict[str, float]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, help="folder of matrices and tensors")
    add("--only", default="", help="names of matrices and tensors, separated by commas")
    add("--operations", default=",".join(OPERATIONS))
    add("--widths", default="", help="widths, separated by commas, instead of those of each operation")
    add("--dtypes", default="float32,float64")
    add("--isa", choices=tuple(VECTOR_BYTES), help="instruction set; the processor's widest by default")
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=7)
    add("--sample-ms", type=float, default=1.0, help="duration of a sample")
    add("--cpu-time", action="store_true", help="count the processor time of one thread, on a busy machine")
    add("--own", action="store_true", help="leave out other libraries")
    add("--quick", action="store_true", help="three matrices, five widths, float32")
    add("--out", type=Path, help="JSON lines: results are appended")
    add("--detail", action="store_true", help="print each matrix")
    return parser.parse_args(given)


def next_multiple(width: int, dtype: str, isa: str) -> int:
    """Return the next multiple of the number of values in a vector."""
    lanes = VECTOR_BYTES[isa] // np.dtype(dtype).itemsize
    return -(-width // lanes) * lanes


def product(problem: Problem, case: Case) -> Callable[[], Any]:
    """Return a call of our product that fills the result of the case."""
    import autosparse as asp

    A = problem.ours
    if problem.operation == "sddmm":
        X, Y = case.B[0], case.B[1].T
        return lambda: asp.sddmm(A, X, Y, out=case.out)
    if problem.operation == "mttkrp":
        return lambda: asp.mttkrp(A, case.B, case.operation.mode, out=case.out)
    return lambda: asp.matmul(A, case.B, out=case.out)


def contenders(args: argparse.Namespace, problem: Problem, width: int) -> dict[str, Callable[[], Any]]:
    """Return the calls to time."""
    case = problem.case(width, args.threads)
    found = {"ours": product(problem, case)}
    rounded = next_multiple(width, problem.dtype, problem.isa)
    if rounded != width:
        found["next"] = product(problem, problem.case(rounded, args.threads))
    if problem.operation in ("spmm", "transposed") and width in FEW:
        found["vectors"] = product(problem, problem.case(1, args.threads))
    for peer, prepare in {} if args.own else PEERS[problem.operation].items():
        if peer != "scalar" or width <= MAX_SCALAR:
            found[peer] = prepare(case).run
    return found


def row_of(args: argparse.Namespace, problem: Problem, width: int) -> Row:
    """Measure one width."""
    protocol = Protocol(rounds=args.rounds, sample_s=args.sample_ms * 1e-3, warm_s=args.sample_ms * 5e-4, most_s=3.0)
    clock = time.thread_time if args.cpu_time else time.perf_counter
    timed = {
        name: one.median_s for name, one in take_turns(contenders(args, problem, width), protocol, clock=clock).items()
    }
    ours_s, scalar_s = timed["ours"], timed.pop("scalar", float("inf"))
    if "openmp" in timed:
        timed["openmp"] = min(timed["openmp"], scalar_s)
    counts = {"vectors": width}
    ratios = {one: ours_s / (counts.get(one, 1) * timed[one]) for one in AGAINST if one in timed}
    us = round(ours_s * 1e6, 2)
    return Row(operation=problem.operation, matrix=problem.name, dtype=problem.dtype, width=width, us=us, ratios=ratios)


def problems(args: argparse.Namespace, operation: str, isa: str) -> Iterator[Problem]:
    """Yield the selected matrices or tensors."""
    import autosparse as asp

    folder = args.matrices or matrices_folder()
    if folder is None:
        raise SystemExit("no folder of matrices: use --matrices or AUTOSPARSE_MATRICES")
    only = tuple(filter(None, args.only.split(",")))
    is_tensor = operation == "mttkrp"
    names = only or (() if is_tensor else QUICK["matrices"] if args.quick else MATRICES)
    files = (matrices.find_tensors if is_tensor else matrices.find_matrices)(folder, only=names)
    for file, dtype in itertools.product(files, args.dtypes.split(",")):
        if is_tensor:
            M = matrices.load_tensor(file.path, dtype=dtype)
            A = asp.tensor(M.coords, M.data, M.shape, copy=True)
        else:
            M = matrices.load(file.path, dtype=dtype)
            A = asp.csr(M, copy=True)
        if operation == "transposed":
            M, A = matrices.as_csr(M.T, dtype=dtype), A.T
        yield Problem(operation=operation, name=file.name, theirs=M, ours=A, isa=isa)


def measure(args: argparse.Namespace, isa: str) -> Iterator[Row]:
    """Measure everything that the command line selects."""
    for operation in args.operations.split(","):
        widths = [int(text) for text in (args.widths or OPERATIONS[operation]).split(",")]
        widths = [w for w in widths if not args.quick or w in QUICK["widths"]]
        for problem in problems(args, operation, isa):
            for width in widths:
                yield row_of(args, problem, width)


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Return the header and a line per operation and width: geometric mean and maximum of each ratio."""
    lines = [["operation", "width", *(f"/ {one}" for one in AGAINST)]]
    keys = dict.fromkeys((row.operation, row.width) for row in rows)
    for operation, width in keys:
        line = [operation, str(width)]
        for one in AGAINST:
            found = [
                row.ratios[one]
                for row in rows
                if (row.operation, row.width) == (operation, width) and one in row.ratios
            ]
            line.append(f"{geomean(found):.2f} (max {max(found):.2f})" if found else "-")
        lines.append(line)
    return lines


def detail(rows: Sequence[Row]) -> list[list[str]]:
    """Return the header and a line per measurement."""
    lines = [["operation", "matrix", "dtype", "width", "us", *AGAINST]]
    for row in rows:
        ratios = (f"{row.ratios[one]:.2f}" if one in row.ratios else "-" for one in AGAINST)
        lines.append([row.operation, row.matrix, row.dtype, str(row.width), f"{row.us:.1f}", *ratios])
    return lines


def main() -> int:
    """Measure and print the table."""
    args = arguments()
    if args.isa:
        os.environ["AUTOSPARSE_ISA"] = args.isa
    start_again(args.threads)
    import autosparse as asp
    from autosparse.core.target import Target

    isa = args.isa or Target.host().isa
    args.threads = 1 if args.cpu_time else args.threads
    if args.quick:
        args.dtypes, args.rounds = ",".join(QUICK["dtypes"]), QUICK["rounds"]
    results, rows = ResultFile(args.out), []
    if args.out:
        results.append({"kind": "run", **machine_facts(), "arguments": given_arguments(), "isa": isa})
    with asp.options(effort="off", threads=args.threads):
        for row in measure(args, isa):
            rows.append(row)
            key = "|".join(map(str, (row.operation, row.matrix, row.dtype, row.width, isa, args.threads)))
            results.append({"kind": "case", "key": key, **dataclasses.asdict(row)})
    print(markdown(detail(rows) if args.detail else table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
