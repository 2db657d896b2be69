"""Tests of products of tensors on the CPU while another default device is set, as in programs for a GPU."""

from __future__ import annotations

import pytest

from tests.processes import run_with_torch

pytest.importorskip("torch")

PROGRAM = """
import torch
torch.manual_seed(0)
cells = torch.rand(300, 200) < 0.1
dense = torch.rand(300, 200) * cells
B, x = torch.rand(200, 40), torch.rand(200)
X, Y = torch.rand(300, 9), torch.rand(9, 200)
A, C, few, one = dense.to_sparse_csr(), dense.to_sparse_csc(), torch.eye(3).to_sparse_csr(), torch.ones(3, 2)
edges, ids = torch.tensor([[0, 1, 1], [2, 0, 1]]), torch.arange(3)
torch.set_default_device("meta")  # whose tensors have no memory
import autosparse as asp
with asp.torch.override():
    for S in (A, C, A.to_sparse_coo().coalesce()):
        torch.testing.assert_close(S @ B, dense @ B)
        torch.testing.assert_close(S @ x, dense @ x)
        torch.testing.assert_close(S.t() @ X, dense.t() @ X)
    torch.testing.assert_close(few @ one, one)
    torch.testing.assert_close(torch.sparse.mm(A, B, "mean") * cells.sum(1)[:, None].clamp(min=1), dense @ B)
    assert torch.sparse.mm(A, B, "amax").is_cpu
    sampled = torch.sparse.sampled_addmm(A, X, Y, beta=0.0)
    torch.testing.assert_close(sampled.to_dense(), (X @ Y) * cells)
    a, b = A.clone().requires_grad_(), B.clone().requires_grad_()
    torch.sparse.mm(a, b).sum().backward()
    torch.testing.assert_close(b.grad, dense.t() @ torch.ones(300, 40, device="cpu"))
    assert a.grad.is_cpu
M = asp.torch.csr(A)
torch.testing.assert_close(M @ B, dense @ B)
torch.testing.assert_close(M.T @ X, dense.t() @ X)
torch.testing.assert_close(asp.torch.sddmm(M, X, Y).to_torch().to_dense(), ((X @ Y) * dense))
assert M.to_torch().is_cpu
assert asp.torch.csr(edges, shape=(3, 3)).values.is_cpu
"""


def test_another_default_device_changes_nothing():
    done = run_with_torch(PROGRAM)
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
