"""Run programs generated as Python: compiled by numba if there is no C compiler, or interpreted in tests."""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from autosparse.contraction.expressions.semirings import SEMIRINGS
from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.lower import python_helpers
from autosparse.contraction.lower.emit import emit_python, sums_dtype
from autosparse.contraction.lower.kernel import Inputs
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import Operand, Sparse, distinct
from autosparse.core.dtypes import WideIndex

HELPERS: Final = (
    "plus", "out_new", "out_grown", "push", "space_new", "space_has", "space_add", "space_clear", "space_sort", "flush",
    "table_new", "table_clear", "table_slot", "table_find", "table_add", "table_freeze", "find_from", "find", "gallop",
)  # fmt: skip
NONE: Final = np.zeros(0, WideIndex)
"""Array that stands for the coordinates of a dense level."""


def is_there() -> bool:
    """Return whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def run(
    plan: EinsumPlan, operands: dict[str, Operand], extents: dict[str, int], *, is_compiled: bool
) -> Sparse | AnyArray:
    """Run `plan` on one thread and return the result; compiled by numba if `is_compiled`, else interpreted."""
    one = next(iter(operands.values()))
    dtype = one.dtype if isinstance(one, Sparse) else one.array.dtype
    arrays = Inputs.of(plan, operands, np.dtype(WideIndex)).arrays
    arguments = tuple(NONE if array is None else array.reshape(-1) for array in arrays)
    shape = tuple(extents[index] for index in plan.output.indices)
    is_dense = plan.output_kind == "dense"
    sums, semiring = np.dtype(sums_dtype(plan, dtype.name)), SEMIRINGS[plan.semiring]
    result = semiring.filled((int(np.prod(shape)) if is_dense else 1,), sums)
    zero = semiring.filled((1,), sums)
    names, part = _part(emit_python(plan), semiring.python_sum, is_compiled=is_compiled)
    outer = getattr(plan.program, "indices", ("",))[0]
    sizes = tuple(extents[index] for index in plan.indices)
    out = names["out_new"](max(1, len(shape)), zero)
    out = part(arguments, sizes, 0, extents.get(outer, 0), out, result, zero)
    if is_dense:
        return result.reshape(shape).astype(dtype, copy=False)
    n = int(out.n[0])
    values = out.val[:n].astype(dtype, copy=False)
    return distinct("".join(plan.output.indices), out.crd[:, :n], values, shape, semiring)


@functools.lru_cache(maxsize=64)
def _part(source: str, python_sum: str, *, is_compiled: bool) -> tuple[dict[str, Any], Callable[..., Any]]:
    """Return the helpers by name and the kernel that `source` defines, compiled by numba if `is_compiled`.

    `python_sum` is the expression of ``a ⊕ b``.
    """
    names = _helpers(python_sum, is_compiled=is_compiled)
    scope = dict(names)
    exec(compile(source, "<einsum>", "exec"), scope)  # noqa: S102  # our own emitter's text
    part = scope["part"]
    if is_compiled:
        import numba

        part = numba.njit(part)
    return names, part


@functools.cache
def _helpers(python_sum: str, *, is_compiled: bool) -> dict[str, Any]:
    """Return the helpers, each after those that it calls, compiled by numba if `is_compiled`."""
    scope: dict[str, Any] = vars(python_helpers).copy()
    for name in HELPERS:
        text = inspect.getsource(getattr(python_helpers, name))
        if name == "plus":
            text = f"def plus(a, b):\n    return {python_sum}\n"
        exec(text, scope)  # noqa: S102  # the module's own text
        if is_compiled:
            import numba

            scope[name] = numba.njit(scope[name])
    return {name: scope[name] for name in HELPERS}
