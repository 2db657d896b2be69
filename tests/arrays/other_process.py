"""A second process that writes to arrays in memory that it shares with the test process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import shared_memory
from typing import Any

import numpy as np

PROGRAM = """
import sys
from multiprocessing import resource_tracker, shared_memory
import numpy as np

held = {}
for line in sys.stdin:
    word, *rest = line.split()
    if word == "open":
        name, dtype, n, bound = rest
        memory = held[name] = shared_memory.SharedMemory(name)
        resource_tracker.unregister(memory._name, "shared_memory")  # it belongs to the other process
    elif word == "write":
        name, dtype, n, bound, seed = rest
        array = np.ndarray(int(n), dtype, held[name].buf)
        rng = np.random.default_rng(int(seed))
        array[:] = rng.integers(0, int(bound), array.size) if array.dtype.kind == "i" else rng.random(array.size)
        del array
    elif word == "close":
        for memory in held.values():
            memory.close()
        held.clear()
    print("done", flush=True)
"""


class OtherProcess:
    """Handle of the second process and of this process's arrays in shared memory."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._memory: dict[str, shared_memory.SharedMemory] = {}
        self._facts: dict[str, tuple[str, str, int, int]] = {}
        self.arrays: dict[str, Any] = {}

    def share(self, m: Any) -> None:
        """Put the arrays of a compressed matrix in shared memory, and free the arrays that were there."""
        self.close()
        for name in ("data", "indices", "indptr"):
            source = getattr(m, name)
            memory = self._memory[name] = shared_memory.SharedMemory(create=True, size=source.nbytes)
            array = self.arrays[name] = np.ndarray(source.size, source.dtype, memory.buf)
            array[:] = source
            self._facts[name] = memory.name, source.dtype.str, source.size, m.shape[1]
            self._order("open", *self._facts[name])

    def write(self, name: str, seed: int) -> None:
        """Let the second process write random values, or random indices within the shape."""
        self._order("write", *self._facts[name], seed)

    def close(self) -> None:
        """Free the shared memory."""
        self._order("close")
        self.arrays.clear()
        for memory in self._memory.values():
            memory.unlink()
        self._memory.clear()

    def _order(self, *words: object) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        assert stdout.readline() == "done\n"


@contextmanager
def other_process() -> Iterator[OtherProcess]:
    """Run the second process while the block lasts."""
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        other = OtherProcess(process)
        yield other
        other.close()
        assert process.stdin is not None
        process.stdin.close()
