"""DGL as a peer: SpMM and SDDMM as message passing on a graph with an edge per entry, from its column to its row.

Wheels of DGL contain a library for each of a few versions of torch. These two products need none of them. With another
version of torch, DGL loads if ``dgl/graphbolt/__init__.py`` is emptied.
"""

from __future__ import annotations

import os
from typing import Any

from peerlib.case import Case, Prepared, UnavailableError


def _library(case: Case) -> tuple[Any, Any]:
    """Return torch and dgl with the case's number of threads."""
    import torch

    os.environ.setdefault("DGLBACKEND", "pytorch")  # otherwise DGL writes its choice into the home folder
    try:
        import dgl
    except (ImportError, OSError) as err:
        raise UnavailableError(f"DGL does not load: {err}") from err
    torch.set_num_threads(case.threads)
    dgl.utils.set_num_threads(case.threads)
    return torch, dgl


def _operands(case: Case) -> tuple[Any, Any, Any, list[Any]]:
    """Return dgl, the graph, A's values and the dense operands.

    The graph uses A's own arrays; its edges are in the order of A's entries.
    """
    torch, dgl = _library(case)
    A, dense = case.A, case.B if isinstance(case.B, tuple) else (case.B,)
    indptr, indices, values = map(torch.from_numpy, (A.indptr, A.indices, A.data))
    # DGL reads the order of edges only for one column.
    order = torch.arange(A.nnz if case.operation.n_dense_cols == 1 else 0, dtype=indptr.dtype)
    edges = ("csc", (indptr, indices, order))
    counts = {"row": A.shape[0], "column": A.shape[1]}
    graph = dgl.heterograph({("column", "entry", "row"): edges}, num_nodes_dict=counts)
    return dgl, graph, values, list(map(torch.from_numpy, dense))


def dgl_sum(case: Case) -> Prepared:
    """Prepare ``dgl.ops.u_mul_e_sum``: rows of B times the edges' values, summed at the target nodes."""
    dgl, graph, values, (B,) = _operands(case)
    weights, product = values[:, None], dgl.ops.u_mul_e_sum
    return Prepared(lambda: product(graph, B, weights).numpy())


def dgl_dots(case: Case) -> Prepared:
    """Prepare ``dgl.ops.u_dot_v`` followed by the product with A's values."""
    dgl, graph, values, (X, Y_rows) = _operands(case)
    dots = dgl.ops.u_dot_v
    return Prepared(lambda: dots(graph, Y_rows, X).view(-1).mul_(values).numpy())
