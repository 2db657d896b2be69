"""`SolveExplanation`: the time spent in each part of one solve, as text or as a page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autosparse.core.documents import write_whole
from autosparse.explain.page import as_html
from autosparse.explain.section import Section, as_text
from autosparse.explain.units import seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveExplanation:
    """Explanation of one solve by times and results; ``print`` shows them. `parts` sum to `total_s`.

    `true_residual` is the norm of b - A x at the end, computed after the solve; None if the solver has no b or ended by
    an exception. With several right-hand sides, `true_residual` and `info` are arrays with one element for each.
    """

    solver: str
    shape: tuple[int, ...]
    n_iterations: int
    n_products: int
    target: float  # residual norm at which the solver stops; 0 if it has none
    info: Any  # code returned by the solver
    true_residual: Any  # float, array (k,), or None
    total_s: float
    products_s: float
    tuning_s: float
    preconditioner_s: float
    vectors_s: float
    residual_s: float = 0.0  # the trace's own: without a trace, no true residual is computed
    reason: str = ""  # why it is computed in this way, of solvers that choose one

    @property
    def other_s(self) -> float:
        """Seconds of Python and everything outside the other parts, such as small dense problems and callbacks."""
        known_s = self.products_s, self.tuning_s, self.preconditioner_s, self.vectors_s, self.residual_s
        return self.total_s - sum(known_s)

    @property
    def parts(self) -> dict[str, float]:
        """Seconds spent in each part."""
        return {
            "products": self.products_s, "vectors": self.vectors_s, "preconditioner": self.preconditioner_s,
            "tuning": self.tuning_s, "Python, callbacks": self.other_s, "true residual": self.residual_s,
        }  # fmt: skip

    def __str__(self) -> str:
        return as_text(self._sections())

    def __repr__(self) -> str:
        return f"<Explanation of {self._title()}; print() shows it in words>"

    def _repr_html_(self) -> str:
        return as_html(self._title(), self._sections(), ())

    def html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page to `path` and return it; raise OSError if it cannot be written."""
        target = Path(path)
        write_whole(target, self._repr_html_())
        return target

    def _title(self) -> str:
        return f"{self.solver}: {self.shape[0]:,} unknowns" if self.shape else self.solver

    def _sections(self) -> tuple[Section, ...]:
        facts = [
            ("iterations", f"{self.n_iterations:,}, with {self.n_products:,} products"),
            ("took", seconds(self.total_s)),
        ]
        if self.reason:
            facts.append(("order", self.reason))
        if self.info is not None:
            facts.append(("info", " ".join(map(str, np.ravel(self.info)))))
        if self.true_residual is not None:
            asked = f", {self.target:.3g} was asked for" if self.target and not np.ndim(self.true_residual) else ""
            residuals = " ".join(f"{one:.3g}" for one in np.ravel(self.true_residual))
            facts.append(("true residual", f"|b - A x| = {residuals}{asked}"))
        total_s = self.total_s or 1.0
        rows = [(name, seconds(part_s), f"{part_s / total_s:.0%}", "") for name, part_s in self.parts.items() if part_s]
        return (
            Section(title=self._title(), facts=tuple(facts)),
            Section(title="Where the time went", table=(("part", "time", "share", ""), *rows)),
        )
