"""Construct the `Problem` that tuning solves for a dispatch state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosparse._native import runtime_api
from autosparse.core.problem import Problem
from autosparse.core.target import Target
from autosparse.dispatch.state import DispatchState
from autosparse.isa import ISAS
from autosparse.operands.csr import Operand
from autosparse.ops import names
from autosparse.scalar import DICTIONARY, SCALARS

if TYPE_CHECKING:
    from autosparse.operands.unfolding import AnyOperand


def problem_of(operand: AnyOperand, state: DispatchState) -> Problem:
    """Return the problem of `state`; its pattern is hashed when the hash is first read.

    Its storage of A's values is "", a rounded type, or `DICTIONARY` (dictionary-encoded, CSR-VI). The option `storage`
    allows rounding, for operations with float32. Dictionary encoding is for products with one vector, which are bound
    by reading values, where one permutation of registers reads a small table.
    """
    options, target, storage = state.options, Target.host().held_to(state.options.isa), ""
    abilities: frozenset[str] = frozenset({"slices"})  # of products; a remembered plan loads no table of operations
    if options.storage or state.operation != names.MATMUL:
        from autosparse.ops import OPS

        abilities = OPS[state.operation].abilities
    if options.storage and "storage" in abilities and state.dtype.name == SCALARS[options.storage].compute:
        storage = options.storage
    elif state.n_dense_cols == 1 and "slices" in abilities and ISAS[target.isa].has_table_permutation:
        from autosparse._native.storage.dictionary import has_few_kinds

        is_own = isinstance(operand, Operand) and operand.dtype == state.dtype
        storage = DICTIONARY if is_own and has_few_kinds(operand.data[: operand.nnz]) else ""
    return Problem(
        operation=state.operation, pattern=operand.pattern, transposed=state.transposed,
        n_dense_cols=state.n_dense_cols, dtype=state.dtype.name, threads=options.threads or runtime_api.max_threads(),
        deterministic=options.deterministic, target=target, mode=getattr(operand, "mode", 0), storage=storage,
    )  # fmt: skip
