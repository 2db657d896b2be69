"""Programs with iterations of linear algebra and optimisation on torch's sparse tensors."""

from __future__ import annotations

import torch

from torchlib.program import Step, TorchProgram, graph, normalised, numbers


def _label_propagation(dtype: torch.dtype, toy: bool) -> Step:
    n = 60 if toy else 30_000
    A, labels = normalised(graph(n, 10, dtype)), torch.zeros(n, 16, dtype=dtype)
    labels[torch.arange(0, n, 10), torch.arange(0, n, 10) % 16] = 1
    state = labels.clone()

    def step() -> torch.Tensor:
        state.copy_(0.8 * (A @ state) + 0.2 * labels)
        return state

    return step


def _pagerank(dtype: torch.dtype, toy: bool) -> Step:
    n = 60 if toy else 50_000
    P, rank = normalised(graph(n, 8, dtype)).t().to_sparse_csr(), torch.full((n,), 1 / n, dtype=dtype)

    def step() -> torch.Tensor:
        rank.copy_(0.85 * (P @ rank) + 0.15 / n)
        return rank

    return step


def _chebyshev(dtype: torch.dtype, toy: bool) -> Step:
    n, k = (60, 4) if toy else (20_000, 16)
    A, X = normalised(graph(n, 8, dtype)), numbers(n, k, dtype=dtype)

    def step() -> torch.Tensor:
        before, now, total = X, A @ X, X.clone()
        for order in range(2, 8):
            before, now = now, 2 * (A @ now) - before
            total += now / order
        return total

    return step


def _power_iteration(dtype: torch.dtype, toy: bool) -> Step:
    n = 60 if toy else 2_000
    A, x = graph(n, 8, dtype), torch.ones(n, dtype=dtype)

    def step() -> torch.Tensor:
        y = A @ x
        x.copy_(y / y.norm())
        return x

    return step


def _cg(dtype: torch.dtype, toy: bool) -> Step:
    side = 8 if toy else 60
    n = side * side
    i = torch.arange(n)
    row, column = i // side, i % side
    parts = [(i, i, torch.full((n,), 4.2, dtype=dtype))]
    for keep, shift in ((column < side - 1, 1), (column > 0, -1), (row < side - 1, side), (row > 0, -side)):
        parts.append((i[keep], i[keep] + shift, torch.full((int(keep.sum()),), -1.0, dtype=dtype)))
    at = torch.stack([torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])])
    A = torch.sparse_coo_tensor(at, torch.cat([p[2] for p in parts]), (n, n)).coalesce().to_sparse_csr()
    b, x = numbers(n, dtype=dtype), torch.zeros(n, dtype=dtype)
    r, p = b.clone(), b.clone()

    def step() -> torch.Tensor:
        Ap = A @ p
        old = r @ r
        alpha = old / (p @ Ap).clamp(min=1e-30)
        x.add_(alpha * p)
        r.sub_(alpha * Ap)
        p.mul_((r @ r) / old.clamp(min=1e-30)).add_(r)
        return x

    return step


def _admm(dtype: torch.dtype, toy: bool) -> Step:
    n, m = (30, 20) if toy else (1_500, 800)
    A = normalised(graph(n, 6, dtype, n_columns=m))
    b = A @ (numbers(m, dtype=dtype) * (torch.arange(m) % 10 == 0))
    x, z, u = (torch.zeros(m, dtype=dtype) for _ in range(3))
    At = A.t()
    rate = 1 / (1 + float((At @ torch.ones(n, dtype=dtype)).max()))  # rows sum to 1, so this bounds the norm of At A

    def step() -> torch.Tensor:
        for _ in range(2):  # gradient steps on the quadratic
            x.sub_(rate * (At @ (A @ x - b) + (x - z + u)))
        z.copy_(torch.nn.functional.softshrink(x + u, 0.01))
        u.add_(x - z)
        return z

    return step


def _matrix_factorisation(dtype: torch.dtype, toy: bool) -> Step:
    n, m, k = (40, 30, 4) if toy else (8_000, 5_000, 32)
    R = graph(n, 20, dtype, n_columns=m)
    U, V = (0.1 * numbers(extent, k, dtype=dtype, seed=s) for extent, s in ((n, 2), (m, 3)))

    def step() -> torch.Tensor:
        E = torch.sparse.sampled_addmm(R, U, V.t(), beta=-1)
        U.sub_(0.002 * (E @ V))
        V.sub_(0.002 * (E.t() @ U))
        return V

    return step


def _reductions(dtype: torch.dtype, toy: bool) -> Step:
    n, k = (60, 4) if toy else (15_000, 32)
    A, X = graph(n, 10, dtype), numbers(n, k, dtype=dtype)

    def step() -> torch.Tensor:
        return sum(torch.sparse.mm(A, X, reduce) for reduce in ("sum", "mean", "amax", "amin"))

    return step


def _two_hop(dtype: torch.dtype, toy: bool) -> Step:
    n, k = (60, 4) if toy else (25_000, 32)
    A, X = normalised(graph(n, 8, dtype)), numbers(n, k, dtype=dtype)
    return lambda: torch.cat([X, A @ X, A @ (A @ X)], 1)


PROGRAMS = (
    TorchProgram(name="label_propagation", what="16 labels over a graph", prepare=_label_propagation, steps=100),
    TorchProgram(name="pagerank", what="products with a vector of 50,000", prepare=_pagerank, steps=300),
    TorchProgram(
        name="matrix_factorisation", what="sampled errors and two products", prepare=_matrix_factorisation, steps=60
    ),
    TorchProgram(name="chebyshev", what="a polynomial filter of order 7", prepare=_chebyshev, steps=60),
    TorchProgram(name="power_iteration", what="products with a vector of 2,000", prepare=_power_iteration, steps=3000),
    TorchProgram(name="cg", what="conjugate gradients on a grid of 60 x 60", prepare=_cg, steps=2000),
    TorchProgram(name="admm", what="lasso: small products with A and its transpose", prepare=_admm, steps=1000),
    TorchProgram(name="reductions", what="sum, mean, max and min over rows", prepare=_reductions, steps=20),
    TorchProgram(name="two_hop", what="features of neighbours and of theirs", prepare=_two_hop, steps=30),
)
