"""Race of both libraries in alternation; each run is a fresh process with a fresh cache, and answers are compared.

Two versions of autosparse have caches of their own: with one cache the second version would find what the first wrote,
which shortens first calls and lets tuning begin earlier. Rounds alternate which library is first.

A round in which other processes took more than MAX_DISTURBED of the cores is repeated, at most as often as there are
requested rounds. Rounds are added, up to `most`, while the interval of the ratio contains ENOUGH: with the threads of
OpenBLAS and Python one run may take twice as long as the next.

Memory is touched and freed just before the clock of each run starts. A virtual machine that reports free pages returns
them to its host two seconds after they were freed, and fetching them again takes 0.3 to 6 s per gigabyte. Without the
touch, a program that needs more memory than the previous one would pay for it. The touch makes this rarer but does not
exclude it: pages that another process freed earlier may be returned at any time.
"""

from __future__ import annotations

import compileall
import importlib.util
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
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
ENOUGH: Final = 0.97
"""Minimum speed of every program relative to SciPy."""
N_DRAWS: Final = 2000
"""Number of bootstrap draws of rounds for a 90 % interval."""
MIN_TOUCHED_MB: Final = 384
"""Minimum megabytes touched before a timed run; the default is twice the peak of earlier runs of the program."""
MAX_TOUCHED_MB: Final = 8192
MAX_DISTURBED: Final = 0.05  # fraction of the cores' time taken by other processes


class WrongAnswerError(AssertionError):
    """Error raised if the two libraries disagree."""


class ProgramFailedError(RuntimeError):
    """Error raised if a program fails."""


def compare(name: str, theirs: Sequence[np.ndarray], ours: Sequence[np.ndarray], rtol: float) -> float:
    """Return the largest difference of an array relative to its norm; raise WrongAnswerError if it exceeds `rtol`."""
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
    """Measurements of one program with each library: the reference and ours."""

    libraries: tuple[str, str] = LIBRARIES
    wall_s: dict[str, list[float]] = field(init=False)
    cpu_s: dict[str, list[float]] = field(init=False)
    peak_mb: dict[str, list[float]] = field(init=False)
    difference: float = 0.0
    disturbed: list[float] = field(default_factory=list)  # fraction of the cores taken by others, per kept round
    n_repeated: int = 0

    def __post_init__(self) -> None:
        self.wall_s, self.cpu_s, self.peak_mb = ({name: [] for name in self.libraries} for _ in range(3))

    def add(self, found: Mapping[str, Mapping[str, float]], disturbed: float) -> None:
        """Add one round: figures by library."""
        for library, figures in found.items():
            for what in ("wall_s", "cpu_s", "peak_mb"):
                getattr(self, what)[library].append(figures[what])
        self.disturbed.append(disturbed)

    def median(self, library: str, what: str = "wall_s") -> float:
        """Return the median of one figure over the rounds."""
        return statistics.median(getattr(self, what)[library])

    def touched_mb(self) -> int:
        """Return the megabytes to touch before the next timed run."""
        peak_mb = max((mb for found in self.peak_mb.values() for mb in found), default=0.0)
        return int(min(max(2.0 * peak_mb, MIN_TOUCHED_MB), MAX_TOUCHED_MB))

    def ratio(self) -> float:
        """Return the reference's time over ours; above 1 ours is faster."""
        theirs, ours = self.libraries
        return self.median(theirs) / self.median(ours)

    def interval(self) -> tuple[float, float]:
        """Return the 5th and 95th percentile of the ratio over bootstrap draws of the rounds."""
        rng, n = random.Random(0), len(self.disturbed)
        theirs, ours = (self.wall_s[name] for name in self.libraries)
        ratios = sorted(
            statistics.median(rng.choices(theirs, k=n)) / statistics.median(rng.choices(ours, k=n))
            for _ in range(N_DRAWS)
        )
        return ratios[N_DRAWS // 20], ratios[-N_DRAWS // 20]

    def is_open(self) -> bool:
        """Return whether the interval contains ENOUGH, so that more rounds are needed."""
        low, high = self.interval()
        return low < ENOUGH <= high

    def record(self) -> dict[str, Any]:
        """Return the record of the measurements."""
        medians = {name: self.median(name) for name in self.libraries}
        cpu_s = {name: self.median(name, "cpu_s") for name in self.libraries}
        peak_mb = {name: self.median(name, "peak_mb") for name in self.libraries}
        kept = {
            "ratio": self.ratio(),
            "interval": self.interval(),
            "median_s": medians,
            "cpu_s": cpu_s,
            "peak_mb": peak_mb,
        }
        others = {"disturbed": self.disturbed, "n_repeated": self.n_repeated}
        return {**kept, **others, "samples_s": self.wall_s, "difference": self.difference}


@dataclass(frozen=True)
class Spent:
    """Wall time, processor time of all processes, and processor time of this process's ended children."""

    wall_s: float
    all_s: float
    children_s: float

    @classmethod
    def now(cls) -> Spent:
        """Read the system's counters; processor time is 0 on systems without /proc/stat."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
        except OSError:
            fields = ["0"] * 8
        user, nice, system, _idle, _waiting, irq, softirq, stolen = map(int, fields)
        all_s = (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")
        return cls(time.perf_counter(), all_s, used.ru_utime + used.ru_stime)

    def others_since(self, before: Spent) -> float:
        """Return the fraction of the cores that processes other than this one's children took.

        The resolution is that of /proc/stat.
        """
        others_s = (self.all_s - before.all_s) - (self.children_s - before.children_s)
        return max(others_s, 0.0) / (self.wall_s - before.wall_s) / (os.cpu_count() or 1)


def compile_bytecode() -> None:
    """Write missing or outdated bytecode of autosparse, as its installation does."""
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        for folder in (found and found.submodule_search_locations) or ():
            compileall.compile_dir(folder, quiet=2)


def call(arguments: Sequence[object], environment: Mapping[str, str], python: str = sys.executable) -> str:
    """Return the output of a child process of the interpreter `python`."""
    command = [python, "-m", "programlib.child", *map(str, arguments)]
    variables = child_environment(PYTHONPATH=str(BENCHMARKS), **environment)
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    # Run in a folder without packages: `-m` searches the current folder first, which could hold another version.
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables, cwd=BENCHMARKS)
    if done.returncode:
        raise ProgramFailedError(f"{' '.join(command[2:])} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def race(
    program: Program, *, rounds: int, environment: Mapping[str, str], most: int = 0, against: str | None = None
) -> Samples:
    """Run `program` with both libraries in alternation, `rounds` times, and up to `most` while the ratio is open.

    `against` is the interpreter of an environment with another version of autosparse, which then replaces SciPy.
    """
    samples = Samples()
    other = (LIBRARIES[1], against) if against else (LIBRARIES[0],)
    runs = dict(zip(LIBRARIES, (other, (LIBRARIES[1],)), strict=True))  # name in the records -> library, interpreter
    with tempfile.TemporaryDirectory(prefix="autosparse-programs-") as folder:
        given, answer = Path(folder) / "inputs.pickle", Path(folder) / "answer.npz"
        call(("prepare", program.name, given), {})
        while (n := len(samples.disturbed)) < rounds or (n < most and samples.is_open()):
            round_number = len(samples.disturbed) + samples.n_repeated
            answers: dict[str, list[np.ndarray]] = {}
            found: dict[str, dict[str, float]] = {}
            before = Spent.now()
            for library in LIBRARIES if round_number % 2 else LIBRARIES[::-1]:
                imported, *python = runs[library]
                fresh = {"AUTOSPARSE_CACHE_DIR": f"{folder}/cache-{round_number}-{library}", **environment}
                arguments = ("run", program.name, given, imported, answer, samples.touched_mb())
                found[library] = json.loads(call(arguments, fresh, *python))
                with np.load(answer) as archive:
                    answers[library] = [archive[key] for key in archive.files]
            disturbed = Spent.now().others_since(before)
            difference = compare(program.name, answers[LIBRARIES[0]], answers[LIBRARIES[1]], program.rtol)
            samples.difference = max(samples.difference, difference)
            if disturbed > MAX_DISTURBED and samples.n_repeated < rounds:
                samples.n_repeated += 1
            else:
                samples.add(found, disturbed)
    return samples
