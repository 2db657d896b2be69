"""Both libraries in turns, each run a fresh process with a fresh cache; every answer is compared."""

from __future__ import annotations

import compileall
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib.environment import child_environment

from programlib.program import Program

LIBRARIES: Final = ("scipy.sparse", "autosparse")
PACKAGES: Final = ("autosparse", "autosparse.tuner", "autosparse.cache", "autosparse._native")
BENCHMARKS: Final = Path(__file__).resolve().parents[1]


class WrongAnswerError(AssertionError):
    """The two libraries do not agree."""


class ProgramFailedError(RuntimeError):
    """A program ended with an error."""


def compare(name: str, theirs: Sequence[np.ndarray], ours: Sequence[np.ndarray], rtol: float) -> float:
    """The largest difference of an array relative to its norm; WrongAnswerError when it is above `rtol`."""
    worst = 0.0
    for expected, found in zip(theirs, ours, strict=True):
        if expected.shape != found.shape or not np.isfinite(found).all():
            raise WrongAnswerError(f"{name}: shape {found.shape} for {expected.shape}, or not finite")
        largest = float(np.abs(expected).max(initial=0.0)) or 1.0  # norms of very large numbers overflow
        scale = float(np.linalg.norm(expected / largest)) or 1.0
        worst = max(worst, float(np.linalg.norm((found - expected) / largest)) / scale)
    if worst > rtol:
        raise WrongAnswerError(f"{name}: answers differ by {worst:.2g} of their norm, {rtol:.2g} is allowed")
    return worst


@dataclass
class Samples:
    """What was measured of one program with each library."""

    wall_s: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in LIBRARIES})
    cpu_s: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in LIBRARIES})
    peak_mb: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in LIBRARIES})
    difference: float = 0.0

    def median(self, library: str, what: str = "wall_s") -> float:
        """The median of one figure over the rounds."""
        return statistics.median(getattr(self, what)[library])

    def ratio(self) -> float:
        """SciPy's time over ours: above 1 we are faster."""
        theirs, ours = LIBRARIES
        return self.median(theirs) / self.median(ours)

    def record(self) -> dict[str, Any]:
        """What is kept of it."""
        medians = {name: self.median(name) for name in LIBRARIES}
        cpu_s = {name: self.median(name, "cpu_s") for name in LIBRARIES}
        peak_mb = {name: self.median(name, "peak_mb") for name in LIBRARIES}
        kept = {"ratio": self.ratio(), "median_s": medians, "cpu_s": cpu_s, "peak_mb": peak_mb}
        return {**kept, "samples_s": self.wall_s, "difference": self.difference}


def compile_bytecode() -> None:
    """Write the bytecode of autosparse where it is missing or old, as its installation does."""
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        for folder in (found and found.submodule_search_locations) or ():
            compileall.compile_dir(folder, quiet=2)


def call(arguments: Sequence[object], environment: Mapping[str, str]) -> str:
    """What a child process prints."""
    command = [sys.executable, "-m", "programlib.child", *map(str, arguments)]
    variables = child_environment(PYTHONPATH=str(BENCHMARKS), **environment)
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        raise ProgramFailedError(f"{' '.join(command[2:])} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def race(program: Program, *, rounds: int, environment: Mapping[str, str]) -> Samples:
    """Run `program` with SciPy and with ours in turns."""
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="autosparse-programs-") as folder:
        given, answer = Path(folder) / "inputs.pickle", Path(folder) / "answer.npz"
        call(("prepare", program.name, given), {})
        answers: dict[str, list[np.ndarray]] = {}
        for number in range(rounds):
            for library in LIBRARIES:
                fresh = {"AUTOSPARSE_CACHE_DIR": f"{folder}/cache-{number}", **environment}
                times = json.loads(call(("run", program.name, given, library, answer), fresh))
                for what in ("wall_s", "cpu_s", "peak_mb"):
                    getattr(samples, what)[library].append(times[what])
                with np.load(answer) as archive:
                    answers[library] = [archive[key] for key in archive.files]
            difference = compare(program.name, answers[LIBRARIES[0]], answers[LIBRARIES[1]], program.rtol)
            samples.difference = max(samples.difference, difference)
    return samples
