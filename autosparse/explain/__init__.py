"""What runs for a product and why: ``print(A.explain(B))``, ``A.explain(B).html("page.html")``.

The same for an einsum, which has no operand that could be asked: ``print(explain_einsum("ij,jk,ik->", A, A, A))``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosparse.explain.explanation import Explanation
from autosparse.ops import MATMUL

if TYPE_CHECKING:
    from autosparse.explain.program_explanation import ProgramExplanation
    from autosparse.operands.unfolding import AnyOperand

__all__ = ["Explanation", "explain", "explain_einsum"]


def explain(operand: AnyOperand, B: Any = 1, *, transposed: bool = False, operation: str = MATMUL.name) -> Explanation:
    """Explanation of ``M @ B``, or ``Mᵀ @ B`` when `transposed`; B: the dense operand or its number of columns.

    Of sampled products and tensors, B is the number of columns of the dense operands.
    Tunes nothing, and runs nothing but the parts of a hybrid plan that serves, each alone for a moment. B may be
    whatever the product takes, so its type is left open. ShapeError (a ValueError) when B does not fit, OptionError
    when a number of columns is not >= 1.
    """
    from autosparse.dispatch import executor

    return Explanation(executor.report(operand, B, transposed=transposed, operation=operation))


def explain_einsum(*arguments: Any, format: str | None = None) -> ProgramExplanation:
    """Explanation of ``einsum(*arguments, format=format)``: its programs by price, the loops of the chosen one as code.

    Compiles, runs and remembers nothing. The errors are those of `einsum`.
    """
    from autosparse.explain import programs

    return programs.explain_einsum(*arguments, format=format)
