"""The process that runs one program once in one way, and nothing else.

python -m torchlib.child NAME WAY DTYPE THREADS TOY ANSWER

WAY is one of `torchlib.race.WAYS`. Prints one line of JSON. Imports, inputs and one small product are not timed.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from torchlib.catalogue import PROGRAMS
from torchlib.program import Step


def in_the_way(way: str, step: Step) -> Step:
    """`step` as it is called in this way; what has to be done before the clock starts is done."""
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


def run(name: str, way: str, dtype: torch.dtype, *, toy: bool) -> tuple[dict[str, float], np.ndarray]:
    """Figures of one run, and its answer."""
    program = PROGRAMS[name]
    torch.manual_seed(0)
    step = in_the_way(way, program.prepare(dtype, toy))
    small = torch.eye(4, dtype=dtype).to_sparse_csr()
    small @ torch.ones(4, dtype=dtype), small @ torch.ones(4, 2, dtype=dtype)
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    for _ in range(3 if toy else program.steps):
        answer = step()
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"wall_s": wall_s, "cpu_s": cpu_s, "peak_mb": peak_mb}, answer.detach().clone().double().numpy()


def main(given: list[str]) -> int:
    """The command line."""
    name, way, dtype, threads, toy, path = given
    torch.set_num_threads(int(threads))
    warnings.simplefilter("ignore")
    figures, answer = run(name, way, getattr(torch, dtype), toy=toy == "1")
    np.save(Path(path), answer)
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
