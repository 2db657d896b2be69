"""PyTorch's own products and ours in turns, by the rule of `programlib.race`: fresh processes, intervals of 90 %."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib.environment import child_environment
from programlib.race import BENCHMARKS, MOST_DISTURBED, ProgramFailedError, Samples, Spent, compare

WAYS: Final = ("global", "step", "outside")
"""`install` once; `override` entered at each step; no block, with our kernels registered. The reference is "stock"."""
STOCK: Final = "stock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """In what circumstances a program runs."""

    dtype: str  # float32 or float64
    threads: int
    toy: bool = False


def call(name: str, way: str, setting: Setting, answer: Path, cache: Path) -> dict[str, float]:
    """Figures of one run in a fresh process with an empty cache."""
    given = (name, way, setting.dtype, str(setting.threads), str(int(setting.toy)), str(answer))
    variables = child_environment(PYTHONPATH=str(BENCHMARKS), AUTOSPARSE_CACHE_DIR=str(cache))
    command = [sys.executable, "-m", "torchlib.child", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        raise ProgramFailedError(f"{' '.join(command[2:])} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def race(
    name: str, rtol: float, setting: Setting, *, ways: Sequence[str] = WAYS, rounds: int, most: int = 0
) -> dict[str, Any]:
    """Ratios of stock's time to each way's, up to `most` rounds while one is open. Raises WrongAnswerError."""
    samples = {way: Samples((STOCK, way)) for way in ways}
    allowed = rtol if setting.dtype == "float32" else 1e-6
    n_repeated = n = 0
    with tempfile.TemporaryDirectory(prefix="autosparse-torch-programs-") as folder:
        while n < rounds or (n < most and any(one.is_open() for one in samples.values())):
            found: dict[str, Mapping[str, float]] = {}
            answers: dict[str, np.ndarray] = {}
            before = Spent.now()
            for way in (STOCK, *ways):
                path = Path(folder) / f"{way}.npy"
                found[way] = call(name, way, setting, path, Path(folder) / f"cache-{n}-{n_repeated}-{way}")
                answers[way] = np.load(path)
            disturbed = Spent.now().others_since(before)
            for way in ways:
                worst = compare(f"{name} ({way})", [answers[STOCK]], [answers[way]], allowed)
                samples[way].difference = max(samples[way].difference, worst)
            if disturbed > MOST_DISTURBED and n_repeated < rounds:
                n_repeated += 1
                continue
            n += 1
            for way, one in samples.items():
                one.add({STOCK: found[STOCK], way: found[way]}, disturbed)
    return {way: one.record() for way, one in samples.items()}
