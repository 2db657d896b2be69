"""Print upper bounds of the gain of programs: the share of time in methods of SciPy that autosparse replaces.

    OPENBLAS_NUM_THREADS=1 python -m programlib.shares fit_nmf fit_ridge        # in benchmarks/

Each program runs once with `scipy.sparse`, in a fresh process. Outermost calls of methods of csr and csc objects are
timed, by the processor time of the main thread, which other programs do not change. Products with a matrix that is
SciPy's with autosparse too, such as the result of `dia_array @ A`, are left out. If these methods take a share s of the
time, a program becomes at most 1 / (1 - s) times as fast (Amdahl), and 1 / (1 - s + s / GAIN) if they are GAIN times as
fast as SciPy's.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import scipy.sparse as sps
from peerlib.table import markdown, seconds

from programlib.catalogue import PROGRAMS

CLASSES: Final = (sps.csr_array, sps.csr_matrix, sps.csc_array, sps.csc_matrix)
OTHERS: Final = (sps.dia_array, sps.dia_matrix, sps.coo_array, sps.coo_matrix, sps.bsr_array, sps.bsr_matrix)
LEFT_OUT: Final = ("__init__", "__new__", "__getattr__", "__setattr__", "__repr__")
"""Methods that are not wrapped, because every object calls them."""
PRODUCTS: Final = ("__matmul__", "__mul__", "dot")
GAIN: Final = 4.0
"""Gain of the replaced methods in the second bound."""


@dataclass
class Clock:
    """Total time of outermost calls of wrapped methods."""

    seconds: float = 0.0
    is_inside: bool = False
    of_scipy: list[Any] = field(default_factory=list)  # products that have SciPy's class with autosparse too

    def wrapped(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return the method with its time counted."""

        @functools.wraps(method)
        def call(made: Any, *args: Any, **how: Any) -> Any:
            if self.is_inside:
                return method(made, *args, **how)
            is_ours = isinstance(made, CLASSES) and all(made is not one for one in self.of_scipy)
            self.is_inside, start_s = True, time.thread_time()
            try:
                found = method(made, *args, **how)
            finally:
                self.is_inside = False
                self.seconds += (time.thread_time() - start_s) * is_ours
            if name in PRODUCTS and not is_ours and sps.issparse(found):
                self.of_scipy.append(found)
            return found

        return call

    def wrap_all(self) -> None:
        """Wrap the methods of SciPy's classes, in the classes that define them."""
        bases = {base for cls in (*CLASSES, *OTHERS) for base in cls.__mro__ if "scipy.sparse" in base.__module__}
        for base in bases:
            for name, method in list(vars(base).items()):
                if inspect.isfunction(method) and name not in LEFT_OUT:
                    setattr(base, name, self.wrapped(method, name))


def measured(name: str) -> dict[str, Any]:
    """Run the program once with SciPy and return its seconds and the share of replaced methods."""
    program, clock = PROGRAMS[name], Clock()
    for module in program.modules:
        importlib.import_module(module)
    inputs = program.prepare(False)
    clock.wrap_all()
    start_s = time.thread_time()
    program.run(sps, **inputs)
    total_s = time.thread_time() - start_s
    return {"name": name, "what": program.what, "total_s": total_s, "share": clock.seconds / total_s}


def bounds(share: float) -> tuple[float, float]:
    """Return the greatest gain of the program, and the gain if the replaced methods are GAIN times as fast."""
    return 1 / max(1 - share, 1e-9), 1 / (1 - share + share / GAIN)


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the table and the geometric means of the bounds."""
    rows, logs = [], [0.0, 0.0]
    for one in records:
        found = bounds(one["share"])
        logs = [total + math.log(bound) for total, bound in zip(logs, found, strict=True)]
        figures = (seconds(one["total_s"]), f"{one['share']:.1%}", *(f"{bound:.2f}" for bound in found))
        rows.append([one["name"], one["what"], *figures])
    header = ["program", "what", "SciPy", "share", "bound", f"bound at {GAIN:.0f} x"]
    means = [math.exp(total / len(records)) for total in logs]
    return f"{markdown([header, *rows])}\n\nGeometric means of the bounds: {means[0]:.2f}, {means[1]:.2f}."


def main(given: Sequence[str]) -> int:
    """Print the table of the programs, or one record for `--one NAME`."""
    if given[:1] == ["--one"]:
        print(json.dumps(measured(given[1])))
        return 0
    records = []
    for name in given:
        command = [sys.executable, "-m", "programlib.shares", "--one", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        records.append(json.loads(done.stdout))
    print(table(records))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
