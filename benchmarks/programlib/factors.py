"""Programs of factorisation, which use asp.sddmm and asp.mttkrp or their equivalents in SciPy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from programlib import inputs
from programlib.program import Inputs, Program, csr


def ratings(toy: bool) -> Inputs:
    m, n, per_row = (60, 40, 6) if toy else (20_000, 6_000, 30)
    A = inputs.heavy_rows(m, n, per_row)
    rng = np.random.default_rng(0)
    A.data = rng.integers(1, 6, A.nnz).astype(np.float64)
    k = 4 if toy else 16
    return {"A": A, "U": rng.random((m, k)), "V": rng.random((n, k)), "sweeps": 2}


def sampled(sp: Any, ones: Any, U: Any, V: Any) -> Any:
    """Compute (U @ V.T) at the entries of `ones`, by asp.sddmm or by gathering and multiplying rows."""
    if hasattr(sp, "sddmm"):
        return sp.sddmm(ones, U, V.T)
    rows = np.repeat(np.arange(ones.shape[0]), np.diff(ones.indptr))
    values = np.einsum("ij,ij->i", U[rows], V[ones.indices])
    return sp.csr_array((values, ones.indices, ones.indptr), shape=ones.shape)


def half_step(apply: Any, right: Any, X: Any, steps: int) -> Any:
    """Run a few steps of conjugate gradients on all rows of X at once; each row is a separate system."""
    R = right - apply(X)
    P, rr = R.copy(), np.einsum("ij,ij->i", R, R)
    for _ in range(steps):
        Q = apply(P)
        alpha = rr / np.maximum(np.einsum("ij,ij->i", P, Q), 1e-30)
        X = X + alpha[:, None] * P
        R = R - alpha[:, None] * Q
        before, rr = rr, np.einsum("ij,ij->i", R, R)
        P = R + (rr / np.maximum(before, 1e-30))[:, None] * P
    return X


def als_sddmm(sp: Any, A: Any, U: Any, V: Any, sweeps: int) -> Any:
    """Factorise ratings by alternating least squares, with conjugate gradients in each half step."""
    A = csr(sp, A)
    At = csr(sp, A.T.tocsr())
    ones, ones_t = A.copy(), At.copy()
    ones.data[:] = 1.0
    ones_t.data[:] = 1.0
    for _ in range(sweeps):
        U = half_step(lambda X: sampled(sp, ones, X, V) @ V + 0.1 * X, A @ V, U, 3)  # noqa: B023 (used in this turn)
        V = half_step(lambda X: sampled(sp, ones_t, X, U) @ U + 0.1 * X, At @ U, V, 3)  # noqa: B023
    return U, V


def messages(toy: bool) -> Inputs:
    shape, nnz, rank = ((20, 15, 6), 300, 3) if toy else ((3_000, 2_000, 60), 600_000, 16)
    rng = np.random.default_rng(0)
    coords = np.unique(np.stack([(rng.random(nnz) ** 1.5 * n).astype(np.int32) for n in shape]), axis=1)
    values = rng.random(coords.shape[1])
    factors = [rng.random((n, rank)) for n in shape]
    return {"tensor": (coords, values, shape), "factors": factors, "sweeps": 5}


class Gathered:
    """MTTKRP as users of SciPy write it: gathered factor rows, multiplied, and summed by a sparse matrix."""

    def __init__(self, sp: Any, coords: Any, values: Any, shape: Any) -> None:
        self.coords, self.values = coords, values
        entry, ones = np.arange(values.size), np.ones(values.size)
        self.sums = [
            sp.coo_array((ones, (ids, entry)), shape=(n, values.size)).tocsr()
            for ids, n in zip(coords, shape, strict=True)
        ]

    def mttkrp(self, factors: Any, mode: int) -> Any:
        rows = self.values[:, None]
        for other in range(3):
            if other != mode:
                rows = rows * factors[other][self.coords[other]]
        return self.sums[mode] @ rows


def cp_als(sp: Any, tensor: Any, factors: Any, sweeps: int) -> Any:
    """Compute a CP decomposition: for each mode an MTTKRP and a linear system of the rank's size."""
    factors = [factor.copy() for factor in factors]
    if hasattr(sp, "mttkrp"):
        T = sp.tensor(*tensor)
        mttkrp = lambda mode: sp.mttkrp(T, factors, mode=mode)  # noqa: E731
    else:
        gathered = Gathered(sp, *tensor)
        mttkrp = lambda mode: gathered.mttkrp(factors, mode)  # noqa: E731
    for _ in range(sweeps):
        for mode in range(3):
            first, second = (factors[other] for other in range(3) if other != mode)
            gram = (first.T @ first) * (second.T @ second)
            factors[mode] = np.linalg.solve(gram + 1e-9 * np.eye(len(gram)), mttkrp(mode).T).T
    return tuple(factors)


PROGRAMS: Final = (
    Program(name="als_sddmm", what="ALS of ratings, sampled products", prepare=ratings, run=als_sddmm, rtol=1e-4),
    Program(name="cp_als", what="CP-ALS of a tensor, MTTKRP", prepare=messages, run=cp_als, rtol=1e-3),
)
