"""Tests of index arrays that a program writes in place, by PyTorch, and from which it makes another sparse tensor."""

from __future__ import annotations

import pytest

from tests.torch.samples import assert_close, numbers, torch

import autosparse.torch as asp  # isort: skip
from autosparse.errors import StructureError  # isort: skip
from autosparse.torch import thresholds  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
N, DEGREE, WIDTH = 500, 40, 256  # enough multiplications for the executor


class Graph:
    """Index arrays, and the sparse tensors that are made of them."""

    def __init__(self, layout):
        self.layout = layout
        generator = torch.Generator().manual_seed(0)
        self.starts = torch.arange(N + 1) * DEGREE
        self.indices = torch.randint(N, (N * DEGREE,), generator=generator)
        self.values = torch.rand(N * DEGREE, generator=generator, dtype=torch.float64)
        self.major = torch.repeat_interleave(torch.arange(N), DEGREE)

    def tensor(self):
        if self.layout is torch.sparse_coo:
            return torch.sparse_coo_tensor(torch.stack([self.major, self.indices]), self.values, (N, N))
        return torch.sparse_compressed_tensor(
            self.starts, self.indices, self.values, (N, N), layout=self.layout, check_invariants=False
        )

    def dense(self):
        entries = (self.indices, self.major) if self.layout is torch.sparse_csc else (self.major, self.indices)
        return torch.zeros(N, N, dtype=torch.float64).index_put_(entries, self.values, accumulate=True)


CASES = [
    *(
        (layout, yes, True)
        for layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_coo)
        for yes in (True, False)
    ),
    *((layout, True, False) for layout in (torch.sparse_csr, torch.sparse_csc)),
]
"""Layout, whether the C++ module computes, and whether each product has a tensor of its own.

Only the module reads the counters of the arrays that a compressed tensor was made of.
"""


@pytest.mark.parametrize(("layout", "yes", "is_new"), CASES)
def test_one_written_index_changes_products_and_gradients(layout, yes, is_new, builtin):
    builtin(yes=yes)
    graph, X = Graph(layout), numbers(N, WIDTH, dtype=torch.float64).requires_grad_()
    A = graph.tensor()
    n_first = thresholds.UNPREPARED_MULTIPLICATIONS // (N * DEGREE * WIDTH) + 12
    with asp.override():
        for turn in range(n_first + 8):
            if turn >= n_first:
                graph.indices[97 * turn + 1] = (31 * turn) % N  # not one of the sampled indices
            A = graph.tensor() if is_new else A
            X.grad = None
            product = A @ X
            product.square().sum().backward()
            if turn >= n_first:
                D = graph.dense()
                assert_close(product.detach(), D @ X.detach())
                assert_close(X.grad, D.t() @ (2 * product.detach()))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc], ids=str)
@pytest.mark.parametrize("yes", [True, False], ids=["module", "Python"])
def test_a_written_index_outside_the_matrix_is_refused(layout, yes, builtin):
    builtin(yes=yes)
    graph, X = Graph(layout), numbers(N, 2, dtype=torch.float64)
    with asp.override():
        for _ in range(12):
            graph.tensor() @ X
        graph.indices[1001] = -1
        with pytest.raises(StructureError):
            graph.tensor() @ X
