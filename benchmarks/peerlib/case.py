"""A case: one operation on one matrix with its dense operand, the reference answer, and what peers may share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse

N_CHECKED_COLUMNS = 16


@dataclass(frozen=True, slots=True)
class Operation:
    """``C = A @ B`` with `n_dense_cols` columns; "spmv" is one column given as a vector."""

    name: str
    n_dense_cols: int

    @classmethod
    def parse(cls, text: str) -> Operation:
        """Read "spmv" or "spmm<columns>"."""
        match = re.fullmatch(r"spmv|spmm([1-9]\d*)", text)
        if match is None:
            raise ValueError(f"no operation {text!r}: use spmv or spmm<columns>, as in spmm32")
        return cls(text, int(match[1] or 1))

    @property
    def is_vector(self) -> bool:
        """Whether the dense operand is 1-D."""
        return self.name == "spmv"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A peer ready to run one case: `run` gives what a caller would get (a new array, or the one it filled)."""

    run: Callable[[], Any]
    facts: dict[str, Any] = field(default_factory=dict)
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, eq=False)
class Case:
    """`A` (csr_array, m x k), `B` (k, or k x n, C order) and `out`, which all peers that fill an array fill in turn."""

    matrix_name: str
    operation: Operation
    A: Any
    B: np.ndarray
    out: np.ndarray
    threads: int
    effort: str
    budget_s: float
    shared: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, name: str, A: Any, operation: Operation, *, threads: int, effort: str, budget_s: float, seed: int
    ) -> Case:
        """A case with a dense operand drawn from `seed`."""
        rng = np.random.default_rng(seed)
        tail = () if operation.is_vector else (operation.n_dense_cols,)
        B = rng.standard_normal((A.shape[1], *tail)).astype(A.dtype)
        out = np.zeros((A.shape[0], *tail), dtype=A.dtype)
        return cls(name, operation, A, B, out, threads, effort, budget_s)

    def checker(self) -> Callable[[Any], str | None]:
        """A function that says what is wrong with a result, or None.

        |C - A B| <= (n + 4) eps (|A| |B|) for rows of n entries, in float64, on up to 16 columns (first and last
        among them): the bound every order of summation keeps.
        """
        columns = np.unique(np.linspace(0, self.operation.n_dense_cols - 1, N_CHECKED_COLUMNS).astype(int))
        chosen = self.B if self.operation.is_vector else self.B[:, columns]
        wide = scipy.sparse.csr_matrix(self.A.astype(np.float64))
        wanted, size = wide @ chosen.astype(np.float64), abs(wide) @ np.abs(chosen.astype(np.float64))
        rows = np.diff(self.A.indptr).reshape(-1, *[1] * (chosen.ndim - 1)) + 4
        allowed = rows * np.finfo(self.A.dtype).eps * size

        def complaint(result: Any) -> str | None:
            got = np.asarray(result)
            if got.shape != self.out.shape or got.dtype != self.out.dtype:
                return f"result is {got.dtype}{got.shape}, not {self.out.dtype}{self.out.shape}"
            picked = got if self.operation.is_vector else got[:, columns]
            excess = np.abs(picked - wanted) - allowed
            return None if bool(np.all(excess <= 0)) else f"wrong by {float(np.nanmax(excess)):.3g} beyond rounding"

        return complaint
