"""Run programs generated as Python: compiled by numba if there is no C compiler, or interpreted in tests."""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.lower import python_helpers
from autosparse.contraction.lower.emit import SUMS, emit_python
from autosparse.contraction.lower.levels import levels
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import Dense, Operand, Sparse, distinct

HELPERS: Final = (
    "out_new", "push", "flush", "space_new", "space_has", "space_add", "space_clear", "space_sort", "table_new",
    "table_clear", "table_slot", "table_find", "table_add", "table_freeze", "find_from", "find", "gallop",
)  # fmt: skip
NONE: Final = np.zeros(0, np.int64)
"""Array that stands for the coordinates of a dense level."""


def is_there() -> bool:
    """Return whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def run(
    plan: EinsumPlan, operands: dict[str, Operand], extents: dict[str, int], *, is_compiled: bool
) -> Sparse | AnyArray:
    """Run `plan` on one thread and return the result."""
    one = next(iter(operands.values()))
    dtype = one.dtype if isinstance(one, Sparse) else one.array.dtype
    arguments = _arguments(plan, operands)
    shape = tuple(extents[index] for index in plan.output.indices)
    is_dense = plan.output_kind == "dense"
    sums = np.dtype(SUMS.get(dtype.name, dtype.name))
    result = np.zeros(int(np.prod(shape)) if is_dense else 1, sums)
    zero = np.zeros(1, sums)
    names, part = _part(emit_python(plan), is_compiled=is_compiled)
    outer = getattr(plan.program, "indices", ("",))[0]
    sizes = tuple(extents[index] for index in plan.indices)
    out = names["out_new"](max(1, len(shape)), zero)
    out = part(arguments, sizes, 0, extents.get(outer, 0), out, result, zero)
    if is_dense:
        return result.reshape(shape).astype(dtype, copy=False)
    n = int(out.n[0])
    return distinct("".join(plan.output.indices), out.crd[:, :n], out.val[:n].astype(dtype, copy=False), shape)


def _arguments(plan: EinsumPlan, operands: dict[str, Operand]) -> tuple[AnyArray, ...]:
    """Return the argument arrays in the order in which the source declares them."""
    found: list[AnyArray] = []
    for name in plan.sparse:
        operand = operands[name]
        assert isinstance(operand, Sparse)
        tree = levels(operand, plan.orders[name], is_dense=name in plan.dense_levels, dtype=np.dtype(np.int64))
        first = tree.crd[0] if tree.crd else None
        root = np.array([0, 0 if first is None else first.size])
        for pos, crd in zip((root, *tree.pos), tree.crd, strict=True):
            found += [pos, NONE if crd is None else crd]
        found.append(tree.values)
    for access in plan.dense:
        dense = operands[access.tensor]
        assert isinstance(dense, Dense)
        found.append(dense.array.reshape(-1))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _part(source: str, *, is_compiled: bool) -> tuple[dict[str, Any], Callable[..., Any]]:
    """Return the helpers and the function that `source` defines."""
    names: dict[str, Any] = _compiled_helpers() if is_compiled else {n: getattr(python_helpers, n) for n in HELPERS}
    scope = dict(names)
    exec(compile(source, "<einsum>", "exec"), scope)  # noqa: S102  # our own emitter's text
    part = scope["part"]
    if is_compiled:
        import numba

        part = numba.njit(part)
    return names, part


@functools.cache
def _compiled_helpers() -> dict[str, Any]:
    """Return the helpers compiled by numba, each after those that it calls."""
    import numba

    scope: dict[str, Any] = {"np": np, "MAX_DENSE_SLOTS": python_helpers.MAX_DENSE_SLOTS}
    scope |= {name: getattr(python_helpers, name) for name in ("Space", "Table", "Out")}
    for name in HELPERS:
        exec(inspect.getsource(getattr(python_helpers, name)), scope)  # noqa: S102  # the module's own text
        scope[name] = numba.njit(scope[name])
    return {name: scope[name] for name in HELPERS}
