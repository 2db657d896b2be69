"""Look-up of plans that earlier processes left for a product of a light matrix, without the C runtime."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any, Final

from autosparse import configured, light
from autosparse.light import Rows

_DEFAULTS: Final = (None, None, None, None, False)
"""Options of accounts where no option is set: isa, storage, hybrid, compiler and vendor."""


def has_plan(rows: Rows, B: Any, *, transposed: bool) -> bool:
    """Return whether earlier processes left a plan for this product that saves the time in which the library loads."""
    content = configured.accounts_content()
    if not content:
        return False
    indptr, indices, data = rows.arrays
    operand = SimpleNamespace(
        indptr=indptr, indices=indices, nnz=indices.size, n_major=rows.n_major, n_minor=rows.n_minor
    )
    n_vecs, names = B.size // max(1, B.shape[0]), importlib.import_module("autosparse.ops.names")
    key = configured.account_key(
        configured.structure_sample(operand), names.MATMUL, 0, transposed, max(0, n_vecs - 1).bit_length(),
        data.dtype.name, light.n_threads, *_DEFAULTS,
    )  # fmt: skip
    if key not in content:
        return False
    accounts = importlib.import_module("autosparse.cache.accounts.rows")
    _, account = accounts.folded(accounts.with_key(content, key)).get(key) or (0.0, accounts.Account())
    plan = account.plan
    if plan is None or plan.flags & accounts.NOTHING_FASTER:
        return False
    saved_share = 1.0 - plan.measured_s / plan.default_s if plan.default_s else 0.0
    return bool(plan.is_asked or saved_share * account.spent.mean_product_s * 1e9 > light.LOADING_NS)
