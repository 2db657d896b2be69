"""Tests that values are read at every product and changed structures are noticed, however they were written."""

from __future__ import annotations

import gc

import pytest

from autosparse import config
from tests.torch.samples import assert_close, compressed, dense, numbers, torch

import autosparse.torch as asp  # isort: skip
from autosparse.torch import operand, structure  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
N = 300  # N · N · 0.1 · WIDTH: enough for the executor


@pytest.fixture(autouse=True)
def overridden():
    with asp.override(), config.options(overhead=1.0):
        yield


def warm(A, B, G, times=20):
    """Run products in both directions until transposes and plans exist."""
    for _ in range(times):
        A @ B, A.t() @ G


def routes(A, v):
    """Yield (name, function that writes the values of A); `v` is the tensor that A was made from."""
    yield "values().mul_", lambda: A.values().mul_(2)
    yield "the tensor given to the constructor", lambda: v.add_(1)
    yield "data", lambda: A.values().data.neg_()
    yield "numpy", lambda: A.values().detach().numpy().__imul__(3)
    yield "slice", lambda: A.values()[::2].zero_()
    yield "one element", lambda: v.__setitem__(5, 7.0)
    yield "detached copy_", lambda: A.detach().values().copy_(numbers(len(v), seed=9))
    yield "dlpack", lambda: torch.from_dlpack(v).sub_(1)
    yield "in-place op of the matrix", lambda: A.mul_(1.5)


def test_written_values_are_seen_by_every_product():
    S = compressed(dense(N, N, 0.1))
    v = S.values().clone()
    A = torch.sparse_csr_tensor(S.crow_indices(), S.col_indices(), v, S.shape)
    B, G = numbers(N, 64), numbers(N, 64)
    warm(A, B, G)
    for name, write in routes(A, v):
        for _ in range(3):
            write()
            D = A.to_dense()
            assert_close(A @ B, D @ B), name
            assert_close(A.t() @ G, D.t() @ G), name
        v.copy_(S.values())
        warm(A, B, G, times=3)


def test_optimizer_steps_on_values_are_seen():
    S = compressed(dense(N, N, 0.1))
    v = S.values().clone().requires_grad_()
    B = numbers(N, 64)
    want_v = v.detach().clone().requires_grad_()
    rows = torch.repeat_interleave(torch.arange(N), S.crow_indices().diff())
    optimizers = [torch.optim.Adam([p], lr=0.1) for p in (v, want_v)]
    for _ in range(8):
        A = torch.sparse_csr_tensor(S.crow_indices(), S.col_indices(), v, S.shape)
        D = torch.zeros(N, N).index_put((rows, S.col_indices()), want_v)
        for optimizer, result in zip(optimizers, (torch.sparse.mm(A, B), D @ B), strict=True):
            optimizer.zero_grad()
            (result - 1).square().mean().backward()
            optimizer.step()
    assert_close(v.detach(), want_v.detach())


def test_two_matrices_of_one_structure_take_turns():
    A = compressed(dense(N, N, 0.1))
    C = torch.sparse_csr_tensor(A.crow_indices(), A.col_indices(), A.values() * 2, A.shape)
    B, D = numbers(N, 64), A.to_dense()
    for _ in range(10):
        assert_close(A @ B, D @ B)
        assert_close(C @ B, 2 * D @ B)
        assert_close(A.t() @ B, D.t() @ B)
        assert_close(C.t() @ B, 2 * D.t() @ B)


@pytest.mark.parametrize("how", ["counted", "numpy"])
def test_structure_written_in_place_is_noticed(how):
    A = compressed(dense(N, N, 0.1))
    B, G = numbers(N, 64), numbers(N, 64)
    warm(A, B, G)
    turned = N - 1 - A.col_indices()
    if how == "counted":
        A.col_indices().copy_(turned)
    else:
        A.col_indices().numpy()[:] = turned.numpy()
    D = A.to_dense()
    assert_close(A @ B, D @ B)
    assert_close(A.t() @ G, D.t() @ G)


def test_forget_structures_after_a_single_hidden_write():
    A = compressed(dense(N, N, 0.1))
    B, G = numbers(N, 64), numbers(N, 64)
    warm(A, B, G)
    A.col_indices().numpy()[0] = (A.col_indices()[0] + 1) % N  # too small a write for the samples
    asp.forget_structures()
    D = torch.sparse_csr_tensor(A.crow_indices(), A.col_indices(), A.values(), A.shape).to_dense()
    assert_close(A @ B, D @ B)
    assert_close(A.t() @ G, D.t() @ G)


@pytest.mark.parametrize("n_matrices", [6, pytest.param(12, marks=pytest.mark.full)])
def test_memory_that_is_used_again_by_another_matrix_is_another_matrix(n_matrices):
    """Check matrices at recycled addresses, with equal shapes and numbers of entries but other columns."""
    B, G = numbers(N, 64), numbers(N, 64)
    for seed in range(n_matrices):
        shift = torch.randperm(N, generator=torch.Generator().manual_seed(seed))
        crow, col = torch.arange(0, N * 20 + 1, 20), torch.cat([shift[:20].sort().values for _ in range(N)])
        A = torch.sparse_csr_tensor(crow, col, numbers(N * 20, seed=seed), (N, N))
        D = A.to_dense()
        for _ in range(4):
            assert_close(A @ B, D @ B)
            assert_close(A.t() @ G, D.t() @ G)
        del A, crow, col, D
        gc.collect()


def test_dead_structures_are_dropped():
    asp.forget_structures()
    for seed in range(40):
        compressed(dense(30, 30, seed=seed)) @ numbers(30, 4)
    assert len(structure._structures) <= structure.SWEEP_FROM + 2


def test_a_structure_does_not_keep_the_tensors_alive():
    A = compressed(dense(N, N, 0.1))
    B, G = numbers(N, 64), numbers(N, 64)
    warm(A, B, G)
    known = structure.structure_of(A.crow_indices(), A.col_indices(), N, N)
    assert not known.dead
    del A
    gc.collect()
    assert known.dead


def test_structures_that_share_an_array_or_address_are_distinguished():
    A = compressed(dense(40, 40, 0.2))
    C = torch.sparse_csr_tensor(
        torch.arange(0, 41) * 0 + torch.tensor([0] * 40 + [A._nnz()]), A.col_indices(), A.values(), (40, 40)
    )
    B = numbers(40, 4)
    assert_close(A @ B, A.to_dense() @ B)
    want = torch.zeros(40, 4)
    want[39] = (A.values()[:, None] * B[A.col_indices()]).sum(0)
    assert_close(C @ B, want)


def test_extra_memory_bounds_the_built_transpose():
    S = compressed(dense(N, N, 0.1), index_dtype=torch.int32)
    B, G = numbers(N, 64), numbers(N, 64)
    with config.options(extra_memory=0.1):
        warm(S, B, G, times=60)
        known = structure.structure_of(S.crow_indices(), S.col_indices(), N, N)
        assert known.turned_when_it_pays() is None
        assert_close(S.t() @ G, S.to_dense().t() @ G)


def test_background_tuning_continues_after_its_matrices_are_freed():
    B, G = numbers(N, 64), numbers(N, 64)
    with config.options(background=True, overhead=1.0, effort="measure", budget_s=5.0):
        for seed in range(6):
            A = compressed(dense(N, N, 0.1, seed=seed))
            D = A.to_dense()
            for _ in range(12):
                A.values().mul_(-1)
                D = -D
                fresh = torch.sparse_csr_tensor(A.crow_indices(), A.col_indices(), A.values().clone(), A.shape)
                assert_close(fresh @ B, D @ B)
                assert_close(A.t() @ G, D.t() @ G)
            del A, fresh
            gc.collect()


@pytest.mark.parametrize("inference", [False, True])
def test_a_pinned_operand_reads_memory_that_stays_and_counts_its_writes(inference):
    """Check what a background thread reads: never freed memory, and one content per version."""
    asp.forget_structures()
    A = compressed(dense(N, N, 0.1))
    D = A.to_dense()
    v, B = A.values().clone(), numbers(N, 64)
    known = structure.structure_of(A.crow_indices(), A.col_indices(), N, N)
    ours = operand.operand_of(known, torch.float32)
    with torch.inference_mode(inference), operand.held(asp.csr(A).rows, A.values(), transposed=False):
        ours.pin()
    arrays = ours.indptr.copy(), ours.indices.copy(), ours.data.copy()
    before = ours.values_version
    for sign in (-1, 1, -1):
        A.values().mul_(-1)
        assert_close(A @ B, sign * D @ B)
        assert (ours.data == sign * arrays[2]).all()
    assert ours.values_version >= before + 3
    A @ B
    same = ours.data.copy()
    del A, D, B
    gc.collect()
    numbers(len(v)), numbers(len(v))  # reuse memory that was freed
    assert not known.dead
    assert (ours.indptr == arrays[0]).all()
    assert (ours.indices == arrays[1]).all()
    assert (ours.data == same).all()


def test_an_unpinned_operand_reads_the_tensors_again():
    A, B = compressed(dense(N, N, 0.1)), numbers(N, 64)
    known = structure.structure_of(A.crow_indices(), A.col_indices(), N, N)
    ours = operand.operand_of(known, torch.float32)
    with operand.held(asp.csr(A).rows, A.values(), transposed=False):
        ours.pin()
    ours.unpin()
    A @ B
    assert ours.data.ctypes.data == A.values().data_ptr()
    del A
    gc.collect()
    assert known.dead
