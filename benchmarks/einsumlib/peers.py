"""Benchmark `peers`: the same expressions by other libraries that are installed or that options name."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import autosparse as asp
from einsumlib import report
from einsumlib.inputs import EXPRESSIONS, GRAPHS, geometric_mean, interleaved, is_asked, load
from einsumlib.report import table

THREADS: Final = 2
MAX_S: Final = 0.3
"""Seconds of A @ A beyond which a library is not timed on further expressions of that graph."""
PEERS: Final = ("einsum", "SciPy", "pydata/sparse", "GraphBLAS", "TACO")


@dataclass(frozen=True, slots=True)
class Peer:
    """Functions by which a library computes each expression, and the function that sums a result for the check."""

    runs: dict[str, Callable[[], Any]]
    total: Callable[[Any], float]


def measured(folder: Path, taco: Path | None = None, only: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return medians of five interleaved runs per graph and expression; an untimed first run is checked."""
    rows = report.rows_of("peers") if only else []
    for name in only or GRAPHS:
        rows = [row for row in rows if row["graph"] != name]
        A = load(folder, name)
        peers = {"einsum": by_einsum(A), "SciPy": by_scipy(A)} | by_pydata(A) | by_graphblas(A)
        tacos = by_taco(A, taco, [one for one in EXPRESSIONS if is_asked(name, one)]) if taco else {}
        slow: set[str] = set()
        for expression in EXPRESSIONS:
            if not is_asked(name, expression):
                continue
            ready = {}
            wanted = EXPRESSIONS[expression](A).sum()
            for one, peer in peers.items():
                if one in slow:
                    continue
                total = peer.total(peer.runs[expression]())
                assert np.isclose(total, wanted), f"{one} computes {expression} on {name} as {total}, not {wanted}"
                ready[one] = peer.runs[expression]
            times: dict[str, Any] = interleaved(ready, 5) | ({"TACO": tacos[expression]} if expression in tacos else {})
            slow |= {one for one, s in times.items() if expression == "ij,jk->ik" and s > MAX_S}
            rows.append({"graph": name, "expression": expression, **times})
            print(name, expression, {one: round(s * 1e3, 2) for one, s in times.items()}, flush=True)
    return sorted(rows, key=lambda row: GRAPHS.index(row["graph"]))


def by_einsum(A: Any) -> Peer:
    """Return asp.einsum as a peer; plans are chosen and timed before."""
    for expression in EXPRESSIONS:
        with asp.options(runs=100):
            asp.einsum(expression, *[A] * (1 + expression.count(",")))
    runs = {
        expression: lambda expression=expression: asp.einsum(expression, *[A] * (1 + expression.count(",")))
        for expression in EXPRESSIONS
    }
    return Peer(runs, lambda result: result.sum())


def by_scipy(A: Any) -> Peer:
    """Return SciPy as a peer, with the expressions that a user would write."""
    runs = {name: lambda one=one: one(A) for name, one in EXPRESSIONS.items()}
    return Peer(runs, lambda result: result.sum())


def by_pydata(A: Any) -> dict[str, Peer]:
    """Return pydata/sparse as a peer, through its operators: its einsum would form all products of three factors."""
    try:
        import sparse
    except ImportError:
        return {}
    X = sparse.GCXS.from_scipy_sparse(A)
    runs = {name: lambda one=one: one(X) for name, one in EXPRESSIONS.items()}
    return {"pydata/sparse": Peer(runs, lambda result: float(result.data.sum() if result.ndim else result.todense()))}


def by_graphblas(A: Any) -> dict[str, Peer]:
    """Return SuiteSparse:GraphBLAS through python-graphblas as a peer, with structural masks."""
    try:
        import graphblas as gb

        gb.ss.config["nthreads"] = THREADS
        X = gb.io.from_scipy_sparse(A)
    except (ImportError, OSError, AttributeError) as err:  # AttributeError: the library has another version
        print(f"python-graphblas does not load: {err}")
        return {}
    times = gb.semiring.plus_times

    def masked(P: Any) -> Any:
        C = gb.Matrix(float, *X.shape)
        C(X.S) << times(P @ X)
        return C

    def product(P: Any) -> Any:
        return times(P @ X).new()

    def total(result: Any) -> float:
        return float(result if np.isscalar(result) else (result.reduce_scalar().value or 0.0))

    runs = {
        "ij,jk->ik": lambda: product(X),
        "ij,jk,kl->il": lambda: product(product(X)),
        "ij,ik,kj->ij": lambda: masked(X),
        "ij,jk,ik->": lambda: total(masked(X)),
        "ij,jk,kl,il->": lambda: total(masked(product(X))),
    }
    return {"GraphBLAS": Peer(runs, total)}


def by_taco(A: Any, folder: Path, expressions: list[str]) -> dict[str, float]:
    """Return median seconds of TACO's default kernels, run by a separate program that is built against `folder`."""
    with tempfile.TemporaryDirectory() as name:
        matrix = Path(name) / "matrix"
        with matrix.open("wb") as file:
            for part in (np.array([A.shape[0], A.nnz], np.int32), A.indptr, A.indices):
                part.astype(np.int32).tofile(file)
            A.data.astype(np.float64).tofile(file)
        command = [str(taco_program(folder)), str(matrix), str(THREADS), *expressions]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = {row["expression"]: row for row in map(json.loads, found.splitlines())}
    for expression, row in rows.items():
        wanted = EXPRESSIONS[expression](A).sum()
        assert np.isclose(row["sum"], wanted), f"TACO computes {expression} as {row['sum']}, not {wanted}"
    return {expression: row["s"] for expression, row in rows.items()}


def taco_program(folder: Path) -> Path:
    """Return `taco_products.cpp` built against the TACO in `folder`; rebuild it if its source is newer."""
    source, program = Path(__file__).with_name("taco_products.cpp"), folder / "build" / "autosparse_products"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        library = folder / "build" / "lib"
        options = ["-O2", "-std=c++14", f"-I{folder / 'include'}", f"-L{library}", "-ltaco", f"-Wl,-rpath,{library}"]
        subprocess.run(["g++", str(source), "-o", str(program), *options], check=True)
    return program


def as_table(rows: list[dict[str, Any]]) -> str:
    """Format times in milliseconds and, below, the geometric mean of each library's time over einsum's."""
    present = [one for one in PEERS if any(one in row for row in rows)]
    lines: list[list[object]] = [
        [row["graph"], f"`{row['expression']}`", *(row[one] * 1e3 if one in row else None for one in present)]
        for row in rows
    ]
    for expression in EXPRESSIONS:
        mine = [row for row in rows if row["expression"] == expression]
        ratios = [[row[one] / row["einsum"] for row in mine if one in row] for one in present]
        means = [geometric_mean(one) if one else None for one in ratios]
        lines.append(["over einsum, geometric mean", f"`{expression}`", *means])
    return table(("graph", "expression", *present), lines)
