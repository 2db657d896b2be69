"""DGL: SpMM and SDDMM as message passing on a graph with an edge per entry, from the column to the row of it.

Wheels of DGL have a library for each of a few versions of torch. These two products need none of them; where another
torch is installed DGL loads if ``dgl/graphbolt/__init__.py`` is emptied.
"""

from __future__ import annotations

import os
from typing import Any

from peerlib.case import Case, Prepared, UnavailableError


def _library(case: Case) -> tuple[Any, Any]:
    """(torch, dgl), with the case's number of threads."""
    import torch

    os.environ.setdefault("DGLBACKEND", "pytorch")  # else it writes its choice into the home folder
    try:
        import dgl
    except (ImportError, OSError) as err:
        raise UnavailableError(f"DGL does not load: {err}") from err
    torch.set_num_threads(case.threads)
    dgl.utils.set_num_threads(case.threads)
    return torch, dgl


def _operands(case: Case) -> tuple[Any, Any, Any, list[Any]]:
    """(dgl, graph over A's own arrays, edges in the order of A's entries; A's values; dense operands)."""
    torch, dgl = _library(case)
    A, dense = case.A, case.B if isinstance(case.B, tuple) else (case.B,)
    indptr, indices, values = map(torch.from_numpy, (A.indptr, A.indices, A.data))
    order = torch.arange(A.nnz if case.operation.n_dense_cols == 1 else 0, dtype=indptr.dtype)  # 1 column: asked for
    edges = ("csc", (indptr, indices, order))
    counts = {"row": A.shape[0], "column": A.shape[1]}
    graph = dgl.heterograph({("column", "entry", "row"): edges}, num_nodes_dict=counts)
    return dgl, graph, values, list(map(torch.from_numpy, dense))


def dgl_sum(case: Case) -> Prepared:
    """``dgl.ops.u_mul_e_sum``: rows of B times the edges' values, summed where the edges end."""
    dgl, graph, values, (B,) = _operands(case)
    weights, product = values[:, None], dgl.ops.u_mul_e_sum
    return Prepared(lambda: product(graph, B, weights).numpy())


def dgl_dots(case: Case) -> Prepared:
    """``dgl.ops.u_dot_v``, and the product with A's values."""
    dgl, graph, values, (X, Y_rows) = _operands(case)
    dots = dgl.ops.u_dot_v
    return Prepared(lambda: dots(graph, Y_rows, X).view(-1).mul_(values).numpy())
