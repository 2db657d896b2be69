"""Lines of the library by capability at some commits: the table of benchmarks/results/size_of_the_library.md.

    python tools/library_size.py 4430c2c HEAD

Counts lines of .py, .c and .h files, blank ones and comments too. The path of a file says what it is for, whatever
folder it was in at the time; what no rule names is "everything else".
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

LIBRARY = re.compile(r"(autosparse|_native|tuner|cache)/.*\.(py|c|h)$")
ELSE = "everything else, the rearranged code"
RULES = (
    ("text of the kernels compiled at installation, generated", r"runtime/shipped/shipped_avx"),
    ("kernels compiled at installation, without their text", r"runtime/shipped/|kernels/shipped\.py"),
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
    ("pool: cycles of a program's calls", r"threads/(cycles|company|pool)|runtime/(pool|cycles)"),
    ("command line, pages and reports", r"autosparse/cli/|explain/(page|cache_report)|arrays/page"),
    (
        "training and collecting",
        r"tuner/(collect|training|networks)|collecting|generators|tuner/(.*/)?(coordinates|ranking|boosting|pool|steps)\.py",
    ),
)
"""Capability -> paths, the first that fits."""


def capability_of(path: str) -> str:
    """What the file is for."""
    return next((name for name, pattern in RULES if re.search(pattern, path)), ELSE)


def lines_of(commit: str) -> Counter[str]:
    """Lines by capability."""
    listed = subprocess.run(["git", "ls-tree", "-r", commit], capture_output=True, text=True, check=True).stdout
    blobs = {path: facts.split()[2] for facts, path in (line.split("\t") for line in listed.splitlines())}
    found: Counter[str] = Counter()
    for path, blob in blobs.items():
        if LIBRARY.match(path):
            text = subprocess.run(["git", "cat-file", "blob", blob], capture_output=True, check=True).stdout
            found[capability_of(path)] += text.count(b"\n")
    return found


def main(commits: list[str]) -> None:
    """Print the table."""
    counts = [lines_of(commit) for commit in commits]
    names = [name for name, _ in RULES[1:]] + [ELSE]
    print(f"| capability | {' | '.join(commits)} |\n|---|{'---|' * len(commits)}")
    for name in names:
        print(f"| {name} | {' | '.join(f'{one[name]:,}' for one in counts)} |")
    print(
        f"| **all that is written by hand** | {' | '.join(f'**{sum(one[n] for n in names):,}**' for one in counts)} |"
    )
    print(f"| {RULES[0][0]} | {' | '.join(f'{one[RULES[0][0]]:,}' for one in counts)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
