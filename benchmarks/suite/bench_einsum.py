"""asv benchmarks of one einsum of sparse matrices: steady, and as the first call with a pattern."""

from __future__ import annotations

import tempfile

import scipy.sparse

import autosparse
from autosparse.config import reload_options, set_options
from autosparse.contraction import remembered
from suite import cases

EXPRESSIONS = ("ij,jk->ik", "ij,ik,kj->ij", "ij,jk,ik->")


class Einsum:
    """Expression of the leading square part of a matrix with itself."""

    params = (cases.names(), EXPRESSIONS)
    param_names = ("matrix", "expression")

    def setup(self, matrix: str, expression: str) -> None:
        m = scipy.sparse.csr_array(cases.matrix(matrix))
        n = min(2000, *m.shape)
        self.operands = [m[:n, :n]] * (expression.count(",") + 1)
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # threads may still write plans
        set_options(cache_dir=self.folder.name)
        autosparse.einsum(expression, *self.operands)

    def teardown(self, matrix: str, expression: str) -> None:
        reload_options()
        self.folder.cleanup()

    def time_first(self, matrix: str, expression: str) -> None:
        """Time a call with no stored choice for the pattern; kernels are compiled."""
        remembered._choices.clear()
        with autosparse.options(cache=False):
            autosparse.einsum(expression, *self.operands)

    def time_remembered(self, matrix: str, expression: str) -> None:
        """Time a call as in a new process that finds the plan on disk."""
        remembered._choices.clear()
        autosparse.einsum(expression, *self.operands)

    def time_steady(self, matrix: str, expression: str) -> None:
        autosparse.einsum(expression, *self.operands)


class Semiring:
    """Steady call of a product of two sparse matrices over a semiring."""

    params = (cases.names(), ("min_plus", "max_times", "or_and"))
    param_names = ("matrix", "semiring")

    def setup(self, matrix: str, semiring: str) -> None:
        m = scipy.sparse.csr_array(cases.matrix(matrix))
        n = min(2000, *m.shape)
        square = m[:n, :n]
        self.A = {"min_plus": square, "max_times": abs(square), "or_and": square.astype(bool)}[semiring]
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # threads may still write plans
        set_options(cache_dir=self.folder.name)
        self.time_product(matrix, semiring)

    def teardown(self, matrix: str, semiring: str) -> None:
        reload_options()
        self.folder.cleanup()

    def time_product(self, matrix: str, semiring: str) -> None:
        autosparse.einsum("ij,jk->ik", self.A, self.A, semiring=semiring)
