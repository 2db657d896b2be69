"""Counts of skipped tests by reason; in continuous integration a reason outside `ALLOWED` fails the run.

Continuous integration installs every extra, so a test that is skipped there for lack of one would never run.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pytest

ALLOWED: Final[Mapping[str, str]] = {
    r"^no real matrices|^no published weights": "data that are too large for the repository",
    r"MinkowskiEngine|^(pydata/)?sparse is not|^(python-graphblas|mkl|dgl) (is|does)": "others' programs",
    r"^no headers of Eigen|could not import '(anndata|sparse|pandas)": "others' programs",
    r"^this build of the runtime has no hooks": "an installed wheel: no other has what only tests call",
    r"^needs the sources|^the (benchmarks|examples) are not": "an installed copy has no checkout around it",
    r"needs root|\(root\)|is not allowed here|of a sticky folder": "rights of the user",
    r"could not import .pyamg|^scikit-network is not": "others' programs",
    r"^pyarrow is": "a reader of files that nothing else here needs",
    r"^no (baseline|avx2|avx512|neon) here|^this machine has no|^no model is shipped|^needs a GPU": "processors",
    r"^no arm64 Python under qemu-user": "an emulated processor, which make arm-root prepares",
    r"fork|POSIX|Windows|/proc|not tell|address space|address sanitizer|libasan|OpenMP|reference counts": "systems",
    r"^no descriptors here|^this interpreter has no (way past|fast call)": "interpreters without the extension module",
    r"^this SciPy|^unconditional skip|^no such kernel": "versions, and combinations that there are not",
    r"^the machine was so busy": "other programs on the machine",
    r"^no browser|^(mypy|pyright) is not installed": "tools for `make test-full` only",
}
"""Regular expression for a skip reason -> why such tests may be skipped anywhere."""

REFUSED: Final = (
    r"is not installed|could not import|C runtime|C\+\+ module|no C compiler|Python's headers|the extension module"
)
"""Regular expression for reasons of tests that would run in a complete installation."""


def is_allowed(reason: str, path: str = "") -> bool:
    """Return whether a test at `path` may be skipped for `reason` in continuous integration.

    SciPy's own tests may be skipped for any reason.
    """
    return "/scipy/" in path or any(re.search(row, reason) for row in ALLOWED)


class SkipCount:
    """Pytest plugin that counts and reports skipped tests and modules.

    Where `CI` is set, it fails a run that skips a test for a reason that is not allowed.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.left_out = 0  # slow tests, which are deselected
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
            return
        path, _, reason = report.longrepr
        reason = reason.removeprefix("Skipped: ").split("\n", 1)[0]
        self.counts[reason] += 1
        if not is_allowed(reason, str(path)):
            self.refused[reason] += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the number of deselected tests from a pytest-xdist worker; it is the same in every worker."""
        self.left_out = getattr(node, "workeroutput", {}).get("left_out", self.left_out)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["left_out"] = self.left_out
        if self.refused and os.environ.get("CI") and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        counts = self.counts + Counter({"slow: run with --full (make test-full)": self.left_out})
        if not counts:
            return
        terminalreporter.section("skipped or left out, by reason")
        for reason, n in counts.most_common():
            mark = "" if reason not in self.refused else "  <- not in continuous integration"
            terminalreporter.write_line(f"{n:6} {reason[:90]}{mark}")
