"""Contract the checked operands of an einsum: by a generated C kernel, a numba kernel, or pairwise joins in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sps

from autosparse.config import get_options
from autosparse.contraction.expressions.arrays import contract_arrays
from autosparse.contraction.expressions.semirings import PLUS_TIMES
from autosparse.contraction.kinds import AnyArray, is_sparse
from autosparse.contraction.operands import Dense, Operand, Sparse, distinct, prepare
from autosparse.contraction.results import dense
from autosparse.contraction.routes import joins, paid
from autosparse.contraction.routes.patterns import key_of
from autosparse.contraction.subscripts import Subscripts
from autosparse.core.dtypes import WideIndex
from autosparse.errors import BuildError
from autosparse.notices import FallbackWarning, warn_once
from autosparse.ops import EINSUM

Result: TypeAlias = "Sparse | AnyArray"
WIDER = np.dtype(WideIndex)
"""Type in which einsums of booleans are counted, because there are no generated kernels for booleans."""


def compute(
    operands: Sequence[Any], subscripts: Subscripts, dtype: np.dtype[Any], *, is_dense: bool, by_kernel: bool = False
) -> Result:
    """Compute an einsum, as sparse entries or an ndarray; `by_kernel` uses a compiled kernel from the first call on."""
    is_ordinary = subscripts.semiring == PLUS_TIMES
    if dtype.kind == "b" and is_ordinary:
        return _as_booleans(compute(operands, subscripts, WIDER, is_dense=is_dense, by_kernel=by_kernel))
    prepared = prepare(operands, subscripts, dtype)
    contract = generated if by_kernel else execute
    if len(prepared) == 3 and not subscripts.output and is_ordinary:
        from autosparse.contraction.routes.triangles import triangles

        halved = triangles(prepared, subscripts)
        if halved is not None:
            of_lower = contract(halved.operands, halved.subscripts, is_dense=True)
            total: AnyArray = halved.total(dense(of_lower) if isinstance(of_lower, Sparse) else of_lower)
            return total
    if all(isinstance(operand, Dense) for operand in prepared):
        return contract_arrays([one for one in prepared if isinstance(one, Dense)], subscripts)
    result = contract(prepared, subscripts, is_dense=is_dense)
    return broadcast(result, subscripts) if isinstance(result, Sparse) else result


def _as_booleans(result: Result) -> Result:
    if not isinstance(result, Sparse):
        is_set: AnyArray = np.asarray(result) != 0
        return is_set
    values = result.values != 0
    if result.rows is not None:
        return Sparse(result.indices, None, values, result.shape, sorted_by=result.sorted_by, rows=result.rows)
    return Sparse(result.indices, result.coords, values, result.shape, sorted_by=result.sorted_by)


def execute(prepared: list[Operand], subscripts: Subscripts, *, is_dense: bool) -> Result:
    """Contract prepared operands, by joins in the first calls if these are short, else by a compiled kernel."""
    if paid.is_sure() or get_options().deterministic:
        return generated(prepared, subscripts, is_dense=is_dense)
    account = paid.account_of(key_of(prepared, subscripts, is_dense_output=is_dense))
    if account.prefers_kernel:
        return account.tried(lambda: generated(prepared, subscripts, is_dense=is_dense))
    try:
        result = account.timed(lambda: joins.contract(prepared, subscripts, most_pairs=paid.MAX_PAIRS))
    except joins.TooManyPairsError:
        return generated(prepared, subscripts, is_dense=is_dense)
    if account.is_paid:
        copies = [_copied(one) for one in prepared]
        account.compile_in_background(lambda: compile_for(copies, subscripts, is_dense=is_dense))
    return result


def generated(prepared: list[Operand], subscripts: Subscripts, *, is_dense: bool) -> Result:
    """Contract prepared operands by a generated kernel, or by joins if no kernel can be generated or compiled."""
    from autosparse.contraction.path import is_short, shortened

    if not is_short(prepared, subscripts.output):
        prepared = shortened(prepared, subscripts, execute)
        subscripts = subscripts._replace(inputs=tuple(operand.indices for operand in prepared))
    if _has_kernel(prepared, subscripts):
        from autosparse.contraction.remembered import contract, contract_without_compiler

        try:
            return contract(prepared, subscripts, is_dense_output=is_dense)
        except BuildError as err:
            paid.note_failure()
            message = f"einsum {subscripts}: NumPy joins the operands, because {err}"
            warn_once(FallbackWarning, EINSUM.name, message)
            return contract_without_compiler(prepared, subscripts, is_dense_output=is_dense)
    return joins.contract(prepared, subscripts)


def compile_for(prepared: Sequence[Operand], subscripts: Subscripts, *, is_dense: bool) -> None:
    """Choose and compile the kernel for later calls if these operands can have one; raise BuildError on failure."""
    if _has_kernel(prepared, subscripts):
        from autosparse.contraction.remembered import ready

        ready(prepared, subscripts, is_dense_output=is_dense)


def _has_kernel(prepared: Sequence[Operand], subscripts: Subscripts) -> bool:
    """Return whether a kernel can be generated: for few operands of one type, which have all indices of the output."""
    from autosparse.contraction.choice import is_computable
    from autosparse.contraction.path import is_short

    reached = {index for operand in prepared for index in operand.indices}
    is_generated = is_computable(prepared) and is_short(prepared, subscripts.output)
    return is_generated and reached >= set(subscripts.output)


def compile_arguments(operands: Sequence[Any], subscripts: Subscripts, dtype: np.dtype[Any], *, is_dense: bool) -> None:
    """Prepare the operands, then choose and compile the kernel for later calls."""
    from autosparse.contraction.routes.triangles import triangles

    prepared = prepare(operands, subscripts, WIDER if dtype.kind == "b" else dtype)
    halved = triangles(prepared, subscripts)
    if halved is not None:
        compile_for(halved.operands, halved.subscripts, is_dense=True)
    else:
        compile_for(prepared, subscripts, is_dense=is_dense)


def copies_of(operands: Sequence[Any]) -> list[Any]:
    """Copy sparse matrices, which the caller may write to meanwhile; an object that occurs twice is copied once."""
    made: dict[int, Any] = {}
    return [made.setdefault(id(one), one.copy()) if is_sparse(one) and sps.issparse(one) else one for one in operands]


def _copied(operand: Operand) -> Operand:
    if isinstance(operand, Dense) or operand.tensor is not None:
        return operand
    rows = None if operand.rows is None else (operand.rows[0].copy(), operand.rows[1].copy())
    coords = operand.coords.copy() if rows is None else None
    return Sparse(operand.indices, coords, operand.values, operand.shape, sorted_by=operand.sorted_by, rows=rows)


def broadcast(entries: Sparse, subscripts: Subscripts) -> Sparse:
    """Return `entries` with all indices of the output, repeated along those whose operands have extent 1."""
    missing = [index for index in subscripts.output if index not in entries.indices]
    if not missing:
        return entries
    coords, values = dict(zip(entries.indices, entries.coords, strict=True)), entries.values
    for index in missing:
        extent = subscripts.extents[index]
        coords = {known: np.tile(row, extent) for known, row in coords.items()}
        coords[index] = np.repeat(np.arange(extent), values.size)
        values = np.tile(values, extent)
    return distinct(
        subscripts.output, np.stack([coords[index] for index in subscripts.output]), values, subscripts.shape
    )
