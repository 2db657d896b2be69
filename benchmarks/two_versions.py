"""Compare two versions of autosparse: products of each in fresh processes, in alternation.

    python benchmarks/two_versions.py OLD NEW --matrices FOLDER [--count 24] [--json FILE] [--per-matrix]
    python benchmarks/two_versions.py OLD NEW --matrices FOLDER --only tuned --cache FOLDER [--warm]
    python benchmarks/two_versions.py OLD NEW --matrices FOLDER --operations all --dtypes float32 float64 --isa avx2

OLD and NEW are checkouts, or folders that hold a package `autosparse`, with compiled runtimes. The script prints one
line per kind of measurement: the geometric mean over matrices of old time / new time, so that more than 1 is faster.
Beside it stands the same of a second run of OLD in place of NEW, which shows how far times scatter. `--per-matrix` adds
a line for each matrix with a 90 % interval (bootstrap over rounds), and marks those whose interval lies below .97.
Kinds are in three groups: `small` (costs of a call and a process), `untuned`, and `tuned` (by measuring).
`--operations` and `--dtypes` select the products of the last two; `--isa` sets AUTOSPARSE_ISA for all.

`--warm` compiles the kernels of tuned products beforehand and reports nothing, so that it can run on a busy machine;
plans are always searched anew. Dense operands begin 16 bytes after a cache line in both versions, because the alignment
of a small operand changes the time of a product with 32 columns by about a third.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

MAX_BYTES: Final = 8 << 20
"""Maximum size of a file; every n-th of the smaller ones is taken, by size."""
ROUNDS: Final = {"small": 9, "untuned": 3, "tuned": 1}
"""Number of processes of each version; tuned ones alternate for every matrix."""
OPERATIONS: Final = {
    "spmv": ("product", 1), "spmm8": ("product", 8), "spmm32": ("product", 32), "spmm256": ("product", 256),
    "spmv_t": ("transposed", 1), "spmm32_t": ("transposed", 32), "sddmm32": ("sampled", 32),
    "sddmm256": ("sampled", 256), "mttkrp32": ("fibers", 32), "spgemm": ("sparse", 0), "einsum": ("contraction", 0),
}  # fmt: skip
"""Operation -> function of `BEGIN` that makes the product, and its number of dense columns."""
ENOUGH: Final = 0.97
"""Ratio of times below which a new version counts as slower."""
N_DRAWS: Final = 1000
"""Number of bootstrap draws of rounds for a 90 % interval."""
SIDES: Final = ("old", "new", "again")
"""Names of the measured sides; the last one is the old version once more."""
BESIDE: Final = ("_native", "cache", "tuner")
"""Sub-packages that a checkout keeps beside its package."""
BEGIN: Final = """
import json, sys, time
import numpy as np, scipy.io, scipy.sparse as sps
start = time.perf_counter()
import autosparse as asp
asp.csr(sps.eye_array(3, format="csr")) @ np.ones(3)
first_s = time.perf_counter() - start
out = {}
given = json.loads(sys.argv[1])
def median(run, least=9, seconds=0.03):
    run(); times = []
    end = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        begin = time.perf_counter(); run(); times.append(time.perf_counter() - begin)
    return float(np.median(times))
def many(run, n=2000):
    for _ in range(6000): run()
    def some():
        for _ in range(n): run()
    return median(some, least=9, seconds=0.0) / n
def matrix(path, dtype):
    m = sps.load_npz(path) if path.endswith(".npz") else scipy.io.mmread(path)
    return sps.csr_array(m).astype(dtype)
def operand(n_rows, n, dtype):
    room = np.ones(n_rows * n + 32, dtype)
    late = -(room.ctypes.data - 16) % 64 // room.itemsize  # 16 bytes behind a cache line, where NumPy's arrays begin
    flat = room[late:late + n_rows * n]
    return flat.reshape(n_rows, n) if n > 1 else flat
def product(m, n):
    A, B = asp.csr(m, copy=True), operand(m.shape[1], n, m.dtype)
    return (lambda: A @ B), (lambda: A.tune(columns=n, effort="measure"))
def transposed(m, n):
    A, B = asp.csr(m, copy=True), operand(m.shape[0], n, m.dtype)
    return (lambda: A.T @ B), (lambda: A.tune(columns=n, effort="measure", transposed=True))
def sampled(m, n):
    A, X, Y = asp.csr(m, copy=True), operand(m.shape[0], n, m.dtype), operand(m.shape[1], n, m.dtype).T
    return (lambda: asp.sddmm(A, X, Y)), (lambda: A.tune("sddmm", columns=n, effort="measure"))
def fibers(m, n):  # the entries as a tensor whose third index is a sum of the others, modulo 64
    coo = m.tocoo()
    coords, shape = np.stack([coo.row, coo.col, (coo.row + coo.col) % 64]), (*m.shape, 64)
    T = asp.tensor(coords, coo.data, shape)
    factors = [None] + [operand(k, n, m.dtype) for k in shape[1:]]
    return (lambda: asp.mttkrp(T, factors, 0)), (lambda: T.tune(columns=n, effort="measure"))
def sparse(m, n):
    A, B = asp.csr(m, copy=True), asp.csr(m.T.tocsr(), copy=True)
    return (lambda: A @ B), (lambda: None)
def contraction(m, n):
    A, x = asp.csr(m, copy=True), operand(m.shape[1], 1, m.dtype)
    run = lambda: asp.einsum("ij,ij,j->i", A, A, x)
    def tune():
        for _ in range(20): run()
    return run, tune
def products():
    for path in given["paths"]:
        for dtype in given["dtypes"]:
            m = matrix(path, dtype)
            for name, (make, n) in given["operations"].items():
                run, tune = globals()[make](m, n)
                yield path, f"{name}, {dtype}", run, tune
"""
CHILDREN: Final = {
    "small": """
asp.set_options(effort="off")
out["first product in a process, with the import"] = {"": first_s}
m = sps.random_array((100, 100), density=0.03, format="csr", random_state=np.random.default_rng(0))
small = asp.csr(m, copy=True)
x = np.ones(100)
out["steady product of 300 entries"] = {"": many(lambda: small @ x)}
for name, width in (("A @ x", 1), ("A.T @ x", 1), ("A @ B, 4 columns", 4)):
    for n in (10, 1000):
        m = sps.diags_array([1.0, 2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")
        A, B = asp.csr(m, copy=True), np.ones((n, width)) if width > 1 else np.ones(n)
        run = (lambda: A.T @ B) if ".T" in name else (lambda: A @ B)
        out[f"tridiagonal {name}, n = {n}"] = {"": many(run, 500)}
""",
    "untuned": """
asp.set_options(effort="off")
for path, name, run, _ in products():
    out.setdefault(f"untuned {name}", {})[path] = median(run)
""",
    "tuned": """
from autosparse import cache
cache.open_store().forget(["plan", "history"])
asp.set_options(effort="measure", runs=100_000)
for path, name, run, tune in products():
    tune()
    for _ in range(5): run()
    out.setdefault(f"tuned {name}", {})[path] = median(run)
""",
}

Times = dict[str, dict[str, float]]
"""Type of seconds by kind of measurement and path of the matrix."""


def measured(kind: str, folder: str, request: dict[str, Any], environment: dict[str, str]) -> Times:
    """Return the medians of one fresh process, in seconds."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + CHILDREN[kind] + "print(json.dumps(out))", json.dumps(request)],
        env={**os.environ, **environment, "PYTHONPATH": folder}, stdout=subprocess.PIPE, text=True, check=True,
        cwd=folder,  # Python imports from the current folder first
    )  # fmt: skip
    found: Times = json.loads(done.stdout)
    return found


def whole_package(folder: Path, links: Path) -> str:
    """Return a folder to import the whole package from: `folder`, or links to the parts of a checkout.

    In the folder of a checkout, Python would take the sub-packages from the checkout that its own environment names.
    """
    beside = [folder.resolve() / name for name in BESIDE]
    if not all(path.is_dir() for path in beside):
        return str(folder.resolve())
    (links / "autosparse").mkdir(parents=True)
    for path in [*(folder.resolve() / "autosparse").iterdir(), *beside]:
        (links / "autosparse" / path.name).symlink_to(path)
    return str(links)


def rounds_of(kind: str, arguments: argparse.Namespace, paths: list[str], caches: str) -> list[dict[str, Times]]:
    """Return the measurements of each side by its name, a dictionary per round; the sides take turns to go first."""
    folders = {"old": arguments.old, "new": arguments.new, "again": arguments.old}
    groups = [[path] for path in paths] if kind == "tuned" else [paths]
    chosen = {name: OPERATIONS[name] for name in arguments.operations}
    isa = {} if arguments.isa is None else {"AUTOSPARSE_ISA": arguments.isa}
    found: list[dict[str, Times]] = []
    for n in range(arguments.rounds or ROUNDS[kind]):
        sides: dict[str, Times] = {name: {} for name in SIDES}
        for group in groups:
            request = {"paths": group, "dtypes": arguments.dtypes, "operations": chosen}
            for name in [*SIDES[n % 3 :], *SIDES[: n % 3]]:
                environment = isa | {"AUTOSPARSE_CACHE_DIR": f"{caches}/{name}"}
                for row, times in measured(kind, folders[name], request, environment).items():
                    sides[name].setdefault(row, {}).update(times)
        found.append(sides)
    return found


def ratio_of(rounds: list[dict[str, Times]], kind: str, path: str, side: str) -> float:
    """Return the old version's time over that of `side`, from medians over rounds."""
    old, other = ([one[name][kind][path] for one in rounds] for name in ("old", side))
    return statistics.median(old) / statistics.median(other)


def interval_of(rounds: list[dict[str, Times]], kind: str, path: str) -> tuple[float, float]:
    """Return the 5th and 95th percentile of old time over new time over bootstrap draws of the rounds."""
    rng, n = random.Random(0), len(rounds)
    old, new = ([one[name][kind][path] for one in rounds] for name in ("old", "new"))
    ratios = sorted(
        statistics.median(rng.choices(old, k=n)) / statistics.median(rng.choices(new, k=n)) for _ in range(N_DRAWS)
    )
    return ratios[N_DRAWS // 20], ratios[-N_DRAWS // 20]


def lines_of(rounds: list[dict[str, Times]]) -> list[dict[str, Any]]:
    """Return old time over new time of each kind of measurement: geometric mean, minimum and maximum over matrices.

    `again` is the geometric mean of the old version's times over those of its second run.
    """
    lines: list[dict[str, Any]] = []
    for kind, times in rounds[0]["old"].items():
        ratios, again = ({path: ratio_of(rounds, kind, path, side) for path in times} for side in ("new", "again"))
        least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        lines.append({
            "kind": kind, "n": len(ratios), "geomean": geomean(ratios.values()), "again": geomean(again.values()),
            "least": ratios[least], "most": ratios[most], "least_of": Path(least).name, "most_of": Path(most).name,
            "matrices": [
                {"name": Path(path).name, "ratio": ratios[path], "again": again[path],
                 "interval": interval_of(rounds, kind, path)} for path in times
            ],
        })  # fmt: skip
    return lines


def geomean(values: Any) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def chosen(folder: Path, count: int) -> list[str]:
    """Return every n-th of the smaller matrices, by size."""
    files = [path for path in folder.resolve().rglob("*") if path.suffix in (".npz", ".mtx")]
    files = sorted((path for path in files if path.stat().st_size <= MAX_BYTES), key=lambda path: path.stat().st_size)
    return [str(path) for path in files[:: max(1, len(files) // count)]][:count]


def shown(line: dict[str, Any], *, per_matrix: bool) -> str:
    """Return a line of measurements as text, and one for each of its matrices where that is wanted."""
    text = "{kind:44s} {n:3d}  old/new {geomean:.3f}  old/old {again:.3f}  "
    text += "({least:.3f} {least_of} to {most:.3f} {most_of})"
    lines = [text.format(**line)]
    for one in line["matrices"] if per_matrix and line["matrices"][0]["name"] else ():
        low, high = one["interval"]
        mark = f"  below {ENOUGH}" if high < ENOUGH else ""
        lines.append(
            f"    {one['name']:40s} {one['ratio']:.3f}  ({low:.3f} to {high:.3f})  old/old {one['again']:.3f}{mark}"
        )
    return "\n".join(lines)


def arguments_of(texts: list[str] | None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("old")
    add("new")
    add("--matrices", type=Path, required=True)
    add("--count", type=int, default=24)
    add("--only", choices=list(CHILDREN), nargs="+", default=["small", "untuned"])
    add("--operations", choices=[*OPERATIONS, "all"], nargs="+", default=["spmv", "spmm32"])
    add("--dtypes", choices=["float32", "float64"], nargs="+", default=["float32"])
    add("--isa", help="value of AUTOSPARSE_ISA, such as avx2")
    add("--rounds", type=int, help="number of processes of each side (default: 9 small, 3 untuned, 1 tuned)")
    add("--per-matrix", action="store_true", help="print a line for each matrix")
    add("--cache", help="persistent folder of kernels and plans; needed for `--warm`")
    add("--warm", action="store_true", help="compile the kernels of tuned products, and print nothing")
    add("--json", type=Path, help="append the lines to this file")
    found = parser.parse_args(texts)
    if "all" in found.operations:
        found.operations = list(OPERATIONS)
    return found


def main(texts: list[str] | None = None) -> None:
    """Measure and print."""
    arguments = arguments_of(texts)
    paths = chosen(arguments.matrices, arguments.count)
    with tempfile.TemporaryDirectory() as own:
        arguments.old, arguments.new = (
            whole_package(Path(getattr(arguments, side)), Path(own, "packages", side)) for side in ("old", "new")
        )
        for kind in arguments.only:
            lines = lines_of(rounds_of(kind, arguments, paths, str(Path(arguments.cache or own).resolve())))
            if arguments.warm:
                continue
            for line in lines:
                print(shown(line, per_matrix=arguments.per_matrix), flush=True)
            if arguments.json:
                with arguments.json.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps({**line, "isa": arguments.isa}) + "\n" for line in lines)


if __name__ == "__main__":
    main()
