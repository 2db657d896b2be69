"""Explanation of a product as text or HTML: what runs, why, what it costs, and what else was tried."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosparse.core.documents import write_whole
from autosparse.core.pattern import Pattern
from autosparse.explain.page import as_html
from autosparse.explain.section import as_text
from autosparse.explain.sections import sections, title
from autosparse.operands.holding import Holding
from autosparse.ops import MATMUL

if TYPE_CHECKING:
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.report import Report

NO_PICTURES: Final = "Pictures need matplotlib: pip install 'autosparse[plot]'"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Snapshot of a product's plan, unaffected by later products and tuning. ``print(A.explain(B))`` shows it."""

    report: Report

    def __str__(self) -> str:
        return as_text(sections(self.report))

    def __repr__(self) -> str:
        return f"<Explanation of {title(self.report)}: {self.report.plan!r}; print() shows it in words>"

    def _repr_html_(self) -> str:
        """Return the page for a notebook, without plots."""
        return as_html(title(self.report), sections(self.report), ())

    def html(self, path: str | os.PathLike[str], *, pictures: bool | None = None) -> Path:
        """Write one self-contained page to `path` and return the path.

        `pictures` adds a spy plot, the candidates' times and the break-even curve. None adds them if matplotlib is
        installed. MissingExtraError is raised if they are requested without matplotlib, and OSError if `path` cannot be
        written.
        """
        from autosparse.explain import pictures as drawing

        if pictures:
            drawing.require_matplotlib()
        drawn: list[tuple[str, bytes]] = []
        problem = self.report.problem
        pattern = problem.pattern if isinstance(problem.pattern, Pattern) else None
        if pictures or (pictures is None and drawing.have_matplotlib()):
            drawn = drawing.pictures(
                pattern, self.report.plan, transposed=problem.transposed, n_calls=self.report.n_calls
            )
        note = "" if drawn or pictures is False else NO_PICTURES
        target = Path(path)
        write_whole(target, as_html(title(self.report), sections(self.report), drawn, note))
        return target


def explain(operand: AnyOperand, B: Any = 1, *, transposed: bool = False, operation: str = MATMUL.name) -> Explanation:
    """Explain ``M @ B``, or ``Mᵀ @ B`` if `transposed`; B is the dense operand or its number of columns.

    For sampled products and tensors, B is the number of columns of the dense operands. Nothing is tuned. Nothing is run
    except the parts of a hybrid plan in use, each alone for a moment. B may be anything that the product accepts, so
    its type is left open. ShapeError (a ValueError) is raised if B does not fit, and OptionError if a number of columns
    is not >= 1.
    """
    from autosparse.dispatch import executor

    report = executor.report(operand, B, transposed=transposed, operation=operation)
    return Explanation(replace(report, holding=Holding.of(operand)))
