"""Tests of modes, threads, processes and files as torch programs use them."""

from __future__ import annotations

import copy
import io
import os
import pickle
import threading

import pytest

from autosparse import config
from tests.torch.samples import assert_close, compressed, counted, dense, numbers, torch

import autosparse.torch as asp  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")


@pytest.fixture(autouse=True)
def overridden():
    with asp.override():
        yield


def test_inference_mode_and_no_grad():
    D = dense(30, 20)
    A, X = compressed(D).requires_grad_(), numbers(20, 4)
    for mode in (torch.inference_mode, torch.no_grad):
        with mode(), counted() as calls:
            y = A @ X
            assert not y.requires_grad
            assert_close(y, D @ X)
            S = compressed(D)
            assert_close(S @ X, D @ X)
            assert_close(S @ X[:, 0], D @ X[:, 0])
            assert_close(S.t() @ numbers(30), D.t() @ numbers(30))
            assert_close(asp.spmm(S, X, "max"), asp.spmm(compressed(D), X.clone(), "max"))
        assert len(calls) >= 4


def test_autocast_is_served():
    """Check autocast, which casts to bfloat16; PyTorch's own sparse kernels refuse it."""
    D, X = dense(30, 20), numbers(20, 4)
    A = compressed(D)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = A @ X
    assert y.dtype in (torch.bfloat16, torch.float32)
    torch.testing.assert_close(y.float(), D @ X, rtol=0, atol=0.2)


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_compiled_functions_break_the_graph_and_go_on():
    D, X = dense(30, 20), numbers(20, 4)
    A, C = compressed(D), asp.csr(D)
    want = torch.relu(D @ torch.sin(X)) + 1
    for function in (
        lambda x: torch.relu(A @ torch.sin(x)) + 1,
        lambda x: torch.relu(asp.spmm(C, torch.sin(x))) + 1,
        lambda x: torch.relu(C @ torch.sin(x)) + 1,
    ):
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="eager")
        x = X.clone().requires_grad_()
        for _ in range(3):
            assert_close(compiled(X), want)
            compiled(x).sum().backward()
        y = X.clone().requires_grad_()
        for _ in range(3):
            function(y).sum().backward()
        assert_close(x.grad, y.grad)


@pytest.mark.parametrize("n_threads", [8])
def test_threads_share_one_matrix(n_threads):
    D = dense(300, 300, 0.1)
    A, B = compressed(D), numbers(300, 64)
    want, want_t = D @ B, D.t() @ B
    wrong = []

    def work(place):
        with config.options(overhead=1.0):
            for _ in range(15):
                ok = torch.allclose(A @ B, want, atol=1e-3) and torch.allclose(A.t() @ B, want_t, atol=1e-3)
                if not ok:
                    wrong.append(place)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_multiply():
    D = dense(300, 300, 0.1)
    A, B = compressed(D), numbers(300, 64)
    want = D @ B
    A @ B  # threads exist before the fork
    child = os.fork()
    if child == 0:
        right = all(torch.allclose(A @ B, want, atol=1e-3) for _ in range(3))
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert_close(A @ B, want)


class Rows(torch.utils.data.Dataset):
    """Dataset whose items are products with a matrix of the parent process."""

    def __init__(self, A, X):
        self.A, self.X = A, X

    def __len__(self):
        return self.X.shape[1]

    def __getitem__(self, place):
        return self.A @ self.X[:, place]


@pytest.mark.parametrize("n_workers", [0, 1])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_dataloader_workers_multiply(n_workers):
    D, X = dense(30, 20), numbers(20, 4)
    loader = torch.utils.data.DataLoader(Rows(compressed(D), X), batch_size=None, num_workers=n_workers)
    assert_close(torch.stack(list(loader), 1), D @ X)


def test_saved_and_loaded_matrices():
    D, X = dense(30, 20), numbers(20, 4)
    A = compressed(D)
    A @ X
    file = io.BytesIO()
    torch.save(A, file)
    file.seek(0)
    assert_close(torch.load(file, weights_only=True) @ X, D @ X)


def test_parameters_train():
    D = dense(30, 20)
    weight = torch.nn.Parameter(compressed(D))
    X = numbers(20, 4)
    optimizer = torch.optim.SGD([weight], lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.sparse.mm(weight, X).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sorted(losses, reverse=True) == losses


def test_linear_layers_with_sparse_weights():
    W, X, bias = dense(30, 20), numbers(5, 20), numbers(30)
    with counted() as calls:
        assert_close(torch.nn.functional.linear(X, compressed(W)), X @ W.t())
        assert_close(torch.addmm(bias, X, compressed(W).t()), X @ W.t() + bias)
    assert calls


def test_graph_library_products_arrive():
    """Check the calls of torch_geometric.utils.spmm and EdgeIndex.matmul for a torch.sparse adjacency."""
    D, X = dense(30, 30), numbers(30, 8)
    A = compressed(D)
    with counted() as calls:
        for reduce in ("sum", "mean", "amax", "amin"):
            torch.sparse.mm(A, X, reduce)
        A @ X
    assert len(calls) == 5


def test_fewer_threads_when_torch_is_told_so():
    D, X = dense(300, 300, 0.1), numbers(300, 64)
    A = compressed(D)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert_close(A @ X, D @ X)
    finally:
        torch.set_num_threads(before)


def sent(A, way):
    """Return `A` after pickling, saving or copying."""
    if way == "pickle":
        return pickle.loads(pickle.dumps(A))
    if way == "torch.save":
        file = io.BytesIO()
        torch.save(A, file)
        file.seek(0)
        return torch.load(file, weights_only=False)
    return copy.deepcopy(A) if way == "deepcopy" else copy.copy(A)


@pytest.mark.parametrize("way", ["pickle", "torch.save", "deepcopy", "copy"])
def test_a_csr_travels_with_its_values_and_its_transpose(way):
    D = dense(30, 20)
    A, X = asp.csr(D).with_values(asp.csr(D).values.clone().requires_grad_()), numbers(20, 4)
    A @ X
    A.rows.structure.transposed()
    B, turned = sent(A, way), sent(A.T, way)
    assert (B.shape, B.nnz, B.dtype, B.requires_grad) == (A.shape, A.nnz, A.dtype, True)
    assert_close(B @ X, D @ X)
    assert_close(turned @ numbers(30, 4), D.t() @ numbers(30, 4))
    assert (B.values.data_ptr() == A.values.data_ptr()) == (way == "copy")
    (B @ X).sum().backward()
    assert_close(B.values.grad, X.sum(1)[B.rows.col.long()])


def test_copies_share_a_structure_among_themselves():
    A = asp.csr(dense(30, 20))
    one, other = copy.deepcopy((A, A.T))
    assert one.rows is other.rows
    assert one.rows is not A.rows
    one.values.zero_()
    assert float((A @ numbers(20)).abs().sum()) > 0


def test_a_broken_pickle_is_refused():
    from autosparse.errors import AutosparseError

    A = asp.csr(dense(30, 20))
    make, (rows, values, transposed) = A.__reduce__()
    with pytest.raises(AutosparseError, match="one for each"):
        make(rows, values[1:], transposed)
    remake, (crow, col, n, m) = rows.__reduce__()
    with pytest.raises(AutosparseError, match="not valid"):
        remake(crow, col + m, n, m)


def test_a_module_that_keeps_a_csr_is_copied():
    layer = torch.nn.Linear(3, 2)
    layer.adjacency = asp.csr(dense(30, 20))
    twin = copy.deepcopy(layer)
    assert_close(twin.adjacency @ numbers(20, 3), layer.adjacency @ numbers(20, 3))
