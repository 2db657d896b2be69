"""Time the first calls of `asp.einsum` against the equivalent SciPy expression.

    python benchmarks/einsum_first.py --json benchmarks/results/einsum_first.jsonl
    python benchmarks/einsum_first.py --part 1/3 --json FILE
    python benchmarks/einsum_first.py --quick

Each of the expressions runs in fresh processes with a cold cache, SciPy and autosparse in alternation. Recorded are the
time of the first call and the total after every number of calls, up to `--calls` or for `--most-s` seconds. The bounds
are: first call <= SciPy's + 10 ms, total <= 1.1 x SciPy's + 10 ms. At each number of calls the minimum total over the
processes counts. Times are in milliseconds; `excess` is the largest difference between our total and its bound. A
complete run takes about two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peerlib.records import ResultFile
from peerlib.shares import add_part, machine_line, share

ALLOWED_S = 0.010
FACTOR = 1.1
EXPRESSIONS = {
    "quadratic form": ("i,ij,j->", "xAy", "x @ (A @ y)"),
    "row sums of a product": ("ij,ij->i", "AB", "np.asarray(A.multiply(B).sum(axis=1)).reshape(-1)"),
    "elementwise product": ("ij,ij->ij", "AB", "A.multiply(B).tocsr()"),
    "matrix by dense": ("ij,jk->ik", "AX", "A @ X"),
    "sparse by sparse": ("ij,jk->ik", "AB", "A @ B"),
    "gram": ("ij,kj->ik", "AB", "A @ B.T"),
    "masked product": ("ij,ik,kj->ij", "ABC", "A.multiply(B @ C).tocsr()"),
    "sampled product": ("ij,ik,jk->ij", "AXX", "sampled(A, X)"),
    "triangles": ("ij,jk,ki->", "SSS", "(S @ S).multiply(S.T).sum()"),
    "A B C": ("ij,jk,kl->il", "ABC", "(A @ B) @ C"),
    "hadamard of three": ("ij,ij,ij->ij", "ABC", "A.multiply(B).multiply(C).tocsr()"),
    "trace": ("ii->", "A", "A.diagonal().sum()"),
    "MTTKRP": ("ikl,kj,lj->ij", "TGG", "mttkrp(T, G)"),
}
"""Subscripts, operands (one letter each) and the equivalent SciPy expression, by name."""

CODE = """
import sys, time, json
import numpy as np, scipy.sparse as sps
import autosparse as asp
text, letters, way, is_ours, n_entries, n_calls, most_s = json.loads(sys.argv[1])
n, rng = 20_000, np.random.default_rng(0)
def matrix():
    return sps.random_array((n, n), density=n_entries / n**2, format="csr", rng=rng)
def mttkrp(T, G):
    rows, cols, others = T.coords
    out = np.zeros((T.shape[0], G.shape[1]))
    np.add.at(out, rows, T.data[:, None] * G[cols] * G[others])
    return out
def sampled(A, X):
    rows = np.repeat(np.arange(n), np.diff(A.indptr))
    return sps.csr_array((A.data * np.einsum("ij,ij->i", X[rows], X[A.indices]), A.indices, A.indptr), shape=A.shape)
made = {name: matrix() for name in sorted(set(letters) & set("ABC"))}
made |= {"x": rng.random(n), "y": rng.random(n), "X": rng.random((n, 16)), "G": rng.random((300, 16))}
if "S" in letters:
    half = matrix()
    made["S"] = (half + half.T).tocsr()
if "T" in letters:
    coords = tuple(rng.integers(0, 300, (3, n_entries)))
    made["T"] = sps.coo_array((rng.random(n_entries), coords), shape=(300, 300, 300))
if is_ours:
    ours = {name: asp.csr(one) if name in "ABCS" else one for name, one in made.items()}
    if "T" in letters:
        ours["T"] = asp.tensor(made["T"])
    operands = [ours[letter] for letter in letters]
    call = lambda: asp.einsum(text, *operands)
else:
    call = eval("lambda: " + way, {**made, "np": np, "mttkrp": mttkrp, "sampled": sampled})
times, begin = [], time.perf_counter()
while len(times) < n_calls and time.perf_counter() - begin < most_s:
    start = time.perf_counter()
    call()
    times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


TOUCH = "import numpy; numpy.ones(1 << 27)"
"""Program that allocates and frees 1 GB.

On a virtual machine, memory that was not touched recently is slow to obtain.
"""


def calls_s(name: str, is_ours: bool, n_entries: int, n_calls: int, most_s: float) -> list[float]:
    """Return the seconds of successive calls, made in a new process with an empty cache."""
    text, letters, way = EXPRESSIONS[name]
    with tempfile.TemporaryDirectory() as folder:
        given = json.dumps([text, letters, way, is_ours, n_entries, n_calls, most_s])
        environment = {**os.environ, "AUTOSPARSE_CACHE_DIR": folder}
        subprocess.run([sys.executable, "-c", TOUCH], check=True)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed library has compiled modules
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CODE, given],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
    found: list[float] = json.loads(run.stdout)
    return found


def totals(times: list[float]) -> list[float]:
    """Return the running sums of `times`."""
    found: list[float] = []
    for one in times:
        found.append(one + (found[-1] if found else 0.0))
    return found


def measured(name: str, n_entries: int, n_calls: int, n_processes: int, most_s: float) -> dict[str, Any]:
    """Measure one expression: first calls, totals, and the largest excess of our total over the bound."""
    runs: dict[bool, list[list[float]]] = {True: [], False: []}
    calls_s(name, True, 1000, 1, most_s)  # writes the bytecode of imported modules
    for _ in range(n_processes):
        for is_ours in (False, True):
            runs[is_ours].append(totals(calls_s(name, is_ours, n_entries, n_calls, most_s)))
    scipys, ours = ([min(at) for at in zip(*runs[is_ours], strict=False)] for is_ours in (False, True))
    excess = [mine - (FACTOR * theirs + ALLOWED_S) for mine, theirs in zip(ours, scipys, strict=False)]
    worst = max(range(len(excess)), key=excess.__getitem__)
    return {
        "expression": name, "subscripts": EXPRESSIONS[name][0], "scipy_first_ms": 1e3 * scipys[0],
        "ours_first_ms": 1e3 * ours[0], "calls": len(excess), "scipy_total_ms": 1e3 * scipys[len(excess) - 1],
        "ours_total_ms": 1e3 * ours[len(excess) - 1], "worst_excess_ms": 1e3 * excess[worst], "worst_at": worst + 1,
    }  # fmt: skip


def as_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format the rows as a Markdown table."""
    lines = [
        "| expression | subscripts | SciPy first | ours first | calls | SciPy total | ours total | excess |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['expression']} | `{row['subscripts']}` | {row['scipy_first_ms']:.1f} | {row['ours_first_ms']:.1f} | "
        f"{row['calls']} | {row['scipy_total_ms']:.0f} | {row['ours_total_ms']:.0f} | "
        f"{row['worst_excess_ms']:.1f} at call {row['worst_at']} |"
        for row in rows
    ]
    return "\n".join(lines)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="fewer entries, calls and processes; bounds are not enforced")
    add(
        "--only",
        nargs="+",
        choices=list(EXPRESSIONS),
        default=list(EXPRESSIONS),
        help="expressions to measure (default: all)",
    )
    add("--calls", type=int, default=1000)
    add("--processes", type=int, default=3)
    add("--most-s", type=float, default=1.5, help="seconds of calls in one process")
    add("--json", type=Path, help="JSON lines, appended to; a Markdown table is written beside it")
    add_part(parser)
    parsed = parser.parse_args(given)
    parsed.entries = 400_000
    if parsed.quick:
        parsed.entries, parsed.calls, parsed.processes, parsed.most_s = 100_000, 20, 1, 1.0
    return parsed


def measure(args: argparse.Namespace, results: ResultFile) -> list[dict[str, Any]]:
    """Measure every chosen expression; return the records."""
    from peerlib.machine import machine_facts

    run_id = time.strftime("%Y-%m-%dT%H:%M:%S")
    results.append({"kind": "run", "run": run_id, **machine_facts()})
    records = []
    for name in share(args.only, args.part):
        found = measured(name, args.entries, args.calls, args.processes, args.most_s)
        records.append({"kind": "case", "run": run_id, "key": name, **found})
        results.append(records[-1])
        print(as_table(records[-1:]).rsplit("\n", 1)[-1], flush=True)
    return records


def beyond(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the expressions whose first call or total exceeds its bound."""
    return [
        row["expression"] for row in rows
        if row["worst_excess_ms"] > 0 or row["ours_first_ms"] > row["scipy_first_ms"] + 1e3 * ALLOWED_S
    ]  # fmt: skip


def write_table(path: Path) -> None:
    """Write the newest results of every expression in `path` as a Markdown table beside it."""
    results = ResultFile(path)
    order = list(EXPRESSIONS)
    rows = sorted(results.cases(), key=lambda row: order.index(row["key"]))
    facts = [line for line in results.lines() if line["kind"] == "run"][-1]
    said = f"{len(rows)} expressions; beyond the bounds: {', '.join(beyond(rows)) or 'none'}"
    path.with_suffix(".md").write_text(f"{as_table(rows)}\n\n{said}\n\n{machine_line(facts)}\n", encoding="utf-8")


def main() -> int:
    """Measure and print."""
    args = arguments()
    records = measure(args, ResultFile(args.json))
    failed = beyond(records)
    print(f"\n{as_table(records)}\n\nbeyond the bounds: {', '.join(failed) or 'none'}")
    if args.json is not None:
        write_table(args.json)
    return int(bool(failed) and not args.quick)


if __name__ == "__main__":
    sys.exit(main())
