"""Random calls of `autosparse.torch` with right arguments, or with one or two wrong ones, and their expected answers.

A call must give what dense tensors of double precision give, or raise a Python exception that says why. Right arguments
must not be refused. ``python -m tests.fuzz.torch_calls N SEED`` exits with 0 if that held for N cases. It writes the
number of each case beforehand, so that a crash names its case.
"""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
import scipy.sparse
import torch

import autosparse.torch as asp
from autosparse.errors import AutosparseError
from autosparse.torch import thresholds
from tests.fuzz.torch_answers import matrix_of, reduced, softmax_of, solid, weighted, wide

REFUSALS = (AutosparseError, RuntimeError, TypeError, ValueError, IndexError, OverflowError, MemoryError)
"""Exceptions with which a call may refuse. An AttributeError, KeyError or ZeroDivisionError tells a user nothing."""
NUMBERS = (torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float16, torch.bfloat16)
REAL = tuple(dtype for dtype in NUMBERS if not dtype.is_complex)
LOOSE = {torch.float32: 1e-3, torch.complex64: 1e-3, torch.float16: 5e-2, torch.bfloat16: 3e-1}
IDS = (-1, -(10**9), -(2**62), 10**9, 2**40, 2**62)


class Wrong(Exception):
    """A call gave a wrong answer, or refused right arguments."""


class Case:
    """Random matrix and random arguments; `faults` names the wrong ones."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        torch.manual_seed(seed)
        self.faults: list[str] = []
        self.is_pytorchs = False  # whether the case calls PyTorch's own operator, which may refuse right arguments
        self.n_left = self.rng.choice((0, 1, 1, 2))  # number of faults to make
        self.n, self.m = (self.rng.choice((0, 1, 2, 3, 5, 8, 40)) for _ in range(2))
        nnz = self.rng.randint(0, 3 * max(self.n, self.m)) if self.n and self.m else 0
        self.row = torch.randint(max(self.n, 1), (nnz,)).sort().values
        self.col = torch.randint(max(self.m, 1), (nnz,))
        self.index = self.rng.choice((torch.int32, torch.int64))
        self.dtype = self.rng.choice(NUMBERS)
        self.values = torch.randn(nnz, dtype=self.dtype)

    @property
    def nnz(self):
        return self.row.shape[0]

    def fault(self, name: str, odds: float = 0.5) -> bool:
        """Decide whether to make this fault; if so, record it and return True."""
        if not self.n_left or self.rng.random() > odds:
            return False
        self.n_left -= 1
        self.faults.append(name)
        return True

    # -- arguments

    def dense(self, *shape: int, dtype=None):
        """Return a tensor of this shape in a random layout; or, as a fault, something else."""
        dtype = dtype or self.dtype
        if self.fault("shape", 0.3):
            shape = self.other_shape(shape)
        if self.fault("dtype", 0.15):
            dtype = self.rng.choice([d for d in (*NUMBERS, torch.int64, torch.bool, torch.uint8) if d is not dtype])
        X = torch.randn(*shape, dtype=dtype) if dtype in NUMBERS else torch.ones(shape, dtype=dtype)
        if self.fault("kind", 0.15):
            kinds = (
                object(),
                3,
                [1.0],
                "x",
                X.tolist(),
                X.numpy if dtype is torch.bfloat16 else np.asarray(X.tolist()),
            )
            return self.rng.choice((*kinds, X.to_sparse(), torch.empty(shape, dtype=dtype, device="meta"), asp.csr))
        return self.placed(X)

    def other_shape(self, shape):
        shape, at = list(shape), self.rng.randrange(len(shape) + 1)
        what = self.rng.randrange(5)
        if what == 0 or not shape:
            return (*shape, self.rng.choice((0, 1, 2)))
        if what == 1:
            return (self.rng.choice((1, 2)), *shape)
        if what == 2:
            return tuple(shape[1:])
        at %= len(shape)
        shape[at] = max(0, shape[at] + self.rng.choice((-1, 1, -shape[at], 7)))
        return tuple(shape)

    def placed(self, X):
        """Return the same numbers in another memory layout."""
        way = self.rng.randrange(9)
        if way == 0 and X.dim() == 2:
            return X.t().contiguous().t()
        if way == 1 and X.dim():
            return torch.stack([X, X], -1)[..., 0]
        if way == 2 and X.dim():
            return torch.cat([X, X])[X.shape[0] :]
        if way == 3 and X.dim() and X.shape[0]:
            return X[:1].expand(X.shape)
        if way == 4 and X.is_complex():
            return X.conj()
        if way == 5 and X.dtype in NUMBERS:
            return torch._neg_view(X)
        if way == 6 and X.dtype in NUMBERS:
            return torch._efficientzerotensor(X.shape, dtype=X.dtype)
        if way == 7 and X.dtype in NUMBERS:
            return X.clone().requires_grad_()
        return X

    def entries(self):
        """Return an edge index, values and the shape of the matrix."""
        values, edges, shape = self.dense(self.nnz), torch.stack([self.row, self.col]).to(self.index), (self.n, self.m)
        if self.nnz and self.fault("id"):
            id_ = self.rng.choice((*IDS, self.n, self.m, max(self.n, self.m)))
            narrow = torch.iinfo(self.index)
            edges[self.rng.randrange(2), self.rng.randrange(self.nnz)] = min(max(id_, narrow.min), narrow.max)
        if self.fault("matrix shape", 0.2):
            shape = self.rng.choice(
                ((self.n,), (self.n, self.m, 1), (-1, self.m), (self.n, 2.5), (0, 0), 7, "ab", (2**70, 1))
            )
            if shape == (0, 0) and not self.nnz:  # a valid matrix
                shape = (-1, self.m)
        return edges, values, shape

    def matrix(self):
        """Return the matrix as `csr` makes it from a random kind of input, with faults in lengths and ids."""
        maker = self.rng.choice((self._edges, self._edges, self._compressed, self._compressed, self._coo, self._scipy))
        return maker()

    def _edges(self):
        order = torch.randperm(self.nnz)
        self.row, self.col = self.row[order], self.col[order]
        edges, values, shape = self.entries()
        A = asp.csr(edges, values, shape)
        back = edges[0].argsort(stable=True)
        self.row, self.col, self.values = edges[0][back].long(), edges[1][back].long(), solid(values)[back]
        return A

    def _compressed(self):
        crow = torch.zeros(self.n + 1, dtype=torch.int64)
        crow[1:] = torch.bincount(self.row, minlength=self.n)[: self.n].cumsum(0)
        crow, col, values = crow.to(self.index), self.col.to(self.index), self.values
        if self.fault("arrays"):
            crow, col, values = self.spoiled(crow, col, values)
        A = torch.sparse_csr_tensor(crow, col, values, (self.n, self.m), check_invariants=False)
        made = asp.csr(A, **self._values_beside())
        self.row, self.col = (
            torch.repeat_interleave(torch.arange(self.n), crow.long().diff()),
            col.long(),
        )  # a fault may leave them valid
        return made

    def spoiled(self, crow, col, values):
        which, rng = self.rng.randrange(6), self.rng
        if which == 0:
            crow = crow.clone()
            crow[rng.randrange(self.n + 1)] += rng.choice((-1, 1, 10**8, -(10**8)))
        elif which == 1:
            crow = crow[:-1] if rng.random() < 0.5 else torch.cat([crow, crow[-1:]])
        elif which == 2 and self.nnz:
            col = col.clone()
            col[rng.randrange(self.nnz)] = rng.choice((self.m, -1, 10**9, -(10**9)))
        elif which == 3 and self.nnz:
            col = col[:-1] if rng.random() < 0.5 else torch.cat([col, col[-1:]])
        elif which == 4:
            values = torch.randn(max(self.nnz + rng.choice((-1, 1, 100)), 0), dtype=self.dtype)
        else:
            crow = torch.cat([crow, torch.full((4,), 10**9, dtype=crow.dtype)])
        return crow, col, values

    def _values_beside(self):
        if self.rng.random() < 0.7:
            return {}
        given = self.dense(self.nnz)
        if isinstance(given, torch.Tensor) and given.layout is torch.strided and given.is_cpu:
            self.values = solid(given)
        return {"values": given}

    def _coo(self):
        edges = torch.stack([self.row, self.col])
        if self.nnz and self.fault("id"):
            edges[self.rng.randrange(2), self.rng.randrange(self.nnz)] = self.rng.choice((*IDS, 41))
        D = torch.sparse_coo_tensor(edges, self.values, (self.n, self.m), check_invariants=False)
        A = asp.csr(D)
        at = torch.sparse_coo_tensor(edges, self.values, (self.n, self.m), check_invariants=False).coalesce()
        (self.row, self.col), self.values = at.indices(), at.values()
        return A

    def _scipy(self):
        dtype = torch.complex128 if self.dtype.is_complex else torch.float64
        self.dtype, self.values = dtype, self.values.to(dtype)
        M = scipy.sparse.coo_array(
            (self.values.numpy(), (self.row.numpy(), self.col.numpy())), (self.n, self.m)
        ).tocsr()
        self.row = torch.from_numpy(np.repeat(np.arange(self.n), np.diff(M.indptr)))
        self.col, self.values = torch.from_numpy(M.indices.astype(np.int64)), torch.from_numpy(M.data.copy())
        if M.nnz and self.fault("id"):
            M.indices[self.rng.randrange(M.nnz)] = self.rng.choice((self.m, -1, 10**9))
        if self.fault("arrays", 0.2):
            M.indptr, M.data = self.rng.choice(
                ((M.indptr[:-1], M.data), (M.indptr, M.data[:-1]), (M.indptr + 1, M.data))
            )
        return asp.csr(M)


# -- calls: each returns its result, and a function that returns the expected result


def spmm(case):
    A, k = case.matrix(), case.rng.choice((0, 1, 3, 9))
    real = not case.dtype.is_complex
    reduce = case.rng.choice(("sum", "sum", "mean", *(("max", "min") if real else ())))
    X = case.dense(case.m, k) if case.rng.random() < 0.7 else case.dense(case.m)
    return asp.spmm(A, X, reduce), lambda: reduced(case, case.values, wide(X), reduce)


def operator(case):
    A, k = case.matrix(), case.rng.choice((0, 1, 3, 9))
    way = case.rng.randrange(4)
    if way == 0:
        X = case.dense(case.m, k)
        return A @ X, lambda: matrix_of(case) @ wide(X)
    if way == 1:
        X = case.dense(case.n, k)
        return A.T @ X, lambda: matrix_of(case).t() @ wide(X)
    if way == 2:
        X = case.dense(k, case.n)
        return X @ A, lambda: wide(X) @ matrix_of(case)
    X = case.dense(case.m)
    return torch.mv(A, X), lambda: matrix_of(case) @ wide(X)


def with_values(case):
    A, values, X = case.matrix(), case.dense(case.nnz), torch.randn(case.m, 3, dtype=case.dtype)
    if case.rng.random() < 0.5:
        B = A.with_values(values)
    else:
        B = asp.csr(A)
        B.values = values
    case.values, case.dtype = (solid(values), values.dtype) if isinstance(values, torch.Tensor) else (case.values, None)
    return B @ X, lambda: matrix_of(case) @ wide(X)


def sddmm(case):
    A, K = case.matrix(), case.rng.choice((0, 1, 4, 17))
    X, Y = case.dense(case.n, K), case.dense(K, case.m)
    result = asp.sddmm(A, X, Y).values
    return result, lambda: wide(case.values) * (wide(X) @ wide(Y))[case.row, case.col]


def real(case):
    """Return a matrix for functions that ignore its values, and make the case's numbers real."""
    if case.dtype.is_complex:
        case.dtype, case.values = torch.float64, case.values.real.double()
    return case.matrix()


def edge_softmax(case):
    A = real(case)
    scores = case.dense(case.nnz, *(() if case.rng.random() < 0.5 else (case.rng.choice((0, 1, 2, 5)),)))
    return asp.edge_softmax(A, scores), lambda: softmax_of(case, wide(scores))


def attention(case):
    A, H, D, F = (
        real(case),
        case.rng.choice(((), (1,), (3,), (0,))),
        case.rng.choice((1, 4, 17)),
        case.rng.choice((0, 1, 5)),
    )
    if case.fault("D", 0.1):
        D = 0
    Q, K, V = case.dense(case.n, *H, D), case.dense(case.m, *H, D), case.dense(case.m, *H, F)

    def want():
        if Q.shape[-1] == 0 or not Q.dim() == K.dim() == V.dim():
            return None
        scores = (wide(Q)[case.row] * wide(K)[case.col]).sum(-1) * Q.shape[-1] ** -0.5
        return weighted(case, scores, V)

    return asp.attention(A, Q, K, V), want


def gat(case):
    A, H, F = real(case), case.rng.choice(((), (1,), (3,), (0,))), case.rng.choice((0, 1, 5))
    q, k, V = case.dense(case.n, *H), case.dense(case.m, *H), case.dense(case.m, *H, F)

    def want():
        scores = torch.nn.functional.leaky_relu(wide(q)[case.row] + wide(k)[case.col], 0.2)
        return weighted(case, scores, V)

    return asp.gat(A, q, k, V), want


def overridden(case):
    """Call PyTorch's operators under the override, on checked tensors or unchecked coordinates."""
    edges, k = torch.stack([case.row, case.col]), case.rng.choice((1, 3, 9))
    layout = case.rng.choice(("coo", "csr", "csc"))
    if layout == "coo" and case.nnz and case.fault("id"):
        edges[case.rng.randrange(2), case.rng.randrange(case.nnz)] = case.rng.choice((*IDS, 41))
    if case.dtype in (torch.float16, torch.bfloat16):
        case.dtype, case.values = torch.float32, case.values.float()
    A = torch.sparse_coo_tensor(edges, case.values, (case.n, case.m), check_invariants=False)
    if layout != "coo":
        A = A.coalesce().to_sparse_csr() if layout == "csr" else A.coalesce().to_sparse_csc()
    B, c = case.dense(case.m, k), case.dense(case.n, k)
    way = case.rng.randrange(4)
    case.is_pytorchs = True  # PyTorch refuses some of these layouts, dtypes and bits
    with asp.override():
        if way == 0:
            return A @ B, lambda: matrix_of(case) @ wide(B)
        if way == 1:
            return torch.addmm(c, A, B, beta=2, alpha=3), lambda: 2 * wide(c) + 3 * (matrix_of(case) @ wide(B))
        if way == 2:
            out = torch.empty(case.n, k, dtype=case.dtype)
            return torch.mm(A, B, out=out), lambda: matrix_of(case) @ wide(B)
        x = case.dense(case.m)
        return A @ x, lambda: matrix_of(case) @ wide(x)


CALLS = (spmm, operator, with_values, sddmm, edge_softmax, attention, gat, overridden)


def run(seed: int) -> str:
    """Run one case and return its call and outcome. Raise `Wrong` if the outcome is not allowed."""
    case = Case(seed)
    call = case.rng.choice(CALLS)
    small = case.rng.choice((8, 1 << 18))  # larger products go through the executor
    thresholds.DIRECT_PRODUCT = thresholds.DIRECT_SAMPLE = small
    name = f"case {seed} ({call.__name__}, {case.dtype}, {case.n} x {case.m}, {case.nnz} entries"
    try:
        got, want = call(case)
        if got.requires_grad and case.rng.random() < 0.7:
            got.abs().sum().backward()
    except REFUSALS as error:
        if not case.faults and not case.is_pytorchs:
            raise Wrong(f"{name}) was right and is refused: {error!r}") from error
        return f"{call.__name__} refused"
    except Exception as error:
        raise Wrong(f"{name}, {case.faults}) raises {error!r}") from error
    compare(f"{name}, {case.faults})", got, want, is_pytorchs=case.is_pytorchs)
    return f"{call.__name__} right"


def compare(name, got, want, *, is_pytorchs):
    if is_pytorchs:
        got = got if got.layout is torch.strided else got.to_dense()
        if got.dtype not in NUMBERS:
            return
    try:
        expected = want()
    except Exception as error:
        if is_pytorchs:
            return
        raise Wrong(f"{name} was answered, and dense tensors cannot: {error!r}") from error
    if expected is None:
        return
    atol = LOOSE.get(got.dtype, 1e-8)
    if got.shape != expected.shape or not torch.allclose(wide(got).to(expected.dtype), expected, rtol=atol, atol=atol):
        raise Wrong(f"{name}: {got} is not {expected}")


def run_all(n: int, seed: int, *, tell: bool = False) -> dict[str, int]:
    """Return the number of cases by outcome."""
    tally: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place in range(n):
            if tell:
                sys.stderr.write(f"{seed + place}\n")
            outcome = run(seed + place)
            tally[outcome] = tally.get(outcome, 0) + 1
    return tally


if __name__ == "__main__":
    sys.stdout.write(repr(run_all(int(sys.argv[1]), int(sys.argv[2]), tell=True)) + "\n")
