"""Race of PyTorch's products and autosparse's in alternation, by the rules of `programlib.race`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib.environment import child_environment
from programlib.race import BENCHMARKS, MAX_DISTURBED, ProgramFailedError, Samples, Spent, compare

WAYS: Final = ("global", "step", "outside")
"""Variants of a run; the reference is "stock".

"global" calls `install` once, "step" enters `override` at each step, and "outside" has the kernels registered but no
block active.
"""
STOCK: Final = "stock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Circumstances in which a program runs."""

    dtype: str  # float32 or float64
    threads: int
    toy: bool = False


class Runner:
    """Handle of the process that runs one program in one setting; each run is a fork with an empty cache."""

    def __init__(self, name: str, setting: Setting) -> None:
        given = (name, setting.dtype, str(setting.threads), str(int(setting.toy)))
        self._command = [sys.executable, "-m", "torchlib.child", *given]
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  closed by `close`
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            env=child_environment(PYTHONPATH=str(BENCHMARKS)),
        )  # fmt: skip
        self._line()  # waits until the inputs exist

    def call(self, way: str, answer: Path, cache: Path) -> dict[str, float]:
        """Return the figures of one run; raise ProgramFailedError."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{way}\t{cache}\t{answer}\n")
        self._process.stdin.flush()
        figures: dict[str, float] = json.loads(self._line())
        return figures

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            self._errors.seek(0)
            raise ProgramFailedError(f"{' '.join(self._command[2:])} failed:\n{self._errors.read()[-2000:]}")
        return line

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._errors.close()


def race(
    name: str, rtol: float, setting: Setting, *, ways: Sequence[str] = WAYS, rounds: int, most: int = 0
) -> dict[str, Any]:
    """Return the ratios of stock's time to each variant's; raise WrongAnswerError.

    Rounds are added, up to `most`, while the interval of a variant contains the limit.
    """
    runner = Runner(name, setting)
    try:
        return _raced(runner, name, rtol if setting.dtype == "float32" else 1e-6, ways, (rounds, most))
    finally:
        runner.close()


def _others_since(before: Spent, ours_s: float) -> float:
    """Return the fraction of the cores taken by unmeasured processes; measured processes used `ours_s`."""
    now = Spent.now()
    return max(now.all_s - before.all_s - ours_s, 0.0) / (now.wall_s - before.wall_s) / (os.cpu_count() or 1)


def _raced(runner: Runner, name: str, allowed: float, ways: Sequence[str], limits: tuple[int, int]) -> dict[str, Any]:
    (rounds, most), samples = limits, {way: Samples((STOCK, way)) for way in ways}
    n_repeated = n = 0
    with tempfile.TemporaryDirectory(prefix="autosparse-torch-programs-") as folder:
        while n < rounds or (n < most and any(one.is_open() for one in samples.values())):
            found: dict[str, dict[str, float]] = {}
            answers: dict[str, np.ndarray] = {}
            before = Spent.now()
            for way in (STOCK, *ways):
                path = Path(folder) / f"{way}.npy"
                found[way] = runner.call(way, path, Path(folder) / f"cache-{n}-{n_repeated}-{way}")
                answers[way] = np.load(path)
            disturbed = _others_since(before, sum(figures.pop("whole_cpu_s") for figures in found.values()))
            for way in ways:
                worst = compare(f"{name} ({way})", [answers[STOCK]], [answers[way]], allowed)
                samples[way].difference = max(samples[way].difference, worst)
            if disturbed > MAX_DISTURBED and n_repeated < rounds:
                n_repeated += 1
                for one in samples.values():
                    one.n_repeated = n_repeated
                continue
            n += 1
            for way, one in samples.items():
                one.add({STOCK: found[STOCK], way: found[way]}, disturbed)
    return {way: one.record() for way, one in samples.items()}
