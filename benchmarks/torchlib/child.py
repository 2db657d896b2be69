"""Child process of torch_programs.py: prepare one program and fork a process for each run of it.

    python -m torchlib.child NAME DTYPE THREADS TOY

It reads tab-separated lines "WAY CACHE ANSWER" (a way of `torchlib.race.WAYS` or "stock", a folder for plans, a file
for the answer) and writes one line of JSON for each. PyTorch is imported and the inputs are made once, on one thread,
because threads do not survive a fork. The forked process imports autosparse if its way needs it, and runs all steps.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from torchlib.catalogue import PROGRAMS
from torchlib.program import Step


def in_the_way(way: str, step: Step) -> Step:
    """Return `step` as it is called in this way, after untimed preparations."""
    if way == "stock":
        return step
    import autosparse.torch as asp

    if way == "global":
        asp.install()
        return step
    if way == "step":

        def each() -> torch.Tensor:
            with asp.override():
                return step()

        return each
    with asp.override():  # "outside": the kernels are registered, and no product is inside a block
        pass
    return step


def prepared(name: str, dtype: torch.dtype, *, toy: bool) -> Step:
    """Return the program's step with newly made inputs."""
    torch.manual_seed(0)
    return PROGRAMS[name].prepare(dtype, toy)


def displaced() -> list[torch.Tensor]:
    """Allocate tensors of random sizes, so that the results of each run lie at other addresses.

    The place of a result relative to the operands changes the time of a small product by a quarter. Without this, a
    variant would have the same place in all rounds, and another variant another place.
    """
    return [torch.empty(random.randrange(1, 1 << 12)) for _ in range(16)]  # 4 B to 16 kB each


def timed(step: Step, way: str, dtype: torch.dtype, n_steps: int) -> tuple[dict[str, float], np.ndarray]:
    """Return the figures of one run and its answer; imports and small products are not timed."""
    step = in_the_way(way, step)
    small = torch.eye(4, dtype=dtype).to_sparse_csr()
    if way != "step":  # outside its blocks, MKL would compute them and keep memory that the steps never use
        small @ torch.ones(4, dtype=dtype), small @ torch.ones(4, 2, dtype=dtype)
    torch.ones(1 << 17).add_(1)  # starts the threads of PyTorch's pool
    kept = displaced()
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    for _ in range(n_steps):
        answer = step()
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    del kept
    return {"wall_s": wall_s, "cpu_s": cpu_s, "peak_mb": peak_mb}, answer.detach().clone().double().numpy()


def mapped_pages() -> list[int]:
    """Return the addresses of the pages of files that this process has mapped; none if the system does not tell."""
    try:
        table = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        with Path("/proc/self/pagemap").open("rb") as stream:
            return [address for line in table if "/" in line for address in _present(line, stream)]
    except OSError:
        return []


def _present(line: str, stream: BinaryIO) -> Iterator[int]:
    """Yield the addresses of mapped and readable pages of one line of the system's table."""
    span, rights = line.split(maxsplit=2)[:2]
    start, end = (int(address, 16) // mmap.PAGESIZE for address in span.split("-"))
    if rights.startswith("r"):
        stream.seek(8 * start)
        entries = np.frombuffer(stream.read(8 * (end - start)), np.uint64)
        for place in (entries >> np.uint64(63)).nonzero()[0].tolist():  # the highest bit: the page is present
            yield (start + place) * mmap.PAGESIZE


def run(name: str, way: str, dtype: torch.dtype, *, toy: bool) -> tuple[dict[str, float], np.ndarray]:
    """Prepare and run a program in this process."""
    return timed(prepared(name, dtype, toy=toy), way, dtype, 3 if toy else PROGRAMS[name].steps)


def forked(step: Step, way: str, dtype: torch.dtype, *, n_steps: int, threads: int, answer: Path) -> str:
    """Run a step in a forked process; return its line of figures, or an empty string if it failed."""
    reading, writing = os.pipe()
    pages = mapped_pages()
    child = os.fork()
    if not child:
        status = 1
        try:
            random.seed()  # the fork has the parent's state
            for address in pages:  # a fork maps no pages of files before it reads them
                ctypes.string_at(address, 1)
            torch.set_num_threads(threads)
            figures, found = timed(step, way, dtype, n_steps)
            np.save(answer, found)
            figures["whole_cpu_s"] = time.process_time()
            os.write(writing, json.dumps(figures).encode())
            status = 0
        except BaseException:  # noqa: BLE001  the child must never return to the loop of its parent
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as stream:
        line = stream.read()
    _, status = os.waitpid(child, 0)
    return line if status == 0 else ""


def main(given: list[str]) -> int:
    """Serve runs until stdin ends."""
    name, dtype_name, threads, toy = given
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dtype = getattr(torch, dtype_name)
    step = prepared(name, dtype, toy=toy == "1")
    print("ready", flush=True)
    for line in sys.stdin:
        way, cache, answer = line.rstrip("\n").split("\t")
        os.environ["AUTOSPARSE_CACHE_DIR"] = cache
        n_steps = 3 if toy == "1" else PROGRAMS[name].steps
        print(forked(step, way, dtype, n_steps=n_steps, threads=int(threads), answer=Path(answer)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
