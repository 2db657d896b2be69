"""What one einsum of sparse matrices costs: steady, and as the first call with a pattern."""

from __future__ import annotations

import tempfile

import scipy.sparse

import autosparse
from autosparse.config import reload_options, set_options
from autosparse.contraction import remembered
from suite import cases

EXPRESSIONS = ("ij,jk->ik", "ij,ik,kj->ij", "ij,jk,ik->")


class Einsum:
    """An expression of a matrix with itself, its square part."""

    params = (cases.names(), EXPRESSIONS)
    param_names = ("matrix", "expression")

    def setup(self, matrix: str, expression: str) -> None:
        m = scipy.sparse.csr_array(cases.matrix(matrix))
        n = min(2000, *m.shape)
        self.operands = [m[:n, :n]] * (expression.count(",") + 1)
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # plans may still be written
        set_options(cache_dir=self.folder.name)
        autosparse.einsum(expression, *self.operands)

    def teardown(self, matrix: str, expression: str) -> None:
        reload_options()
        self.folder.cleanup()

    def time_first(self, matrix: str, expression: str) -> None:
        """With nothing remembered of the pattern; kernels are compiled."""
        remembered._choices.clear()
        with autosparse.options(cache=False):
            autosparse.einsum(expression, *self.operands)

    def time_remembered(self, matrix: str, expression: str) -> None:
        """As in a new process that finds the plan on disk."""
        remembered._choices.clear()
        autosparse.einsum(expression, *self.operands)

    def time_steady(self, matrix: str, expression: str) -> None:
        autosparse.einsum(expression, *self.operands)
