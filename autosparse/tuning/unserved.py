"""Plans for products for which no kernel can be chosen: which library computes them, and why."""

from __future__ import annotations

from autosparse._native import runtime_api
from autosparse.core.plan import Plan
from autosparse.operands.csf import MAX_ORDER
from autosparse.operands.csr import INDICES, INDPTR, Operand
from autosparse.operands.unfolding import AnyOperand, Unfolding
from autosparse.ops import OPS, names
from autosparse.scalar import INDEX_TEXT, REAL
from autosparse.tuning import planner


def unserved_plan(operand: AnyOperand, operation: str) -> Plan:
    """Return the plan of a product for which no kernel can be chosen, with the reason."""
    row = OPS[operation]
    reference = row.library
    if not runtime_api.available:
        return planner.default_plan(f"{reference} computes every product: {runtime_api.fault}", served_by=reference)
    if isinstance(operand, Unfolding):
        return _unserved_tensor(operand)
    is_plain = operand.dtype.name in row.default_dtypes and (operand.rows or operand.validate()).dtype is not None
    if is_plain:
        return planner.default_plan(
            f"the default kernel computes {operand.dtype}: others of {row.name} are generated for real values"
        )
    if row.name == names.MATMUL and (operand.rows or operand.validate()).dtype_code >= 0:
        return planner.default_plan(
            f"the default kernel of dtype pairs computes {operand.dtype}, large products on all threads: others are "
            "generated for one floating-point or complex dtype"
        )
    why = _why_unfit(operand, row.dtypes)
    return planner.default_plan(f"{reference} computes this product: {why}", served_by=reference)


def _unserved_tensor(operand: Unfolding) -> Plan:
    order, dtype = len(operand.entries.shape), operand.dtype
    if not 2 <= order <= MAX_ORDER:
        why = f"autosparse kernels take tensors of 2 to {MAX_ORDER} modes, and this one has {order}"
        return planner.default_plan(f"NumPy computes this product: {why}", served_by="NumPy")
    what = "the tensor's are not contiguous, aligned and in the machine's byte order"
    if dtype.name not in REAL:
        what = f"kernels are generated for {_listed(REAL)}, and the tensor holds {dtype}"
    return planner.default_plan(f"the default kernel computes on values converted for each product: {what}")


def _why_unfit(operand: Operand, served: tuple[str, ...]) -> str:
    """Return a text on why the kernels cannot read the operand's arrays: dtype, indices, dimension or layout."""
    indptr, indices = operand.peek(INDPTR), operand.peek(INDICES)
    if operand.dtype.name not in served:
        return f"autosparse kernels compute in {_listed(served)}, and the matrix holds {operand.dtype}"
    if indptr.dtype != indices.dtype or indptr.dtype.name not in runtime_api.INDEX_CODES:
        kinds = " and ".join(dict.fromkeys((indptr.dtype.name, indices.dtype.name)))
        return f"autosparse kernels take {INDEX_TEXT} indices throughout, and the matrix has {kinds}"
    if operand._flat:
        return "autosparse kernels take matrices, and the array has one dimension"
    return "the matrix's arrays are not contiguous, aligned and in the machine's byte order"


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
