"""Tests of edge cases of shapes, structures and numbers: PyTorch's answers, in memory that nothing else writes."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from autosparse import config
from autosparse.errors import InputError
from autosparse.tuning import background, live
from tests.torch.samples import INDICES, VALUES, assert_close, compressed, counted, dense, numbers, torch

import autosparse.torch as asp  # isort: skip
from autosparse.torch import structure, thresholds  # isort: skip
from autosparse.torch.operand import TorchOperand  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*deprecated", "ignore:.*[Oo]verrid")
LAYOUTS = (torch.sparse_csr, torch.sparse_csc, torch.sparse_coo)


@pytest.fixture(autouse=True)
def overridden():
    with asp.override():
        yield


def shaped(D, layout):
    return D.to_sparse_coo() if layout is torch.sparse_coo else compressed(D, layout)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (4, 4), (1, 1)], ids=str)
def test_matrices_without_entries_and_operands_without_columns(layout, shape):
    n, m = shape
    A = shaped(torch.zeros(shape), layout)
    for k in (0, 1, 5):
        assert_close(A @ numbers(m, k), torch.zeros(n, k))
        assert_close(A.t() @ numbers(n, k), torch.zeros(m, k))
    if layout is torch.sparse_csr:
        assert torch.sparse.sampled_addmm(A, numbers(n, 2), numbers(2, m))._nnz() == 0
        full = compressed(torch.ones(4, 4))
        assert_close(torch.sparse.sampled_addmm(full, numbers(4, 0), numbers(0, 4)).to_dense(), torch.ones(4, 4))
        for reduce in ("sum", "mean", "amax", "amin"):
            assert_close(torch.sparse.mm(A, numbers(m, 2), reduce), torch.zeros(n, 2))


def uneven():
    """Return a matrix with empty first, last and inner rows, one full row, and one column in every third row."""
    D = torch.zeros(60, 500)
    D[7] = numbers(500, seed=3)
    D[1:-1:3, 11] = 2.0
    D[30:40] = 0.0
    return D


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_empty_rows_and_one_long_row(layout):
    D = uneven()
    A, B, G = shaped(D, layout), numbers(500, 70), numbers(60, 70)
    with config.options(overhead=1.0):
        for _ in range(3):
            assert_close(A @ B, D @ B)
            assert_close(A @ B[:, 0], D @ B[:, 0])
            assert_close(A.t() @ G, D.t() @ G)


@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
def test_unsorted_columns_and_repeated_entries_count_each_on_its_own(index_dtype):
    crow = torch.tensor([0, 4, 4, 7], dtype=index_dtype)
    col = torch.tensor([3, 0, 3, 1, 2, 2, 0], dtype=index_dtype)
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -7.0])
    row = torch.tensor([0, 0, 0, 0, 2, 2, 2])
    D = torch.zeros(3, 4).index_put((row, col.long()), values, accumulate=True)
    A = torch.sparse_csr_tensor(crow, col, values, (3, 4), check_invariants=False)
    B, G, X, Y = numbers(4, 5), numbers(3, 5), numbers(3, 2), numbers(2, 4)
    assert_close(A @ B, D @ B)
    assert_close(A.t() @ G, D.t() @ G)
    sampled = torch.sparse.sampled_addmm(A, X, Y, beta=2.0).values()
    assert_close(sampled, (X @ Y)[row, col.long()] + 2 * values)
    assert_close(torch.sparse.mm(A, B, "amax")[2], (values[4:, None] * B[col[4:].long()]).max(0).values)
    leaf = B.clone().requires_grad_()
    torch.sparse.mm(A, leaf).backward(G)
    assert_close(leaf.grad, D.t() @ G)


@pytest.mark.parametrize("width", [1, 4, 19, 64])
def test_infinities_nans_zeros_and_subnormals_go_where_pytorch_sends_them(width):
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0, 1e-42, 3e38])
    D = torch.zeros(12, 12)
    D[0, 1], D[3, 3], D[3, 4], D[5, 0], D[7, 7], D[9, 2] = 1.0, -2.0, torch.inf, torch.nan, -0.0, 10.0
    A = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 1, 1, 3, 3, 4, 4, 5, 5, 6, 6, 6]), torch.tensor([1, 3, 4, 0, 7, 2]),
        torch.tensor([1.0, -2.0, torch.inf, torch.nan, -0.0, 10.0]), (12, 12),
    )  # fmt: skip
    B = numbers(12, width)
    B[:6, 0], B[2, -1] = special, 3e38
    row, want = torch.tensor([0, 3, 3, 5, 7, 9]), torch.zeros(12, width)
    want.index_add_(0, row, A.values()[:, None] * B[A.col_indices()])
    got = A @ B
    torch.testing.assert_close(got, want, equal_nan=True)
    assert torch.equal(got.isinf(), want.isinf())


@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_results_are_new_memory_that_no_later_product_writes(dtype):
    """Check that results own their memory, also when they are large enough for recycled pages."""
    D = dense(1500, 40, dtype=dtype)
    A, B = compressed(D), numbers(40, 1000, dtype=dtype)
    first = A @ B
    kept = first.clone()
    others = [A @ (B * factor) for factor in (2, 3)]
    assert torch.equal(first, kept)
    addresses = [t.untyped_storage().data_ptr() for t in (first, *others, B, A.values())]
    assert len(set(addresses)) == len(addresses)
    first.zero_()
    assert_close(A @ B, kept)
    S = torch.sparse.sampled_addmm(A, numbers(1500, 2, dtype=dtype), numbers(2, 40, dtype=dtype), beta=0.0)
    S.col_indices().zero_(), S.values().zero_()
    assert_close(A @ B, kept)


def test_out_may_be_an_operand_or_column_major():
    D = dense(6, 6)
    A, B, C = compressed(D), numbers(6, 6), numbers(6, 6, seed=5)
    out = B.clone()
    assert torch.mm(A, out, out=out) is out
    assert_close(out, D @ B)
    out = B.clone()
    assert_close(torch.addmm(out, A, out, beta=2, out=out), 2 * B + D @ B)
    by_columns = torch.empty(6, 6).t()
    assert_close(torch.addmm(C, A, B, out=by_columns), C + D @ B)
    assert by_columns.stride() == (1, 6)
    x = B[:, 0].clone()
    assert_close(torch.mv(A, x, out=x), D @ B[:, 0])
    x = B[:, 0].clone()
    assert_close(torch.addmv(x, A, x, out=x), B[:, 0] + D @ B[:, 0])
    assert_close(C.clone().addmm_(A, B, beta=0.5), 0.5 * C + D @ B)


@pytest.mark.parametrize("alpha", [1, -0.5, 3])
@pytest.mark.parametrize("beta", [1, 0, 0.25])
def test_small_sums_are_scaled_as_pytorch_scales_them(alpha, beta):
    """Check any order, shape and sign bit of the added operand; with beta 0 it is not read."""
    D, B = dense(6, 5), numbers(5, 7)
    A, C = compressed(D), numbers(6, 7, seed=3)
    bases = {"rows": C, "columns": C.t().contiguous().t(), "one row": C[0], "one number": C[0, 0]}
    bases["negative"] = torch.view_as_complex(torch.stack([C, -C], -1)).conj().imag
    for base in bases.values():
        want = alpha * (D @ B) + beta * base
        assert_close(torch.addmm(base, A, B, alpha=alpha, beta=beta), want)
    want = alpha * (D @ B[:, 0]) + beta * C[:, 0]
    assert_close(torch.addmv(C[:, 0], A, B[:, 0], alpha=alpha, beta=beta), want)
    if beta == 0:
        assert_close(torch.addmm(torch.full((6, 7), torch.nan), A, B, alpha=alpha, beta=0), alpha * (D @ B))
    with pytest.raises(RuntimeError):
        torch.addmm(numbers(5, 7), A, B, alpha=alpha, beta=beta)


def test_conjugate_and_negative_bits_are_resolved():
    D, B = dense(8, 8, dtype=torch.complex64), numbers(8, 3, dtype=torch.complex64)
    A = compressed(D)
    assert_close(A @ B.conj(), D @ B.conj().resolve_conj())
    assert_close(A.conj() @ B, D.conj().resolve_conj() @ B)
    negative = B.conj().imag
    assert negative.is_neg()
    real = dense(8, 8)
    assert_close(compressed(real) @ negative, real @ negative.clone())
    assert_close(
        torch.sparse.sampled_addmm(A, B.conj(), B.t(), beta=0.0).values(),
        (B.conj() @ B.t()).sparse_mask(A).values(),
    )


@pytest.mark.parametrize("value_grad", [False, True])
@pytest.mark.parametrize("dense_grad", [False, True])
def test_gradients_are_computed_only_for_operands_that_require_them(value_grad, dense_grad):
    D = dense(9, 7)
    values = compressed(D).values().clone().requires_grad_(value_grad)
    S = compressed(D)
    B = numbers(7, 3).requires_grad_(dense_grad)
    A = torch.sparse_csr_tensor(S.crow_indices(), S.col_indices(), values, S.shape)
    y = torch.sparse.mm(A, B)
    assert y.requires_grad == (value_grad or dense_grad)
    if not y.requires_grad:
        return
    grad = numbers(9, 3, seed=8)
    for times in (1, 2):
        y.backward(grad, retain_graph=True)
        if dense_grad:
            assert_close(B.grad, times * (D.t() @ grad))
        if value_grad:
            assert_close(values.grad, times * (grad @ B.detach().t())[D != 0])
    assert (B.grad is not None) == dense_grad
    assert (values.grad is not None) == value_grad


def test_index_arrays_of_two_dtypes_are_pytorchs():
    """Check int32 row pointers with int64 columns, which PyTorch accepts without checks of invariants."""
    crow, col = torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([1, 0])
    A = torch.sparse_csr_tensor(crow, col, torch.tensor([2.0, 3.0]), (2, 2), check_invariants=False)
    B, D = numbers(2, 3), torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    with counted() as calls:
        assert_close(A @ B, D @ B)
    assert calls == []
    assert_close(asp.csr(A) @ B, D @ B)


def test_transformed_functions_answer_or_refuse_as_pytorch():
    D, X = dense(5, 5), numbers(3, 5)
    A = compressed(D)
    calls = (
        lambda: torch.vmap(lambda x: A @ x)(X),
        lambda: torch.vmap(lambda x: A @ x)(X.unsqueeze(2)),
        lambda: torch.func.grad(lambda x: (A @ x).sum())(X[0]),
        lambda: torch.func.jvp(lambda x: A @ x, (X[0],), (X[1],))[1],
        lambda: torch.einsum("ij,kj->ik", A, X),
    )

    def outcome(call):
        try:
            return call()
        except (RuntimeError, NotImplementedError) as error:
            return type(error)

    for place, call in enumerate(calls):
        with ThreadPoolExecutor(1) as elsewhere:  # a thread where the block is not in force
            assert not elsewhere.submit(asp.installed).result()
            outcomes = outcome(call), elsewhere.submit(outcome, call).result()
        assert type(outcomes[0]) is type(outcomes[1]), place
        if isinstance(outcomes[0], torch.Tensor):
            assert_close(*outcomes)
        else:
            assert outcomes[0] is outcomes[1], place


def test_fake_tensors_stay_fake():
    from torch._subclasses import FakeTensor, FakeTensorMode

    A, B = compressed(dense(5, 4)), numbers(4, 3)
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = A @ B
    assert type(fake) is FakeTensor
    assert fake.shape == (5, 3)


@pytest.mark.parametrize("reduce", ["mean", "max", "min"])
def test_no_kernel_writes_to_a_tensor_without_memory(reduce):
    from torch._subclasses import FakeTensorMode

    A, B = asp.csr(compressed(dense(5, 4))), numbers(4, 3)
    want = asp.spmm(A, B, reduce)
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(InputError, match="without memory"):
        asp.spmm(A, B, reduce)
    assert_close(asp.spmm(A, B, reduce), want)


@pytest.mark.parametrize("failure", [MemoryError, RuntimeError, OSError])
def test_tuning_that_fails_leaves_the_product(failure, monkeypatch):
    from autosparse import notices
    from autosparse.tuning import setup

    def fails(*args):
        raise failure("for the test")

    notices.forget_warnings()
    asp.forget_structures()
    monkeypatch.setattr(setup, "context_of", fails)
    monkeypatch.setattr(live.LiveTuner, "_affordable", lambda *_: True)  # on a machine of any speed
    D, B = dense(400, 400, 0.1), numbers(400, 64)
    A = compressed(D)
    want = D @ B
    with config.options(overhead=1.0, runs=10**6, effort="measure"), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(100):
            assert torch.allclose(A @ B, want, atol=1e-3)
            if any("for the test" in str(one.message) for one in told):
                break
    assert any(one.category is notices.FallbackWarning and "for the test" in str(one.message) for one in told)


def test_interrupted_tuning_leaves_a_matrix_that_multiplies(monkeypatch):
    from autosparse.tuning import setup

    def interrupted(*args):
        raise KeyboardInterrupt

    asp.forget_structures()
    D, B = dense(400, 400, 0.1), numbers(400, 64)
    A = compressed(D)
    with config.options(overhead=1.0, runs=10**6, effort="measure"):
        with monkeypatch.context() as patch:
            patch.setattr(setup, "context_of", interrupted)
            patch.setattr(live.LiveTuner, "_affordable", lambda *_: True)
            with pytest.raises(KeyboardInterrupt):
                [A @ B for _ in range(100)]
        known = structure.structure_of(A.crow_indices(), A.col_indices(), 400, 400)
        assert not known.operands[torch.float32, TorchOperand].busy.locked()
        assert_close(A @ B, D @ B)


def test_values_written_while_the_background_thread_tunes_are_seen(monkeypatch):
    """Run the jobs of the background thread between two writes of the user's program."""
    asp.forget_structures()
    jobs = []
    monkeypatch.setattr(background, "submit", jobs.append)
    monkeypatch.setattr(live.LiveTuner, "_affordable", lambda *_: True)  # on a machine of any speed
    D, B = dense(400, 400, 0.1), numbers(400, 64)
    A = compressed(D)
    n_done = 0
    with config.options(overhead=1.0, runs=10**6, effort="measure", budget_s=2.0, background=True):
        for _ in range(60):
            A.values().mul_(-1)
            D = -D
            assert_close(A @ B, D @ B)
            A.values().mul_(-1)
            while jobs:
                jobs.pop()()
                n_done += 1
            A.values().mul_(-1)
            assert_close(A @ B, D @ B)
    assert n_done > 0
    assert A._nnz() * 64 > thresholds.DIRECT_PRODUCT
