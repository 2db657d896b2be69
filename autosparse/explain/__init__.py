"""Explain what runs for a product and why: ``print(A.explain(B))``, ``A.explain(B).html("page.html")``.

An einsum has no operand with such a method: ``print(explain_einsum("ij,jk,ik->", A, A, A))``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosparse import forking

if TYPE_CHECKING:
    from autosparse.explain.explanation import Explanation, explain
    from autosparse.explain.program_explanation import ProgramExplanation

__all__ = ["Explanation", "explain", "explain_einsum"]
_HOME = "autosparse.explain.explanation"
__getattr__ = forking.lazy_names(__name__, {"Explanation": _HOME, "explain": _HOME})


def explain_einsum(
    *arguments: Any, format: str | None = None, semiring: str = "plus_times"
) -> ProgramExplanation:  # fmt: skip
    """Explain an `einsum` with these arguments: its programs by estimated cost, and the chosen one's loops as C.

    Nothing is compiled, run or remembered. The errors are those of `einsum`.
    """
    from autosparse.explain import programs

    return programs.explain_einsum(*arguments, format=format, semiring=semiring)
