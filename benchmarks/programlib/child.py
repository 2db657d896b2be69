"""Child process of programs.py: prepare an input, or run one program once with one library.

    python -m programlib.child prepare NAME INPUT
    python -m programlib.child run NAME INPUT LIBRARY ANSWER [MEGABYTES]
    python -m programlib.child profile NAME LIBRARY [ORDER]

`run` prints one line of JSON. Its clock starts after the imports that both libraries share and after reading the input;
it includes the import of the library. Just before, another process touches and frees the given megabytes of memory, for
the reason that `programlib.race` gives.
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
    """Write to every page of this much memory in another process, so that the peak of this one does not change."""
    subprocess.run([sys.executable, "-I", "-S", "-c", TOUCH, str(megabytes)], check=True)


def as_arrays(answer: object) -> list[np.ndarray]:
    """Return the arrays of an answer, which is one array or a tuple of arrays."""
    return [np.asarray(one) for one in (answer if isinstance(answer, tuple) else (answer,))]


def prepare(name: str, path: Path) -> None:
    """Store the inputs of the program in a file."""
    with path.open("wb") as stream:
        pickle.dump(dict(PROGRAMS[name].prepare(False)), stream, protocol=5)


def run(name: str, path: Path, library: str, answer: Path, touched_mb: int = 0) -> dict[str, float]:
    """Run the program once, store its answer in a file, and return its times."""
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
    """Print the time of one run by function."""
    program = PROGRAMS[name]
    for module in ("scipy.sparse", *program.modules):
        importlib.import_module(module)
    inputs = program.prepare(False)
    profiler = cProfile.Profile()
    profiler.runcall(lambda: program.run(importlib.import_module(library), **inputs))
    pstats.Stats(profiler).sort_stats(order).print_stats(40)


def main(given: list[str]) -> int:
    """Run the command of the command line."""
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
