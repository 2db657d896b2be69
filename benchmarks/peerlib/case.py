"""Cases of the peer comparison: one operation on one matrix or tensor, with dense operands and a reference answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

N_CHECKED_COLUMNS = 16
MAX_PRODUCTS = 400_000_000
"""Maximum number of multiplications of a measured SpGEMM; its result and the float64 copies of the check must fit."""

Complaint = Callable[[Any], "str | None"]  # returns the fault of a result, or None


class UnavailableError(RuntimeError):
    """Error raised if a peer lacks a compiler, headers, or a build that loads."""


@dataclass(frozen=True, slots=True)
class Operation:
    """``C = A @ B`` with `n_dense_cols` columns ("spmv": one, given as a vector), or another kind of product."""

    name: str
    n_dense_cols: int
    kind: str  # "spmv", "spmm", "sddmm", "mttkrp", "spgemm"
    mode: int = 0  # mode of "mttkrp"

    @classmethod
    def parse(cls, text: str) -> Operation:
        """Parse "spmv", "spmm<columns>", "sddmm<columns>", "mttkrp<columns>", "mttkrp<columns>@<mode>" or "spgemm"."""
        match = re.fullmatch(r"(spmv|spgemm)|(spmm|sddmm|mttkrp)([1-9]\d*)(?:@(\d))?", text)
        if match is None or (match[4] and match[2] != "mttkrp"):
            known = "spmv, spmm<columns>, sddmm<columns>, mttkrp<columns>[@<mode>] or spgemm"
            raise ValueError(f"no operation {text!r}: use {known}, as in spmm32")
        return cls(text, int(match[3] or 1), match[1] or match[2], int(match[4] or 0))

    @property
    def is_vector(self) -> bool:
        """Return whether the dense operand is 1-D."""
        return self.kind == "spmv"

    @property
    def is_of_tensors(self) -> bool:
        """Return whether the sparse operand is a tensor of order 3 or more."""
        return self.kind == "mttkrp"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A peer ready to run one case; `run` returns the result that a caller gets (a new array, or the one it filled)."""

    run: Callable[[], Any]
    facts: dict[str, Any] = field(default_factory=dict)
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """`A` (csr_array, m x k), `B` (k, or k x n, C order) and `out`, shared by all peers that fill an array."""

    matrix_name: str
    operation: Operation
    A: Any
    B: Any
    out: np.ndarray
    threads: int
    effort: str
    budget_s: float
    expected_runs: int | None = 100_000  # option `runs`: bounds what tuning may spend
    shared: dict[str, Any] = field(default_factory=dict)

    kinds: ClassVar[tuple[str, ...]] = ("spmv", "spmm")

    @classmethod
    def of(
        cls, name: str, A: Any, operation: Operation, *, threads: int, effort: str, budget_s: float, seed: int
    ) -> Case:
        """Make a case of the operation's kind, with dense operands drawn from `seed`."""
        kind = next(one for one in (Case, SampledCase, TensorCase, SparseCase) if operation.kind in one.kinds)
        B, out = kind.operands(A, operation, np.random.default_rng(seed))
        return kind(
            matrix_name=name, operation=operation, A=A, B=B, out=out, threads=threads, effort=effort, budget_s=budget_s
        )

    @classmethod
    def operands(cls, A: Any, operation: Operation, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
        """Return the dense operands and the result to fill."""
        tail = () if operation.is_vector else (operation.n_dense_cols,)
        B = rng.standard_normal((A.shape[1], *tail)).astype(A.dtype)
        return B, np.zeros((A.shape[0], *tail), dtype=A.dtype)

    def facts(self) -> dict[str, Any]:
        """Return the fields that identify this case in a record."""
        return {
            "matrix": self.matrix_name,
            "operation": self.operation.name,
            "shape": list(self.A.shape),
            "nnz": int(self.A.nnz),
            "dtype": self.A.dtype.name,
            "threads": self.threads,
        }

    def reason_left_out(self) -> str | None:
        """Return why no peer runs this case, or None."""
        return None

    def checker(self) -> Complaint:
        """Return a function that returns the fault of a result, or None.

        The bound is |C - A B| <= (n + 4) eps (|A| |B|) for rows of n entries, in float64, on up to 16 columns including
        the first and the last. Every order of summation keeps this bound.
        """
        columns = np.unique(np.linspace(0, self.operation.n_dense_cols - 1, N_CHECKED_COLUMNS).astype(int))
        chosen = self.B if self.operation.is_vector else self.B[:, columns]
        wide = scipy.sparse.csr_matrix(self.A.astype(np.float64))
        wanted, size = wide @ chosen.astype(np.float64), abs(wide) @ np.abs(chosen.astype(np.float64))
        rows = np.diff(self.A.indptr).reshape(-1, *[1] * (chosen.ndim - 1)) + 4
        picked = (slice(None),) if self.operation.is_vector else (slice(None), columns)
        return self.bounded(wanted, rows * np.finfo(self.A.dtype).eps * size, picked)

    def bounded(self, wanted: Any, allowed: Any, picked: Any = ()) -> Complaint:
        """Return a function that compares ``result[picked]`` with `wanted`, and shape and dtype with those of `out`."""

        def complaint(result: Any) -> str | None:
            got = np.asarray(result)
            if got.shape != self.out.shape or got.dtype != self.out.dtype:
                return f"result is {got.dtype}{got.shape}, not {self.out.dtype}{self.out.shape}"
            excess = np.abs(got[picked] - wanted) - allowed
            return None if bool(np.all(excess <= 0)) else f"wrong by {float(np.nanmax(excess)):.3g} beyond rounding"

        return complaint


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledCase(Case):
    """S = A ∘ (X @ Y): `B` is (X, rows of Yᵀ), both in C order, so that every entry reads two contiguous rows.

    `out` (nnz,) receives the values of S in the order of A's entries.
    """

    kinds = ("sddmm",)

    @classmethod
    def operands(cls, A: Any, operation: Operation, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
        """Return (X, Yᵀ) and the values to fill."""
        X, Y_rows = (rng.standard_normal((n, operation.n_dense_cols)).astype(A.dtype) for n in A.shape)
        return (X, Y_rows), np.zeros(A.nnz, dtype=A.dtype)

    def checker(self) -> Complaint:
        """Return a function that checks |S - A ∘ (X Y)| <= (k + 4) eps |A| ∘ (|X| |Y|) on a sample of entries."""
        A, (X, Y_rows) = self.A, self.B
        sample = np.unique(np.linspace(0, max(0, A.nnz - 1), 20_000).astype(int))[: A.nnz]
        rows = np.searchsorted(A.indptr, sample, side="right") - 1
        x, y, a = (part.astype(np.float64) for part in (X[rows], Y_rows[A.indices[sample]], A.data[sample]))
        wanted, size = a * np.sum(x * y, axis=1), np.abs(a) * np.sum(np.abs(x * y), axis=1)
        return self.bounded(wanted, (X.shape[1] + 4) * np.finfo(A.dtype).eps * size, (sample,))


@dataclass(frozen=True, slots=True)
class Tensor:
    """Sparse tensor in coordinate format: coords (ndim, nnz) int32, data (nnz,)."""

    coords: np.ndarray
    data: np.ndarray
    shape: tuple[int, ...]

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return len(self.data)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the values."""
        return self.data.dtype


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorCase(Case):
    """MTTKRP at the operation's mode: `A` is a `Tensor`, `B` has one factor (C order) per mode, including its own."""

    kinds = ("mttkrp",)

    @classmethod
    def operands(cls, A: Any, operation: Operation, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
        """Return the factors and the result to fill."""
        factors = [rng.standard_normal((n, operation.n_dense_cols)).astype(A.dtype) for n in A.shape]
        rows = A.shape[operation.mode] if operation.mode < len(A.shape) else 0
        return factors, np.zeros((rows, operation.n_dense_cols), dtype=A.dtype)

    def reason_left_out(self) -> str | None:
        """Return a reason if the tensor lacks the mode."""
        return None if self.operation.mode < len(self.A.shape) else "the tensor has no such mode"

    def sums(self, factors: Any, data: np.ndarray) -> Any:
        """Return the MTTKRP of `data` and `factors` through SciPy's product."""
        mode, coords = self.operation.mode, self.A.coords
        products = data[:, None].copy()
        for n, factor in enumerate(factors):
            if n != mode:
                products = products * factor[coords[n]]
        shape = (self.A.shape[mode], self.A.nnz)
        return scipy.sparse.csr_array((np.ones(self.A.nnz), (coords[mode], np.arange(self.A.nnz))), shape) @ products

    def checker(self) -> Complaint:
        """Return a function that checks |M - exact| <= (entries of the row + order + 4) eps (sum of magnitudes)."""
        wide, data = [factor.astype(np.float64) for factor in self.B], self.A.data.astype(np.float64)
        size = self.sums([np.abs(factor) for factor in wide], np.abs(data))
        rows = np.bincount(self.A.coords[self.operation.mode], minlength=self.out.shape[0])[:, None]
        allowed = (rows + len(self.A.shape) + 4) * np.finfo(self.A.dtype).eps * size
        return self.bounded(self.sums(wide, data), allowed)


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseCase(Case):
    """C = A @ A with sparse operands and result; peers return a SciPy matrix or an object with `to_scipy`."""

    kinds = ("spgemm",)

    @classmethod
    def operands(cls, A: Any, operation: Operation, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
        """Return A itself and an empty array."""
        return A, np.zeros(0, dtype=A.dtype)

    def reason_left_out(self) -> str | None:
        """Return a reason if A is not square or the product is too large."""
        if self.A.shape[0] != self.A.shape[1]:
            return "not square"
        n_products = int(np.diff(self.A.indptr).astype(np.int64)[self.A.indices].sum())
        return f"{n_products:,} multiplications" if n_products > MAX_PRODUCTS else None

    def checker(self) -> Complaint:
        """Return a function that checks C x = A (A x) for random x within rounding, and the number of entries.

        SciPy drops entries that cancel to zero; results that keep all or some of them are also accepted.
        """
        A, rng = self.A.astype(np.float64), np.random.default_rng(1)
        x = rng.standard_normal((A.shape[1], 4))
        wanted, size = A @ (A @ x), abs(A) @ (abs(A) @ np.abs(x))
        most = int(np.diff(self.A.indptr).max(initial=0))
        allowed = (most * most + 8) * np.finfo(self.A.dtype).eps * size
        pattern = scipy.sparse.csr_array((np.ones_like(A.data), A.indices, A.indptr), shape=A.shape)
        least, most_entries = (self.A @ self.A).nnz, (pattern @ pattern).nnz

        def complaint(result: Any) -> str | None:
            C = result.to_scipy() if hasattr(result, "to_scipy") else result
            if C.shape != self.A.shape or C.dtype != self.A.dtype:
                return f"result is {C.dtype}{C.shape}, not {self.A.dtype}{self.A.shape}"
            if not least <= C.nnz <= most_entries:
                return f"{C.nnz} entries, not {least} to {most_entries}"
            excess = np.abs(C.astype(np.float64) @ x - wanted) - allowed
            return None if bool(np.all(excess <= 0)) else f"wrong by {float(np.nanmax(excess)):.3g} beyond rounding"

        return complaint
