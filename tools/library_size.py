"""Print the table of benchmarks/results/size_of_the_library.md: lines of the library by capability at given commits.

    python tools/library_size.py 4430c2c HEAD

Lines of .py, .c and .h files are counted, including blank lines and comments. `RULES` assign a file to a capability by
its path, in the folder layouts of all commits. A file that no rule matches is counted as "everything else".
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

LIBRARY = re.compile(r"(autosparse|_native|tuner|cache)/.*\.(py|c|h)$")
ELSE = "everything else"
RULES = (
    ("kernels compiled at installation", r"runtime/(write_)?shipped|kernels/shipped"),
    ("GPU kernels: Triton, CUDA tensors, their space and model", r"autosparse/(gpu|cuda)/|_native/triton/|tuner/gpu/"),
    ("Dask", r"autosparse/dask/"),
    ("`einsum` over several sparse operands", r"/contraction/|ops/einsum|autograd/einsum|explain/program"),
    (
        "composite plans: parts, tiles, blocks, their space and costs",
        r"composite|hybrid|spmm/near|parts|/tiles|_native/tiles|tile_lists|blocks|sweeps|part_times|cost_table|calibration/primitives",
    ),
    ("values by number", r"numbered"),
    (
        "target hardware: accelerators, transfer, calibration",
        r"tuner/(targets|transfer|calibration)/|autosparse/calibration|accelerator|cli/(calibrate|transfer)|calibrating",
    ),
    ("thread pool and call-interval tuner", r"threads/(call_intervals|concurrent_callers|pool)"),
    ("command line, pages and reports", r"autosparse/cli/|explain/(page|cache_report)|arrays/page"),
    (
        "training and collecting",
        r"tuner/(collect|training|networks)|collecting|generators|tuner/(.*/)?(coordinates|ranking|boosting|pool|steps)\.py",
    ),
)
"""Capabilities and the regular expressions of their paths; the first match decides."""


def capability_of(path: str) -> str:
    """Return the capability of the file at `path`."""
    return next((name for name, pattern in RULES if re.search(pattern, path)), ELSE)


def lines_of(commit: str) -> Counter[str]:
    """Count lines by capability at `commit`."""
    listed = subprocess.run(["git", "ls-tree", "-r", commit], capture_output=True, text=True, check=True).stdout
    blobs = {path: facts.split()[2] for facts, path in (line.split("\t") for line in listed.splitlines())}
    found: Counter[str] = Counter()
    for path, blob in blobs.items():
        if LIBRARY.match(path):
            text = subprocess.run(["git", "cat-file", "blob", blob], capture_output=True, check=True).stdout
            found[capability_of(path)] += text.count(b"\n")
    return found


def main(commits: list[str]) -> None:
    """Print the table of `commits`."""
    counts = [lines_of(commit) for commit in commits]
    names = [name for name, _ in RULES[1:]] + [ELSE]
    print(f"| capability | {' | '.join(commits)} |\n|---|{'---|' * len(commits)}")
    for name in names:
        print(f"| {name} | {' | '.join(f'{one[name]:,}' for one in counts)} |")
    print(
        f"| **total without generated code** | {' | '.join(f'**{sum(one[n] for n in names):,}**' for one in counts)} |"
    )
    print(f"| {RULES[0][0]} | {' | '.join(f'{one[RULES[0][0]]:,}' for one in counts)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
