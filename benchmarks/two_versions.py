"""Compare two versions of autosparse: products of each in fresh processes, in turns.

    python benchmarks/two_versions.py OLD NEW --matrices FOLDER [--count 24] [--json FILE]

OLD and NEW are folders that hold a package `autosparse` with its compiled runtime. Prints one line per kind of
measurement: the geometric mean over matrices of old time / new time, so that more than 1 is faster.
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

ROUNDS: Final = 3
MOST_BYTES: Final = 8 << 20
"""Of a file: every n-th of the smaller ones is taken, by size."""
CHILD: Final = """
import json, sys, time
import numpy as np, scipy.io, scipy.sparse as sps
start = time.perf_counter()
import autosparse as asp
asp.csr(sps.eye_array(3, format="csr")) @ np.ones(3)
first_s = time.perf_counter() - start
out = {"first product in a process": {"": first_s}}
def median(run, least=9, seconds=0.03):
    run(); times = []
    end = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        begin = time.perf_counter(); run(); times.append(time.perf_counter() - begin)
    return float(np.median(times))
with asp.options(effort="off"):
    small = asp.csr(sps.random_array((100, 100), density=0.03, format="csr", rng=np.random.default_rng(0)))
    x = np.ones(100)
    for _ in range(6000): small @ x
    out["steady product of 300 entries"] = {"": median(lambda: small @ x)}
    for path in sys.argv[1:]:
        m = sps.csr_array(sps.load_npz(path) if path.endswith(".npz") else scipy.io.mmread(path)).astype(np.float32)
        for n in (1, 32):
            A = asp.csr(m, copy=True)
            B = np.ones((m.shape[1], n), np.float32) if n > 1 else np.ones(m.shape[1], np.float32)
            out.setdefault(f"untuned, {n} columns", {})[path] = median(lambda: A @ B)
print(json.dumps(out))
"""


def measured(folder: str, paths: list[str]) -> dict[str, dict[str, float]]:
    """Medians of one fresh process, in seconds."""
    environment = {**os.environ, "PYTHONPATH": folder}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *paths], env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--matrices", type=Path, required=True)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    files = sorted(
        (path for path in arguments.matrices.rglob("*") if path.suffix in (".npz", ".mtx")),
        key=lambda path: path.stat().st_size,
    )
    files = [path for path in files if path.stat().st_size <= MOST_BYTES]
    paths = [str(path) for path in files[:: max(1, len(files) // arguments.count)]][: arguments.count]
    rounds = [(measured(arguments.old, paths), measured(arguments.new, paths)) for _ in range(ROUNDS)]
    lines = []
    for kind in rounds[0][0]:
        ratios = [
            statistics.median(old[kind][one] for old, _ in rounds)
            / statistics.median(new[kind][one] for _, new in rounds)
            for one in rounds[0][0][kind]
        ]
        geomean = math.exp(statistics.fmean(map(math.log, ratios)))
        lines.append({"kind": kind, "n": len(ratios), "geomean": geomean, "least": min(ratios), "most": max(ratios)})
        print(f"{kind:32s} {len(ratios):3d}  old/new {geomean:.3f}  ({min(ratios):.3f} to {max(ratios):.3f})")
    if arguments.json:
        arguments.json.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
