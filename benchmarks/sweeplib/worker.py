"""Child process that measures cases of one instruction set: each line of stdin is a case and tiers, stdout gets
records.

The process keeps the matrix of the last case. The cache keeps features and kernels of patterns, which are the same for
every plan. Plans are removed before each tuning. Plans of two tiers with the same schedule share their ratios.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib.environment import child_environment
from peerlib.matrices import load

from sweeplib.cases import SweepCase
from sweeplib.comparison import Rounds, speed_ratio

WAYS: Final = ("new", "out")
LIMIT: Final = 0.95
"""Ratio below which, for either variant, the case is measured twice more."""
AGAIN: Final = 2


@dataclass(slots=True, kw_only=True)
class Bench:
    """Tunes and measures cases in a process with the instruction set and the cache of its environment."""

    folder: Path
    budget_s: float
    rounds: Rounds
    _name: str = ""
    _matrix: Any = None  # Any: a csr_array of SciPy
    _ratios: dict[str, list[dict[str, float]]] = field(default_factory=dict)  # ratios of this case, by schedule

    def measure(self, case: SweepCase, tiers: Sequence[str]) -> list[dict[str, Any]]:
        """Return a record for each of `tiers`: its plan and the ratios of the product's time."""
        from autosparse.config import options

        self._ratios = {}
        # No lazy tuning and no withdrawal of plans, so the default kernel stays the same.
        with options(overhead=0.0, threads=case.threads):
            M = self._load(case)
            named = {**asdict(case), "nnz": int(M.nnz)}
            return [
                {"kind": "case", "key": case.key(tier), "tier": tier, **named, **self._tier(case, M, tier)}
                for tier in tiers
            ]

    def _load(self, case: SweepCase) -> Any:
        if self._name != case.matrix:
            self._name, self._matrix = case.matrix, load(self.folder / f"{case.matrix}.npz", dtype="float64")
        return self._matrix.astype(case.dtype)

    def _tier(self, case: SweepCase, M: Any, tier: str) -> dict[str, Any]:
        import autosparse as asp
        from autosparse import cache
        from autosparse.config import get_options

        cache.open_store(get_options()).forget(("plan",))
        A = asp.csr(M, copy=True)
        start_s = time.perf_counter()
        budget_s = None if tier == "estimate" else self.budget_s  # estimates run no race: default budget
        plan = A.tune("matmul", columns=case.columns, effort=tier, budget_s=budget_s)
        tuned_s = time.perf_counter()
        claimed = plan.default_s / plan.measured_s if plan.default_s and plan.measured_s else None
        facts = {"why": plan.why, "claimed": claimed, "predicted": plan.predicted_ratio, "schedule": None}
        if plan.schedule is not None:
            facts["schedule"] = name = str(plan.schedule)
            if name not in self._ratios:
                self._ratios[name] = self._taken(case, M, A)
            facts["taken"] = self._ratios[name]
            facts["ratios"] = counted(self._ratios[name])
        facts["seconds"] = [round(tuned_s - start_s, 3), round(time.perf_counter() - tuned_s, 3)]
        return facts

    def _taken(self, case: SweepCase, M: Any, tuned: Any) -> list[dict[str, float]]:
        """Return ratios by variant, measured once, and if one is low twice more on other memory and with all rounds."""
        import autosparse as asp

        default = asp.csr(M, copy=True)
        taken = [self._ratio(case, default, tuned, self.rounds)]
        if min(taken[0].values()) < LIMIT:
            all_of_them = Rounds(least=self.rounds.most, most=self.rounds.most)
            taken += [self._ratio(case, asp.csr(M, copy=True), tuned, all_of_them) for _ in range(AGAIN)]
        return taken

    @staticmethod
    def _ratio(case: SweepCase, default: Any, tuned: Any, rounds: Rounds) -> dict[str, float]:
        import autosparse as asp

        shape = (tuned.shape[1],) if case.columns == 1 else (tuned.shape[1], case.columns)
        B = np.random.default_rng(0).standard_normal(shape, dtype=case.dtype)  # type: ignore[arg-type]
        out = np.empty((tuned.shape[0], *shape[1:]), case.dtype)
        new, _ = speed_ratio(lambda: default @ B, lambda: tuned @ B, rounds)
        kept, _ = speed_ratio(lambda: asp.matmul(default, B, out=out), lambda: asp.matmul(tuned, B, out=out), rounds)
        return {"new": new, "out": kept}


def counted(taken: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the ratio of each variant: the first measurement, or the mean of the repeated ones.

    The first measurement caused the repetition, so it is biased low by selection.
    """
    later = taken[1:] or taken
    return {way: statistics.geometric_mean(one[way] for one in later) for way in WAYS}


# -- both ends of the pipe -------------------------------------------------------------------------------------------


class Worker:
    """Handle of a child process that measures the cases of `isa`."""

    def __init__(self, script: Path, arguments: Sequence[str], *, isa: str, cache: Path) -> None:
        environment = child_environment(AUTOSPARSE_ISA=isa, AUTOSPARSE_CACHE_DIR=os.fspath(cache))
        command = [sys.executable, os.fspath(script), *arguments, "--worker"]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)

    def measure(self, case: SweepCase, tiers: Sequence[str]) -> list[dict[str, Any]]:
        """Return the records of `case`, or one of kind "failure" if the child ended before it answered."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the end of the child is reported below
            print(json.dumps([asdict(case), tiers]), file=self._child.stdin, flush=True)
        said = self._child.stdout.readline()
        if not said:
            return [_failure(case, f"the process ended with {self._child.wait()}")]
        records: list[dict[str, Any]] = json.loads(said)
        return records

    @property
    def is_alive(self) -> bool:
        """Return whether the child accepts cases."""
        return self._child.poll() is None

    def close(self) -> None:
        """End the child."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        self._child.wait()


def serve(bench: Bench) -> None:
    """Run the child's side until stdin ends."""
    for text in sys.stdin:
        fields, tiers = json.loads(text)
        case = SweepCase(**fields)
        try:
            records = bench.measure(case, tiers)
        except (ValueError, MemoryError, OSError) as err:
            records = [_failure(case, f"{type(err).__name__}: {err}")]
        sys.stdout.write(json.dumps(records) + "\n")
        sys.stdout.flush()


def _failure(case: SweepCase, reason: str) -> dict[str, Any]:
    return {"kind": "failure", "key": case.key(), "reason": reason}
