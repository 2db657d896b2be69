"""What runs for a product and why: ``print(A.explain(B))``, ``A.explain(B).html("page.html")``.

The same for an einsum, which has no operand that could be asked: ``print(explain_einsum("ij,jk,ik->", A, A, A))``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosparse.explain.explanation import Explanation, explain

if TYPE_CHECKING:
    from autosparse.explain.program_explanation import ProgramExplanation

__all__ = ["Explanation", "explain", "explain_einsum"]


def explain_einsum(*arguments: Any, format: str | None = None) -> ProgramExplanation:
    """Explanation of ``einsum(*arguments, format=format)``: its programs by price, the loops of the chosen one as code.

    Compiles, runs and remembers nothing. The errors are those of `einsum`.
    """
    from autosparse.explain import programs

    return programs.explain_einsum(*arguments, format=format)
