"""Graph networks for `gnn.py`: tasks made of real graphs, and the sparse part of each model by each library.

The models are those of examples/. A contender is a function of the task that returns a function of the model.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from peerlib.matrices import load

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

FEATURES: Final = {"cora_shchur": "cora_shchur_attr", "citeseer_shchur": "citeseer_shchur_attr"}
N_CLASSES: Final = 7
RANDOM_FEATURES: Final = 128


@dataclass(frozen=True)
class Task:
    """A graph with self-loops, features and classes, shared by all contenders."""

    name: str
    A: Any  # torch.sparse_csr, ones
    normalised: Any  # the same with the weights of a graph convolution
    X: Any
    labels: Any

    def to(self, dtype: Any) -> Task:
        """Return the task with values of another dtype."""
        A, normalised, X = (tensor.to(dtype) for tensor in (self.A, self.normalised, self.X))
        return replace(self, A=A, normalised=normalised, X=X)


def make_task(folder: Path, name: str) -> Task:
    """Read the graph `name` and make it undirected, with self-loops."""
    import scipy.sparse
    import torch
    from graph import normalised

    m = load(folder / f"{name}.npz", dtype="float32")
    n = m.shape[0]
    m = scipy.sparse.csr_array(m + m.T + scipy.sparse.eye_array(n, dtype="float32"))
    m.data[:] = 1.0
    A = torch.sparse_csr_tensor(
        torch.from_numpy(m.indptr).long(), torch.from_numpy(m.indices).long(), torch.from_numpy(m.data), m.shape
    )
    generator = torch.Generator().manual_seed(0)
    features = folder / f"{FEATURES.get(name, '')}.npz"
    if features.is_file():
        X = torch.from_numpy(load(features, dtype="float32").toarray())
    else:
        X = torch.randn(n, RANDOM_FEATURES, generator=generator)
    weights = normalised(A)
    labels = (weights @ (X @ torch.randn(X.shape[1], N_CLASSES, generator=generator))).argmax(1)
    return Task(name, A, weights, X, labels)


# -- contenders: task -> a function of the model that computes its output -------------------------------------------

Forward = Callable[[Any], Any]


def gcn_plain(task: Task) -> Forward:
    return lambda model: model(task.normalised, task.X)


def gcn_ours(task: Task) -> Forward:
    import autosparse

    A = autosparse.torch.csr(task.normalised)
    return lambda model: model(A, task.X)


def sage_plain(task: Task) -> Forward:
    import torch

    return lambda model: model(lambda X: torch.sparse.mm(task.A, X, "mean"), task.X)


def sage_ours(task: Task) -> Forward:
    import autosparse

    A = autosparse.torch.csr(task.A)
    return lambda model: model(lambda X: autosparse.torch.spmm(A, X, reduce="mean"), task.X)


def gat_plain(task: Task) -> Forward:
    from gat import plain_attention

    return lambda model: model(lambda t, s, X: plain_attention(task.A, t, s, X), task.X)


def gat_ours(task: Task) -> Forward:
    import autosparse

    A = autosparse.torch.csr(task.A)
    return lambda model: model(lambda t, s, X: autosparse.torch.gat(A, t, s, X), task.X)


def _edges(task: Task) -> tuple[Any, Any]:
    import torch

    crow = task.A.crow_indices()
    return torch.arange(task.A.shape[0]).repeat_interleave(crow.diff()), task.A.col_indices()


def gcn_pyg(task: Task) -> Forward:
    from torch_geometric.utils import spmm

    class Adjacency:
        def __matmul__(self, X: Any) -> Any:
            return spmm(task.normalised, X, reduce="sum")

    return lambda model: model(Adjacency(), task.X)


def sage_pyg(task: Task) -> Forward:
    from torch_geometric.utils import spmm

    return lambda model: model(lambda X: spmm(task.A, X, reduce="mean"), task.X)


def gat_pyg(task: Task) -> Forward:
    import torch
    from torch_geometric.utils import scatter, softmax

    row, col = _edges(task)

    def attention(target: Any, source: Any, X: Any) -> Any:
        scores = torch.nn.functional.leaky_relu(target[row] + source[col], 0.2)
        alpha = softmax(scores, row, num_nodes=X.shape[0])
        return scatter(alpha.unsqueeze(2) * X[col], row, dim_size=X.shape[0], reduce="sum")

    return lambda model: model(attention, task.X)


def _dgl_graph(task: Task) -> Any:
    import dgl

    row, col = _edges(task)
    return dgl.graph((col, row), num_nodes=task.A.shape[0])  # edges point from source to target


def gcn_dgl(task: Task) -> Forward:
    import dgl

    graph, weights = _dgl_graph(task), task.normalised.values()

    class Adjacency:
        def __matmul__(self, X: Any) -> Any:
            return dgl.ops.u_mul_e_sum(graph, X, weights.unsqueeze(1))

    return lambda model: model(Adjacency(), task.X)


def sage_dgl(task: Task) -> Forward:
    import dgl

    graph = _dgl_graph(task)
    return lambda model: model(lambda X: dgl.ops.copy_u_mean(graph, X), task.X)


def gat_dgl(task: Task) -> Forward:
    import dgl
    import torch

    graph = _dgl_graph(task)

    def attention(target: Any, source: Any, X: Any) -> Any:
        scores = torch.nn.functional.leaky_relu(dgl.ops.u_add_v(graph, source, target), 0.2)
        return dgl.ops.u_mul_e_sum(graph, X, dgl.ops.edge_softmax(graph, scores).unsqueeze(2))

    return lambda model: model(attention, task.X)


def compiled(make: Callable[[Task], Forward]) -> Callable[[Task], Forward]:
    """Return the plain contender under torch.compile, whose graph breaks at the sparse product."""

    def make_compiled(task: Task) -> Forward:
        import torch

        return torch.compile(make(task), dynamic=False)

    return make_compiled


@dataclass(frozen=True)
class Model:
    """One model: its class in examples/, and its sparse part by each library."""

    make: Callable[[int, int], Any]  # (features, hidden) -> module
    plain: Callable[[Task], Forward]
    ours: Callable[[Task], Forward]
    pyg: Callable[[Task], Forward]
    dgl: Callable[[Task], Forward]


def _gcn(n_features: int, n_hidden: int) -> Any:
    from gcn import GCN

    return GCN(n_features, n_hidden, N_CLASSES)


def _sage(n_features: int, n_hidden: int) -> Any:
    from graphsage import GraphSAGE

    return GraphSAGE(n_features, n_hidden, N_CLASSES)


def _gat(n_features: int, n_hidden: int) -> Any:
    from gat import GAT

    return GAT(n_features, n_hidden // 8, N_CLASSES, heads=8)


MODELS: Final = {
    "gcn": Model(_gcn, gcn_plain, gcn_ours, gcn_pyg, gcn_dgl),
    "sage": Model(_sage, sage_plain, sage_ours, sage_pyg, sage_dgl),
    "gat": Model(_gat, gat_plain, gat_ours, gat_pyg, gat_dgl),
}


def contenders(model: Model, *, with_compile: bool) -> Iterator[tuple[str, Callable[[Task], Forward], bool]]:
    """Yield (name, function that makes the contender, whether it runs under the override)."""
    yield "torch.sparse", model.plain, False
    yield "autosparse override", model.plain, True
    yield "autosparse", model.ours, False
    if with_compile:
        yield "torch.compile", compiled(model.plain), False
    if importlib.util.find_spec("torch_geometric"):
        yield "PyG", model.pyg, False
    if importlib.util.find_spec("dgl"):
        yield "DGL", model.dgl, False
