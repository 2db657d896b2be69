"""Compare the total time of N lazily tuned products with N default products, for N = 1 ... 10,000.

    python benchmarks/amortisation.py --matrices DIR --ops spmv,spmm32 --json out.jsonl

Each cell is a fresh process with an empty cache. With --second the process has tuned another matrix before, which is
the situation of every matrix but the first. The tuned stream (effort=measure, with search, compilation and conversion)
and the default stream (effort=off) alternate in blocks. A cell stops after --seconds; its remaining calls are
extrapolated at the pace of the last block. Such cells are counted in the last column of the table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peerlib.case import Operation
from peerlib.environment import child_environment, matrices_folder
from peerlib.matrices import MatrixFile, find_matrices, load
from peerlib.records import ResultFile
from peerlib.streams import Stream, side_by_side
from peerlib.summary import Distribution, Versus
from peerlib.table import aligned, distribution_rows

N_REPEATED = 10  # up to this N a cell is noisy, so it runs --repeats times and the median counts


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of matrices, or one file")
    add("--min-nnz", type=int, default=100_000)
    add("--only", action="append", default=[], metavar="NAME")
    add("--limit", type=int)
    add("--ops", default="spmv,spmm32")
    add("--calls", default="1,10,100,1000,10000", help="values of N")
    add("--threads", type=int, default=2)
    add("--dtype", choices=("float32", "float64"), default="float32")
    add("--effort", choices=("estimate", "measure", "full"), default="measure")
    add("--hint", action="store_true", help="pass N to autosparse as options(runs=N)")
    add("--second", action="store_true", help="let the process tune another matrix first")
    add("--compiler", help="compiler of kernels; kernels compiled at installation are then not used")
    add("--repeats", type=int, default=4, help=f"fresh processes per cell with N <= {N_REPEATED}")
    add("--seconds", type=float, default=20.0, help="most seconds of one cell, both streams together")
    add("--json", type=Path, help="JSON lines: appended to; cells that are there are not measured again")
    add("--cell", help=argparse.SUPPRESS)
    parsed = parser.parse_args(given)
    if parsed.matrices is None and parsed.cell is None:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Run one cell in this process; return the totals of both streams."""
    import numpy as np

    import autosparse
    from autosparse.config import options, set_options

    operation = Operation.parse(cell["operation"])
    m = load(Path(cell["path"]), dtype=cell["dtype"])
    tail = () if operation.is_vector else (operation.n_dense_cols,)
    B = np.random.default_rng(0).standard_normal((m.shape[1], *tail)).astype(m.dtype)
    set_options(threads=cell["threads"], effort=cell["effort"], runs=cell["n_calls"] if cell["hint"] else None)
    tuned, default = autosparse.csr(m, copy=True), autosparse.csr(m, copy=True)

    if cell["compiler"]:
        set_options(compiler=cell["compiler"])
    if cell["second"]:
        tune_another(cell["dtype"])
    with options(effort="off"):  # load the library and wake the threads on another object
        autosparse.csr(m, copy=True) @ B
    lazily = Stream(lambda: tuned @ B)
    plainly = Stream(lambda: default @ B, lambda: options(effort="off"))
    n_calls, lead = cell["n_calls"], bool(cell["repeat"] % 2)
    totals = side_by_side(lazily, plainly, n_calls=n_calls, most_s=cell["most_s"], second_leads=lead)
    states = tuned._cell.dispatcher.states.values() if tuned._cell.dispatcher is not None else ()
    for state in states:  # products of the fast call are counted only when the state is committed
        state.commit()
    n_by_default = sum(state.n_calls - state.n_tuned for state in states)
    return {**asdict(totals), "ratio": totals.ratio(n_calls), "n_by_default": n_by_default}


def tune_another(dtype: str) -> None:
    """Multiply a synthetic matrix until its tuning has loaded everything that later tuning needs."""
    import numpy as np
    import scipy.sparse as sp

    import autosparse.tuning.setup
    from autosparse.config import options

    m = sp.diags_array([1.0] * 5, offsets=range(-2, 3), shape=(20_000, 20_000), format="csr", dtype=dtype)
    with options(overhead=1.0):
        other, x = autosparse.csr(m), np.ones(m.shape[1], dtype)
        for _ in range(2000):
            other @ x


def fresh_process(cell: dict[str, Any]) -> dict[str, Any]:
    """Run `run_cell` in a new process with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="autosparse-amortisation-") as cache:
        done = subprocess.run(
            [sys.executable, __file__, "--cell", json.dumps(cell)],
            env=child_environment(AUTOSPARSE_CACHE_DIR=cache, OMP_NUM_THREADS=str(cell["threads"])),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"cell {cell} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def cells(args: argparse.Namespace, files: Sequence[MatrixFile]) -> Iterator[dict[str, Any]]:
    """Yield every cell of the experiment."""
    shared = {"dtype": args.dtype, "threads": args.threads, "effort": args.effort, "hint": args.hint}
    for file in files:
        for operation in args.ops.split(","):
            for n_calls in map(int, args.calls.split(",")):
                facts = {"matrix": file.name, "operation": Operation.parse(operation).name, "n_calls": n_calls}
                named = [*(["second"] if args.second else []), *([args.compiler] if args.compiler else [])]
                key = "|".join(map(str, (*facts.values(), *shared.values(), *named)))
                how = {"path": str(file.path), "most_s": args.seconds, "second": args.second, "compiler": args.compiler}
                yield {"key": key, **how, **facts, **shared}


def measure(cell: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Return the record of one cell: totals of the first repeat, all ratios, and the median ratio."""
    n_repeats = repeats if cell["n_calls"] <= N_REPEATED else 1
    totals = [fresh_process({**cell, "repeat": repeat}) for repeat in range(n_repeats)]
    all_ratios = [each["ratio"] for each in totals]
    return {"kind": "case", **cell, **totals[0], "ratios": all_ratios, "ratio": statistics.median(all_ratios)}


def print_summary(records: Sequence[dict[str, Any]]) -> None:
    """Print the distribution over matrices of tuned total / default total, by operation and N; below 1 is a gain."""
    rows = []
    for operation in dict.fromkeys(record["operation"] for record in records):
        for n_calls in sorted({record["n_calls"] for record in records}):
            chosen = [r for r in records if (r["operation"], r["n_calls"]) == (operation, n_calls)]
            if not chosen:
                continue
            cut = sum(record["n_measured"] < record["n_calls"] for record in chosen)
            found = [Versus(record["matrix"], "", record["ratio"]) for record in chosen]
            highest = max(found, key=lambda versus: versus.ratio)
            row = distribution_rows([(f"{operation} N={n_calls}", Distribution.of([v.ratio for v in found]))])[1]
            rows.append([*row[:-1], f"{highest.ratio:.3f}", highest.matrix, str(cut)])
    print("\ntime of N lazily tuned products / N default ones")
    print(aligned([["", "matrices", "geomean", "5 %", "50 %", "95 %", "most", "where", "extrapolated"], *rows]))


def main() -> int:
    """Measure the cells that the results file lacks, and print the summary."""
    args = arguments()
    if args.cell is not None:
        print(json.dumps(run_cell(json.loads(args.cell))))
        return 0
    from peerlib.machine import machine_facts

    results = ResultFile(args.json)
    results.append({"kind": "run", "run": time.strftime("%Y-%m-%dT%H:%M:%S"), **machine_facts()})
    done = {record["key"]: record for record in results.cases()}
    files = find_matrices(args.matrices, min_nnz=args.min_nnz, only=tuple(args.only), limit=args.limit)
    wanted = list(cells(args, files))
    for cell in wanted:
        if cell["key"] in done:
            continue
        done[cell["key"]] = measure(cell, args.repeats)
        results.append(done[cell["key"]])
        print(f"{cell['key']:60s} {done[cell['key']]['ratio']:.3f}", flush=True)
    print_summary([done[cell["key"]] for cell in wanted])
    return 0


if __name__ == "__main__":
    sys.exit(main())
