"""Compare two versions of autosparse: products of each in fresh processes, in alternation.

    python benchmarks/two_versions.py OLD NEW --matrices FOLDER [--count 24] [--json FILE]
    python benchmarks/two_versions.py OLD NEW --matrices FOLDER --only tuned --cache FOLDER [--warm]

OLD and NEW are folders that hold a package `autosparse` with its compiled runtime. The script prints one line per kind
of measurement: the geometric mean over matrices of old time / new time, so that more than 1 is faster. Kinds are in
three groups: `small` (costs of a call and a process), `untuned`, and `tuned` (by measuring, with 1 and 32 columns).
`--warm` compiles the kernels of tuned products beforehand and reports nothing, so that it can run on a busy machine;
plans are always searched anew. Dense operands begin 16 bytes after a cache line in both versions, because the alignment
of a small operand changes the time of a product with 32 columns by about a third.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 8 << 20
"""Maximum size of a file; every n-th of the smaller ones is taken, by size."""
ROUNDS: Final = {"small": 9, "untuned": 3, "tuned": 1}
"""Number of processes of each version; tuned ones alternate for every matrix."""
BEGIN: Final = """
import json, sys, time
import numpy as np, scipy.io, scipy.sparse as sps
start = time.perf_counter()
import autosparse as asp
asp.csr(sps.eye_array(3, format="csr")) @ np.ones(3)
first_s = time.perf_counter() - start
out = {}
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
def matrix(path):
    m = sps.load_npz(path) if path.endswith(".npz") else scipy.io.mmread(path)
    return sps.csr_array(m).astype(np.float32)
def operand(m, n):
    room = np.ones(m.shape[1] * n + 32, np.float32)
    late = -(room.ctypes.data - 16) % 64 // 4  # 16 bytes behind a cache line, where NumPy's large arrays begin
    flat = room[late:late + m.shape[1] * n]
    return flat.reshape(m.shape[1], n) if n > 1 else flat
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
for path in sys.argv[1:]:
    m = matrix(path)
    for n in (1, 32):
        A, B = asp.csr(m, copy=True), operand(m, n)
        out.setdefault(f"untuned, {n} columns", {})[path] = median(lambda: A @ B)
""",
    "tuned": """
from autosparse import cache
cache.open_store().forget(["plan", "history"])
for path in sys.argv[1:]:
    m = matrix(path)
    for n in (1, 32):
        A, B = asp.csr(m, copy=True), operand(m, n)
        A.tune(columns=n, effort="measure")
        for _ in range(5): A @ B
        out.setdefault(f"tuned, {n} columns", {})[path] = median(lambda: A @ B)
""",
}


def measured(kind: str, folder: str, paths: list[str], cache: str | None) -> dict[str, dict[str, float]]:
    """Return the medians of one fresh process, in seconds."""
    environment = {**os.environ, "PYTHONPATH": folder}
    if cache is not None:
        environment["AUTOSPARSE_CACHE_DIR"] = cache
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + CHILDREN[kind] + "print(json.dumps(out))", *paths],
        env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


Round = tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]


def rounds_of(kind: str, arguments: argparse.Namespace, paths: list[str]) -> list[Round]:
    """Return the measurements of both versions, which alternate."""
    caches = [None, None] if arguments.cache is None else [f"{arguments.cache}/{one}" for one in ("old", "new")]
    folders = list(zip((arguments.old, arguments.new), caches, strict=True))
    groups = [[path] for path in paths] if kind == "tuned" else [paths]
    found: list[Round] = []
    for n in range(ROUNDS[kind]):
        old: dict[str, dict[str, float]] = {}
        new: dict[str, dict[str, float]] = {}
        for group in groups:
            sides = [(old, folders[0]), (new, folders[1])]
            for kept, (folder, cache) in sides[:: 1 if n % 2 == 0 else -1]:
                for name, times in measured(kind, folder, group, cache).items():
                    kept.setdefault(name, {}).update(times)
        found.append((old, new))
    return found


def lines_of(rounds: list[Round]) -> list[dict[str, object]]:
    """Return old time over new time of each kind of measurement: geometric mean, minimum and maximum over matrices."""
    lines: list[dict[str, object]] = []
    for kind in rounds[0][0]:
        ratios = {
            path: statistics.median(old[kind][path] for old, _ in rounds)
            / statistics.median(new[kind][path] for _, new in rounds)
            for path in rounds[0][0][kind]
        }
        geomean = math.exp(statistics.fmean(map(math.log, ratios.values())))
        least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        lines.append({
            "kind": kind, "n": len(ratios), "geomean": geomean, "least": ratios[least], "most": ratios[most],
            "least_of": Path(least).name, "most_of": Path(most).name,
        })  # fmt: skip
    return lines


def chosen(folder: Path, count: int) -> list[str]:
    """Return every n-th of the smaller matrices, by size."""
    files = [path for path in folder.rglob("*") if path.suffix in (".npz", ".mtx")]
    files = sorted((path for path in files if path.stat().st_size <= MAX_BYTES), key=lambda path: path.stat().st_size)
    return [str(path) for path in files[:: max(1, len(files) // count)]][:count]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--matrices", type=Path, required=True)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--only", choices=list(CHILDREN), nargs="+", default=["small", "untuned"])
    parser.add_argument("--cache", help="persistent folder of kernels and plans; needed for `--warm`")
    parser.add_argument("--warm", action="store_true", help="compile the kernels of tuned products, and print nothing")
    parser.add_argument("--json", type=Path, help="append the lines to this file")
    arguments = parser.parse_args()
    paths = chosen(arguments.matrices, arguments.count)
    for kind in arguments.only:
        lines = lines_of(rounds_of(kind, arguments, paths))
        if arguments.warm:
            continue
        for line in lines:
            text = "{kind:44s} {n:3d}  old/new {geomean:.3f}  ({least:.3f} {least_of} to {most:.3f} {most_of})"
            print(text.format(**line), flush=True)
        if arguments.json:
            with arguments.json.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
