"""Train GCN, GraphSAGE and GAT with autosparse's products and with torch's, from the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

import autosparse as asp
from autosparse.cuda import matrix
from autosparse.cuda.structure import structure_of
from gpulib.measure import Clock

WIDTHS: Final = (128, 64, 16)
"""Numbers of features, hidden units and classes."""
DRY_WIDTHS: Final = (8, 8, 4)
EPOCHS: Final = 5
LOSS_TOLERANCE: Final = 1e-3
Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # values (nnz,), H (n, K) -> A(values) H


class Graph:
    """Index arrays of a square matrix on a device; row i aggregates over its columns."""

    def __init__(self, given: Any, place: str) -> None:
        self.crow, self.col = (
            torch.from_numpy(one.astype("int32")).to(place) for one in (given.indptr, given.indices)
        )  # fmt: skip
        self.n, self.nnz = given.shape[0], int(given.nnz)
        self.structure = structure_of(self.crow, self.col, self.n)
        degrees = self.crow.long().diff()
        self.rows = torch.repeat_interleave(torch.arange(self.n, device=place), degrees)
        self.cols = self.col.long()
        self.mean = (1 / degrees.clamp(min=1))[self.rows]
        ends = torch.bincount(self.cols, minlength=self.n).clamp(min=1)
        self.balanced = (degrees.clamp(min=1)[self.rows] * ends[self.cols]).float().rsqrt()

    def ours(self) -> Product:
        """Return the product by autosparse, with gradients for the values."""
        A = matrix.CudaCsr(self.structure, torch.ones(self.nnz, device=self.col.device))
        return lambda values, H: A.with_values(values) @ H

    def theirs(self) -> Product:
        """Return the product by torch.sparse.

        If the values need gradients, gathered rows are used instead, because torch.sparse would make the gradient
        dense.
        """

        def product(values: torch.Tensor, H: torch.Tensor) -> torch.Tensor:
            if values.requires_grad:
                return torch.zeros_like(H).index_add(0, self.rows, values[:, None] * H[self.cols])
            A = torch.sparse_csr_tensor(self.crow, self.col, values, (self.n, self.n), check_invariants=False)
            return torch.sparse.mm(A, H)

        return product


def _gcn(graph: Graph, times: Product, H: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    return times(graph.balanced, H @ weights[0])


def _graph_sage(graph: Graph, times: Product, H: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    return H @ weights[0] + times(graph.mean, H @ weights[1])


def _gat(graph: Graph, times: Product, H: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    """Compute one attention head: softmax over the row of LeakyReLU(a · Wh[i] + b · Wh[j])."""
    W, a, b = weights[:3]
    H = H @ W
    scores = torch.nn.functional.leaky_relu((H @ a)[graph.rows] + (H @ b)[graph.cols], 0.2)
    most = torch.zeros(graph.n, device=H.device).index_reduce(0, graph.rows, scores.detach(), "amax")
    raised = (scores - most[graph.rows]).exp()
    sums = torch.zeros(graph.n, device=H.device).index_add(0, graph.rows, raised)
    return times(raised / sums[graph.rows], H)


MODELS: Final = {"GCN": (_gcn, 1, 0), "GraphSAGE": (_graph_sage, 2, 0), "GAT": (_gat, 1, 2)}
"""Layer, number of its weight matrices and number of its weight vectors, by model."""


def train(name: str, graph_name: str, given: Any, clock: Clock) -> dict[str, Any]:
    """Train a network of two layers with both products; return the median seconds per epoch and the errors of the
    losses.

    Seconds are recorded only if the losses agree. Epochs before the timing make the plans.
    """
    graph = Graph(given, clock.place)
    losses, seconds, choices = {}, {}, graph.structure.choices
    for who, times in (("torch", graph.theirs()), ("autosparse", graph.ours())):
        epoch, found = _epoch(name, graph, times, clock)
        asp.set_options(runs=10**9)  # set globally: torch runs backward in its own threads
        epoch()  # makes the plans
        epoch()
        asp.set_options(runs=None)
        losses[who] = found
        seconds[who] = clock.seconds(epoch, EPOCHS)
    short = min(map(len, losses.values()))
    errors = {who: _furthest(found[:short], losses["torch"][:short]) for who, found in losses.items()}
    wrong = [who for who, error in errors.items() if not error <= LOSS_TOLERANCE]
    return {
        "case": f"networks {name} {graph_name}", "part": "networks", "nnz": graph.nnz, "errors": errors, "failed": {},
        "wrong": wrong, "rejected": [why for made in choices.values() for why in made.rejected],
        "served": [sum(made.launch is not None for made in choices.values()), len(choices)],
        "seconds": {who: one for who, one in seconds.items() if who not in wrong},
        "device": clock.name, "torch": torch.__version__, "is_dry": not clock.is_gpu,
    }  # fmt: skip


def _epoch(name: str, graph: Graph, times: Product, clock: Clock) -> tuple[Callable[[], None], list[Any]]:
    """Return a function that trains one epoch from weights of a fixed seed, and the list that receives its losses."""
    layer, n_matrices, n_vectors = MODELS[name]
    torch.manual_seed(0)
    place = clock.place
    features, hidden_units, classes = WIDTHS if clock.is_gpu else DRY_WIDTHS
    X, labels = torch.randn(graph.n, features).to(place), torch.randint(classes, (graph.n,)).to(place)
    widths = ((features, hidden_units), (hidden_units, classes))
    weights = [
        [torch.randn(*shape) / shape[0] ** 0.5 for _ in range(n_matrices)]
        + [torch.randn(shape[1]) / shape[1] ** 0.5 for _ in range(n_vectors)]
        for shape in widths
    ]
    placed = [[one.to(place).requires_grad_() for one in group] for group in weights]
    optimizer = torch.optim.Adam([one for group in placed for one in group], lr=1e-3)
    losses: list[Any] = []

    def epoch() -> None:
        optimizer.zero_grad()
        hidden = layer(graph, times, X, placed[0]).relu()
        loss = torch.nn.functional.cross_entropy(layer(graph, times, hidden, placed[1]), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    return epoch, losses


def _furthest(found: list[Any], wanted: list[Any]) -> float:
    """Return the largest difference of two runs' losses."""
    return max(abs(float(a) - float(b)) for a, b in zip(found, wanted, strict=True))
