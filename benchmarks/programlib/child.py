"""The process that prepares an input or runs one program once with one library, and nothing else.

python -m programlib.child prepare NAME INPUT
python -m programlib.child run NAME INPUT LIBRARY ANSWER [MEGABYTES]
python -m programlib.child profile NAME LIBRARY [ORDER]

Prints one line of JSON. The clock starts after the imports that both libraries share and the reading of the input; it
counts the import of the library. Right before it starts, another process touches and frees so many megabytes of memory:
`programlib.race` says why.
"""

from __future__ import annotations

import cProfile
import importlib
import json
import pickle
import pstats
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from programlib.catalogue import PROGRAMS

TOUCH: Final = """
import mmap, sys
with mmap.mmap(-1, int(sys.argv[1]) << 20) as memory:
    if hasattr(memory, "madvise") and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    memory[:: mmap.PAGESIZE] = bytes(len(memory) // mmap.PAGESIZE)
"""


def touch_memory(megabytes: int) -> None:
    """Write to every page of so much memory in another process, which frees it: this one's peak stays as it was."""
    subprocess.run([sys.executable, "-I", "-S", "-c", TOUCH, str(megabytes)], check=True)


def as_arrays(answer: object) -> list[np.ndarray]:
    """The arrays of an answer: itself, or each of a tuple."""
    return [np.asarray(one) for one in (answer if isinstance(answer, tuple) else (answer,))]


def prepare(name: str, path: Path) -> None:
    """Keep the inputs of the program in a file."""
    with path.open("wb") as stream:
        pickle.dump(dict(PROGRAMS[name].prepare(False)), stream, protocol=5)


def run(name: str, path: Path, library: str, answer: Path, touched_mb: int = 0) -> dict[str, float]:
    """Run the program once; its answer goes to a file, its times are returned."""
    program = PROGRAMS[name]
    for module in ("scipy.sparse", *program.modules):
        importlib.import_module(module)
    with path.open("rb") as stream:
        inputs = pickle.load(stream)  # noqa: S301 (written by our own parent)
    assert "autosparse" not in sys.modules, "the import of the library must be timed"
    if touched_mb:
        touch_memory(touched_mb)
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    found = program.run(importlib.import_module(library), **inputs)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    np.savez(answer, *as_arrays(found))
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"wall_s": wall_s, "cpu_s": cpu_s, "peak_mb": used.ru_maxrss / 1024, "switches": used.ru_nivcsw}


def profile(name: str, library: str, order: str = "tottime") -> None:
    """Print where one run spends its time, by function."""
    program = PROGRAMS[name]
    for module in ("scipy.sparse", *program.modules):
        importlib.import_module(module)
    inputs = program.prepare(False)
    profiler = cProfile.Profile()
    profiler.runcall(lambda: program.run(importlib.import_module(library), **inputs))
    pstats.Stats(profiler).sort_stats(order).print_stats(40)


def main(given: list[str]) -> int:
    """The command line."""
    if given[0] == "prepare":
        prepare(given[1], Path(given[2]))
        return 0
    if given[0] == "profile":
        profile(*given[1:])
        return 0
    print(json.dumps(run(given[1], Path(given[2]), given[3], Path(given[4]), *map(int, given[5:]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
