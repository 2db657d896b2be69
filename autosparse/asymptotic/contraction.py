"""The contraction of an einsum whose operands are read: by a generated kernel, numba's, or joins of two operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from autosparse.asymptotic import pairwise
from autosparse.asymptotic.choice import is_computable
from autosparse.asymptotic.operands import AnyArray, Operand, Sparse, prepare
from autosparse.asymptotic.path import is_short, shortened
from autosparse.asymptotic.remembered import contract, contract_without_compiler
from autosparse.asymptotic.results import dense
from autosparse.asymptotic.routes.triangles import triangles
from autosparse.asymptotic.subscripts import Subscripts
from autosparse.errors import BuildError
from autosparse.notices import FallbackWarning, warn_once
from autosparse.ops import EINSUM

Result: TypeAlias = "Sparse | AnyArray"


def compute(operands: Sequence[Any], subscripts: Subscripts, dtype: np.dtype[Any], *, is_dense: bool) -> Result:
    """The result by entries, or as an ndarray."""
    prepared = prepare(operands, subscripts, dtype)
    halved = triangles(prepared, subscripts)
    if halved is not None:
        return halved.total(execute(halved.operands, halved.subscripts, is_dense=True))
    result = execute(prepared, subscripts, is_dense=is_dense)
    return broadcast(result, subscripts) if isinstance(result, Sparse) else result


def execute(prepared: list[Operand], subscripts: Subscripts, *, is_dense: bool) -> Result:
    """The contraction of prepared operands by a kernel; by joins where there is none, or no compiler."""
    if not is_short(prepared, subscripts.output):
        prepared = shortened(prepared, subscripts, execute)
        subscripts = replace(subscripts, inputs=tuple(operand.indices for operand in prepared))
    reached = {index for operand in prepared for index in operand.indices}
    is_generated = is_computable(prepared) and is_short(prepared, subscripts.output)
    if is_generated and reached >= set(subscripts.output):
        try:
            return contract(prepared, subscripts, is_dense_output=is_dense)
        except BuildError as err:
            message = f"einsum {subscripts}: NumPy joins the operands, because {err}"
            warn_once(FallbackWarning, EINSUM.name, message)
            return contract_without_compiler(prepared, subscripts, is_dense_output=is_dense)
    return pairwise.contract(prepared, subscripts)


def broadcast(entries: Sparse, subscripts: Subscripts) -> Sparse:
    """Entries with all modes of the output: operands of extent 1 may have left some out, which are then constant."""
    missing = [index for index in subscripts.output if index not in entries.indices]
    if not missing:
        return entries
    array = dense(entries)
    for mode, index in enumerate(subscripts.output):
        if index in missing:
            array = np.expand_dims(array, mode)
    coords = np.stack(np.nonzero(np.broadcast_to(array, subscripts.shape))).astype(np.int64)
    values = np.broadcast_to(array, subscripts.shape)[tuple(coords)]
    return Sparse(subscripts.output, coords, values, subscripts.shape, sorted_by=subscripts.output)
