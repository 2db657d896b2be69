"""Programs with graph neural networks and other networks that contain sparse matrices."""

from __future__ import annotations

import torch
from torch.nn import functional

from torchlib.program import Step, TorchProgram, descent, graph, normalised, numbers, weights


def _sizes(toy: bool, n: int = 20_000) -> tuple[int, int, int]:
    """Return the numbers of nodes, features and hidden units."""
    return (60, 8, 6) if toy else (n, 64, 32)


def _gcn(dtype: torch.dtype, toy: bool) -> Step:
    n, f, h = _sizes(toy)
    A, X = normalised(graph(n, 10, dtype)), numbers(n, f, dtype=dtype)
    W, V, target = weights(f, h, dtype=dtype, seed=2), weights(h, 8, dtype=dtype, seed=3), numbers(n, 8, dtype=dtype)
    return descent([W, V], lambda: functional.mse_loss(A @ (torch.relu(A @ (X @ W)) @ V), target))


def _graphsage(dtype: torch.dtype, toy: bool) -> Step:
    n, f, h = _sizes(toy)
    A, X = graph(n, 10, dtype), numbers(n, f, dtype=dtype)
    A = torch.sparse_csr_tensor(A.crow_indices(), A.col_indices(), torch.ones_like(A.values()), A.shape)
    own, near, out = (weights(a, b, dtype=dtype, seed=s) for a, b, s in ((f, h, 2), (f, h, 3), (h, 8, 4)))
    target = numbers(n, 8, dtype=dtype)

    def loss() -> torch.Tensor:
        hidden = torch.relu(X @ own + torch.sparse.mm(A, X, "mean") @ near)
        return functional.mse_loss(torch.sparse.mm(A, hidden, "mean") @ out, target)

    return descent([own, near, out], loss)


def _softmax(A: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Compute the softmax of scores over the entries of each row of A."""
    rows = torch.repeat_interleave(torch.arange(A.shape[0]), A.crow_indices().diff())
    powers = (scores - scores.detach().max()).exp()
    sums = torch.zeros(A.shape[0], dtype=scores.dtype).index_add(0, rows, powers)
    return powers / sums[rows]


def _gat(dtype: torch.dtype, toy: bool) -> Step:
    n, f, h = _sizes(toy, 8_000)
    A, X = graph(n, 10, dtype), numbers(n, f, dtype=dtype)
    rows, columns = torch.repeat_interleave(torch.arange(n), A.crow_indices().diff()), A.col_indices()
    W, left, right = (weights(*shape, dtype=dtype, seed=s) for shape, s in (((f, h), 2), ((h,), 3), ((h,), 4)))
    target = numbers(n, h, dtype=dtype)

    def loss() -> torch.Tensor:
        H = X @ W
        scores = functional.leaky_relu((H @ left)[rows] + (H @ right)[columns], 0.2)
        S = torch.sparse_csr_tensor(A.crow_indices(), columns, _softmax(A, scores), A.shape, check_invariants=False)
        return functional.mse_loss(torch.sparse.mm(S, H), target)

    return descent([W, left, right], loss)


def _gin(dtype: torch.dtype, toy: bool) -> Step:
    n, f, h = _sizes(toy)
    A, X = normalised(graph(n, 8, dtype)), numbers(n, f, dtype=dtype)
    W, V, U = (weights(a, b, dtype=dtype, seed=s) for a, b, s in ((f, h, 2), (h, h, 3), (h, 8, 4)))
    target = numbers(n, 8, dtype=dtype)

    def loss() -> torch.Tensor:
        H = torch.relu(torch.relu((1.1 * X + A @ X) @ W) @ V)
        return functional.mse_loss((1.1 * H + A @ H) @ U, target)

    return descent([W, V, U], loss)


def _appnp(dtype: torch.dtype, toy: bool) -> Step:
    n, f, h = _sizes(toy)
    A, X = normalised(graph(n, 8, dtype)), numbers(n, f, dtype=dtype)
    W, V, target = weights(f, h, dtype=dtype, seed=2), weights(h, 8, dtype=dtype, seed=3), numbers(n, 8, dtype=dtype)

    def loss() -> torch.Tensor:
        H = Z = torch.relu(X @ W) @ V
        for _ in range(6):
            Z = 0.9 * (A @ Z) + 0.1 * H
        return functional.mse_loss(Z, target)

    return descent([W, V], loss)


def _pruned_mlp(dtype: torch.dtype, toy: bool) -> Step:
    d, h, n = (20, 30, 8) if toy else (784, 1024, 256)
    generator = torch.Generator().manual_seed(5)
    layers = []
    for a, b in ((d, h), (h, h), (h, 10)):
        W = numbers(b, a, dtype=dtype, seed=b) / a**0.5
        layers.append((W * (torch.rand(b, a, generator=generator) < 0.05)).to_sparse_csr())
    biases, X = [numbers(len(W), dtype=dtype) for W in layers], numbers(n, d, dtype=dtype)

    def step() -> torch.Tensor:
        with torch.no_grad():
            H = X
            for W, bias in zip(layers, biases, strict=True):
                H = torch.relu(functional.linear(H, W) + bias)
        return H

    return step


def _sparse_linear(dtype: torch.dtype, toy: bool) -> Step:
    n, m, k = (30, 40, 4) if toy else (4_000, 6_000, 64)
    W, bias = graph(n, 30, dtype, n_columns=m).requires_grad_(), weights(n, 1, dtype=dtype, seed=4)
    X, target = numbers(m, k, dtype=dtype), numbers(n, k, dtype=dtype)

    def loss() -> torch.Tensor:
        return functional.mse_loss(torch.sparse.addmm(bias.expand(n, k), W, X), target)

    def step() -> torch.Tensor:
        W.grad = bias.grad = None
        value = loss()
        value.backward()
        with torch.no_grad():
            W.values().add_(W.grad.values() if W.grad.layout is torch.sparse_csr else W.grad.sum(), alpha=-0.01)
            bias.add_(bias.grad, alpha=-0.01)
        return value.detach()

    return step


def _mini_batches(dtype: torch.dtype, toy: bool) -> Step:
    n, f, h, size = (60, 8, 6, 10) if toy else (100_000, 32, 16, 1_000)
    A, X = graph(n, 10, dtype), numbers(n, f, dtype=dtype)
    crow, col, values = A.crow_indices(), A.col_indices(), A.values()
    W, target = weights(f, h, dtype=dtype, seed=2), numbers(n, h, dtype=dtype)
    generator = torch.Generator().manual_seed(6)

    def loss() -> torch.Tensor:
        first = int(torch.randint(n - size, (), generator=generator))
        starts = crow[first : first + size + 1]
        a, b = int(starts[0]), int(starts[-1])
        batch = torch.sparse_csr_tensor(starts - a, col[a:b].clone(), values[a:b].clone(), (size, n))
        return functional.mse_loss((batch @ X) @ W, target[first : first + size])

    return descent([W], loss)


def _attention_mask(dtype: torch.dtype, toy: bool) -> Step:
    n, d = (40, 8) if toy else (4_096, 64)
    M = graph(n, 32, dtype)
    mask = torch.sparse_csr_tensor(M.crow_indices(), M.col_indices(), torch.zeros_like(M.values()), M.shape)
    Q, K, V = (numbers(n, d, dtype=dtype, seed=s) for s in (2, 3, 4))

    def step() -> torch.Tensor:
        scores = torch.sparse.sampled_addmm(mask, Q, K.t(), beta=0, alpha=d**-0.5)
        S = torch.sparse_csr_tensor(M.crow_indices(), M.col_indices(), _softmax(M, scores.values()), M.shape)
        return S @ V

    return step


def _autoencoder(dtype: torch.dtype, toy: bool) -> Step:
    n, m, h = (40, 50, 6) if toy else (6_000, 3_000, 64)
    X = normalised(graph(n, 20, dtype, n_columns=m))
    W, V, target = weights(m, h, dtype=dtype, seed=2), weights(h, m, dtype=dtype, seed=3), numbers(256, m, dtype=dtype)
    rows = torch.arange(0, n, max(n // 256, 1))[:256]
    target = target[: len(rows)]
    return descent([W, V], lambda: functional.mse_loss(torch.tanh(X @ W)[rows] @ V, target))


PROGRAMS = (
    TorchProgram(name="gcn", what="two layers of graph convolutions, trained", prepare=_gcn, steps=30),
    TorchProgram(name="graphsage", what="means over neighbours, trained", prepare=_graphsage, steps=20),
    TorchProgram(name="gat", what="attention over neighbours, trained: new values at each step", prepare=_gat, steps=5),
    TorchProgram(name="gin", what="sums over neighbours and perceptrons, trained", prepare=_gin, steps=20),
    TorchProgram(name="appnp", what="six propagations after a perceptron, trained", prepare=_appnp, steps=20),
    TorchProgram(name="pruned_mlp", what="inference with pruned layers: linear of CSR", prepare=_pruned_mlp, steps=60),
    TorchProgram(name="sparse_linear", what="a sparse layer with sparse gradients", prepare=_sparse_linear, steps=60),
    TorchProgram(name="mini_batches", what="a new matrix at each step, trained", prepare=_mini_batches, steps=600),
    TorchProgram(name="attention_mask", what="attention at a mask's entries", prepare=_attention_mask, steps=60),
    TorchProgram(name="autoencoder", what="sparse input, dense layers, trained", prepare=_autoencoder, steps=20),
)
