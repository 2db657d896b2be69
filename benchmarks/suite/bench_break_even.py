"""asv benchmarks of the number of products after which tuning and conversion pay, and of the time of tuning."""

from __future__ import annotations

import math
import tempfile

import autosparse
from autosparse.config import reload_options, set_options
from suite import cases


class BreakEven:
    """``A.tune("matmul", ...)`` with an empty cache, by number of columns."""

    params = (cases.names()[:4], (1, 32))
    param_names = ("matrix", "columns")
    timeout = 120.0

    def setup(self, matrix: str, columns: int) -> None:
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # threads may still write plans
        set_options(cache_dir=self.folder.name)
        self.A = autosparse.csr(cases.matrix(matrix))
        self.plan = self.A.tune("matmul", columns=columns, runs=100_000, effort="measure", budget_s=3.0)

    def teardown(self, matrix: str, columns: int) -> None:
        reload_options()
        self.folder.cleanup()

    def track_break_even_runs(self, matrix: str, columns: int) -> float:
        """Return the break-even number of products, or NaN if the default kernel won."""
        runs = self.plan.break_even_runs
        return math.nan if runs is None else float(runs)

    track_break_even_runs.unit = "runs"  # type: ignore[attr-defined]

    def track_tune_s(self, matrix: str, columns: int) -> float:
        return float(self.plan.tune_s)

    track_tune_s.unit = "s"  # type: ignore[attr-defined]
