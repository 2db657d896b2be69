"""Fuzzed products under `asp.torch.override()`: malformed tensors are refused, unusual ones give PyTorch's answer.

``python -m tests.fuzz.override_calls N SEED`` runs N cases. After a crash, the last seed printed names the case.
"""

from __future__ import annotations

import random
import sys
import warnings

import torch

import autosparse.torch as asp
from autosparse.torch import thresholds
from autosparse.torch.dispatcher import extension

REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
DTYPES = (
    *(torch.float32, torch.float64) * 4, torch.complex64, torch.complex128, torch.float16, torch.bfloat16, torch.int32,
    torch.int64, torch.bool,
)  # fmt: skip
LOOSE = {torch.float16: 3e-2, torch.bfloat16: 2e-1, torch.float32: 1e-3, torch.complex64: 1e-3}
BLOCKS, SIDE = (torch.sparse_bsr, torch.sparse_bsc), 2
WRONG_INDICES = (-1, -(2**31), 2**31 - 1, 10**6, -5)


class Wrong(AssertionError):
    """A malformed tensor was answered, an answer differs from PyTorch's, or a valid call was refused."""


class Case:
    """Random tensor, its dense form, and whether it is malformed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        torch.manual_seed(seed)
        rng = self.rng
        self.n, self.m = (rng.choice((0, 1, 2, 5, 17, 90)) for _ in range(2))
        self.dtype, self.index = rng.choice(DTYPES), rng.choice((torch.int32, torch.int64))
        self.layout = rng.choice((torch.sparse_csr, torch.sparse_csr, torch.sparse_csc, torch.sparse_coo, *BLOCKS))
        if self.layout in BLOCKS:
            self.n, self.m = (max(SIDE, extent - extent % SIDE) for extent in (self.n, self.m))
        self.is_malformed = rng.random() < 0.4
        D = self.numbers(self.n, self.m) * (torch.rand(self.n, self.m) < rng.choice((0.0, 0.1, 0.5)))
        self.D = D.to(self.dtype)
        self.A = self.odd(self.tensor())

    def numbers(self, *shape: int) -> torch.Tensor:
        """Return small whole numbers, which every dtype represents."""
        return torch.randint(-3, 4, shape).to(self.dtype)

    def dense(self, *shape: int) -> torch.Tensor:
        """Return a dense operand with a random layout, flags, and sometimes a wrong dtype or shape."""
        X, way = self.numbers(*shape), self.rng.randrange(10)
        if way == 0 and X.dim() == 2:
            return X.t().contiguous().t()
        if way == 1:
            return torch.cat([X, X], -1)[..., : X.shape[-1]]
        if way == 2 and X.is_complex():
            return X.conj()
        if way == 3 and X.dtype in (torch.float32, torch.float64):
            return torch._neg_view(X)
        if way == 4 and X.dim() == 2 and X.shape[0]:
            return X[:1].expand(X.shape)
        if way == 5 and self.rng.random() < 0.3:
            return X.to(self.rng.choice(DTYPES))
        if way == 6 and self.rng.random() < 0.3:
            return torch.cat([X, X], 0)
        if way == 7 and (X.is_floating_point() or X.is_complex()):
            return X.requires_grad_()
        return X

    def tensor(self) -> torch.Tensor:
        """Return the matrix in its layout, with invalid arrays if the case is malformed."""
        if self.layout is torch.sparse_coo:
            S = self.D.to_sparse_coo()
            return self.spoiled_coordinates(S) if self.is_malformed else S
        sides = (SIDE, SIDE) if self.layout in BLOCKS else None
        S = self.D.to_sparse(layout=self.layout, blocksize=sides)
        by_rows = self.layout in (torch.sparse_csr, torch.sparse_bsr)
        starts, indices = (S.crow_indices(), S.col_indices()) if by_rows else (S.ccol_indices(), S.row_indices())
        starts, indices, values = starts.to(self.index), indices.to(self.index), S.values()
        if self.is_malformed:
            extent = (self.m if by_rows else self.n) // (SIDE if sides else 1)
            starts, indices, values = self.spoiled(starts, indices, values, extent)
        return torch.sparse_compressed_tensor(
            starts, indices, values, self.D.shape, layout=self.layout, check_invariants=False
        )

    def spoiled(self, starts, indices, values, extent):
        """Return the arrays with a fault that PyTorch's invariant check would find."""
        rng, way, nnz = self.rng, self.rng.randrange(6), len(indices)
        starts, indices = starts.clone(), indices.clone()
        if way == 0 and nnz:
            indices[rng.randrange(nnz)] = rng.choice((*WRONG_INDICES, extent, extent + 1))
        elif way == 1 and len(starts) > 2:
            at = rng.randrange(1, len(starts) - 1)
            starts[at] = rng.choice((-1, nnz + 1, nnz + 10**6, -(10**6)))
        elif way == 2:
            starts = starts[:-1] if len(starts) > 1 and rng.random() < 0.5 else torch.cat([starts, starts[-1:]])
        elif way == 3:
            values = values.new_zeros(max(nnz + rng.choice((-1, 1, 50)), 0), *values.shape[1:])
            self.is_malformed = len(values) != nnz
        elif way == 4:
            starts[0] = rng.choice((1, -1, 10**6))
        else:
            starts[-1] = nnz + rng.choice((1, 10**6, -(10**6)))
        return starts, indices, values

    def spoiled_coordinates(self, S):
        """Return the COO tensor with an index outside its shape, if it has entries."""
        indices, dim = S._indices().clone(), self.rng.randrange(2)
        self.is_malformed = bool(indices.shape[1])
        if self.is_malformed:
            indices[dim, self.rng.randrange(indices.shape[1])] = self.rng.choice((*WRONG_INDICES, S.shape[dim], 2**62))
        return torch.sparse_coo_tensor(
            indices, S._values(), S.shape, is_coalesced=self.rng.random() < 0.5, check_invariants=False
        )

    def odd(self, A: torch.Tensor) -> torch.Tensor:
        """Return the tensor, or an unusual one of equal value."""
        way = self.rng.randrange(8)
        if way == 0 and (A.is_floating_point() or A.is_complex()):
            return A.requires_grad_()
        if way == 1:
            return A.detach()
        if way == 2 and self.layout is torch.sparse_coo and self.n and self.m:
            return torch.sparse_coo_tensor(A._indices().flip(1), A._values().flip(0), A.shape)
        if way == 3 and self.layout is not torch.sparse_coo and not self.is_malformed:
            return A.clone()
        return A


def calls(case: Case):
    """Yield (name, call on the sparse tensor, the same call on the dense one or None)."""
    n, m, k = case.n, case.m, case.rng.choice((0, 1, 3, 40))
    B, C, x, y, X = case.dense(m, k), case.dense(n, k), case.dense(m), case.dense(n), case.dense(k, n)
    P, Q = case.dense(n, 4), case.dense(4, m)
    beta, alpha = case.rng.choice(((1, 1), (0, 1), (2, 3), (1, 0)))
    yield "mm", lambda A: A @ B, lambda D: D @ B
    yield "mv", lambda A: A @ x, lambda D: D @ x
    yield "rows", lambda A: X @ A, lambda D: X @ D
    yield "transposed", lambda A: A.t() @ C, lambda D: D.t() @ C
    yield "addmm", lambda A: torch.addmm(C, A, B, beta=beta, alpha=alpha), None
    yield "addmv", lambda A: torch.addmv(y, A, x, beta=beta, alpha=alpha), None
    yield "out", lambda A: torch.mm(A, B, out=torch.empty(n, k, dtype=case.dtype)), lambda D: D @ B
    yield "sparse.mm", lambda A: torch.sparse.mm(A, B), lambda D: D @ B
    if case.layout is torch.sparse_csr:
        yield "sampled", lambda A: torch.sparse.sampled_addmm(A, P, Q, beta=beta, alpha=alpha), None
        yield "reduce", lambda A: torch.sparse.mm(A, B, case.rng.choice(("sum", "mean", "amax"))), None
        yield "linear", lambda A: torch.nn.functional.linear(Q, A), None
    if case.layout is torch.sparse_coo:
        yield "sparse", lambda A: A @ A.t(), lambda D: D @ D.t()
        yield "sparse.mm sparse", lambda A: torch.sparse.mm(A.t(), A), lambda D: D.t() @ D
        yield "smm", lambda A: torch.smm(A, B), lambda D: D @ B
        yield "hspmm", lambda A: torch.hspmm(A, B), lambda D: D @ B
        yield "bmm", lambda A: torch.bmm(torch.stack([A, A]), torch.stack([B, B])), None


def outcome(call, A):
    """Return the result of a call as a dense tensor, or the exception that it raises."""
    try:
        result = call(A)
    except REFUSALS as error:
        return error
    result = result if result.layout is torch.strided else result.to_dense()
    return result.detach().resolve_conj().resolve_neg()


def run(seed: int) -> str:
    """Run one case and return its call and outcome. Raise `Wrong` if the outcome is not allowed."""
    case = Case(seed)
    name, call, _ = case.rng.choice(list(calls(case)))
    is_asked = case.rng.random() < 0.6
    if extension.library is not None:
        extension.library.compute(is_asked)
    thresholds.DIRECT_PRODUCT = thresholds.DIRECT_SAMPLE = case.rng.choice((8, 1 << 18))
    told = f"case {seed} ({name}, {case.layout}, {case.dtype}, {case.n} x {case.m})"
    with asp.override(sparse_gradients=case.rng.random() < 0.2):
        state = case.rng.getstate()
        ours = outcome(call, case.A)
    if case.is_malformed:
        if isinstance(ours, torch.Tensor):
            raise Wrong(f"{told} is malformed and was answered")
        return f"{name} malformed"
    case.rng.setstate(state)
    stock = outcome(call, case.A)
    if isinstance(ours, Exception):
        if isinstance(stock, torch.Tensor):
            raise Wrong(f"{told} is PyTorch's to answer and was refused: {ours!r}") from ours
        return f"{name} refused"
    if isinstance(stock, torch.Tensor):
        kind = torch.complex128 if stock.is_complex() else torch.float64
        same = ours.shape == stock.shape and ours.dtype is stock.dtype
        if not same or not torch.allclose(ours.to(kind), stock.to(kind), rtol=LOOSE.get(stock.dtype, 1e-9), atol=1e-6):
            raise Wrong(f"{told}: {ours} is not {stock}")
    return f"{name} right"


def run_all(n: int, seed: int, *, tell: bool = False) -> dict[str, int]:
    """Return the number of cases by outcome."""
    tally: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place in range(n):
            if tell:
                sys.stderr.write(f"{seed + place}\n")
            found = run(seed + place)
            tally[found] = tally.get(found, 0) + 1
    return tally


if __name__ == "__main__":
    sys.stdout.write(repr(run_all(int(sys.argv[1]), int(sys.argv[2]), tell=True)) + "\n")
