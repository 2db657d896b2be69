"""Tests of malformed tensors, which PyTorch does not check, under the override: no kernel reads out of bounds."""

from __future__ import annotations

import gc
import itertools
from contextlib import nullcontext

import pytest

from tests.torch.samples import INDICES, assert_close, compressed, dense, numbers, torch
from tests.torch.test_interchange import MALFORMED, malformed

import autosparse.torch as asp  # isort: skip
from autosparse.errors import StructureError  # isort: skip
from autosparse.torch import thresholds  # isort: skip
from autosparse.torch.dispatcher import extension  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
LAYOUTS = (torch.sparse_csr, torch.sparse_csc)
PRODUCTS = {
    "mm": lambda A, n, m: A @ torch.ones(m, 2),
    "mm of many columns": lambda A, n, m: A @ torch.ones(m, 9000),
    "mm of the executor": lambda A, n, m: A @ torch.ones(m, 300_000),
    "mv": lambda A, n, m: A @ torch.ones(m),
    "transposed": lambda A, n, m: A.t() @ torch.ones(n, 2),
    "of rows": lambda A, n, m: torch.ones(3, n) @ A,
    "of many rows": lambda A, n, m: torch.ones(9000, n) @ A,
    "sum of many rows": lambda A, n, m: torch.addmm(torch.ones(9000, m), torch.ones(9000, n), A),
    "addmm": lambda A, n, m: torch.addmm(torch.ones(n, 2), A, torch.ones(m, 2)),
    "mm.out": lambda A, n, m: torch.mm(A, torch.ones(m, 2), out=torch.empty(n, 2)),
    "addmv": lambda A, n, m: torch.addmv(torch.ones(n), A, torch.ones(m)),
}
OF_ROWS = {
    "sampled_addmm": lambda A, n, m: torch.sparse.sampled_addmm(A, torch.ones(n, 3), torch.ones(3, m)),
    "sampled of many": lambda A, n, m: torch.sparse.sampled_addmm(A, torch.ones(n, 2**23), torch.ones(2**23, m)),
    "amax": lambda A, n, m: torch.sparse.mm(A, torch.ones(m, 2), "amax"),
    "mean": lambda A, n, m: torch.sparse.mm(A, torch.ones(m, 2), "mean"),
}


@pytest.mark.parametrize("yes", [False, True], ids=["Python", "module"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
@pytest.mark.parametrize("name", MALFORMED)
def test_no_product_follows_an_index_out_of_its_matrix(name, index_dtype, layout, yes, builtin):
    builtin(yes=yes)
    A = malformed(name, layout, index_dtype)
    products = PRODUCTS | (OF_ROWS if layout is torch.sparse_csr else {})
    with asp.override():
        for product in products.values():
            for _ in range(2):
                with pytest.raises(StructureError):
                    product(A, *A.shape)


def malformed_blocks(name, layout, index_dtype):
    """Return a tensor of blocks of 2 x 2 whose indices, or whose number of values, PyTorch did not check."""
    starts, indices, shape = MALFORMED.get(name, ([0, 1, 2], [0, 1], (2, 2)))
    shape = [2 * extent for extent in (shape[::-1] if layout is torch.sparse_bsc else shape)]
    starts, indices = (torch.tensor(one, dtype=index_dtype) for one in (starts, indices))
    values = torch.ones(len(indices) - (name not in MALFORMED), 2, 2)
    return torch.sparse_compressed_tensor(starts, indices, values, shape, layout=layout, check_invariants=False)


@pytest.mark.parametrize("yes", [False, True], ids=["Python", "module"])
@pytest.mark.parametrize("layout", [torch.sparse_bsr, torch.sparse_bsc], ids=str)
@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
@pytest.mark.parametrize("name", [*MALFORMED, "too few blocks"])
def test_no_product_follows_an_index_to_a_block_out_of_its_matrix(name, index_dtype, layout, yes, builtin):
    builtin(yes=yes)
    A = malformed_blocks(name, layout, index_dtype)
    with asp.override():
        for product in PRODUCTS.values():
            with pytest.raises(StructureError):
                product(A, *A.shape)


def chain(n, layout=torch.sparse_csr):
    """Return a cyclic matrix with one entry in each of n rows, whose indices tests overwrite."""
    at, columns = torch.arange(n + 1), torch.roll(torch.arange(n), 1)
    return torch.sparse_compressed_tensor(at, columns, torch.ones(n), (n, n), layout=layout)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_writes_to_indices_that_were_checked_are_seen(layout, builtin):
    builtin(yes=True)
    n = 2 * thresholds.ENTRIES_CHECKED
    A, X = chain(n, layout), numbers(n, 40)
    indices = A.col_indices if layout is torch.sparse_csr else A.row_indices
    with asp.override():
        for _ in range(10):
            assert_close(A @ X, torch.roll(X, 1 if layout is torch.sparse_csr else -1, 0))
        indices()[0] = 5
        assert_close(A @ X, A.to_dense() @ X)  # the dense matrix has hundreds of megabytes
        indices()[1] = n
        for _ in range(2):
            with pytest.raises(StructureError):
                A @ X
        indices()[1] = 0
        wanted = A.to_dense() @ X
        for _ in range(10):
            assert_close(A @ X, wanted)
        indices().numpy()[2] = -1  # PyTorch does not count this write
        asp.forget_structures()
        with pytest.raises(StructureError):
            A @ X


def test_a_matrix_at_the_addresses_of_another_is_checked(builtin):
    builtin(yes=True)
    n = 2 * thresholds.ENTRIES_CHECKED
    X = numbers(n, 4)
    with asp.override():
        for turn in range(30):
            A = chain(n)
            if turn % 3 == 2:
                A.col_indices()[turn] = n + turn
                with pytest.raises(StructureError):
                    A @ X
            else:
                for _ in range(1 + 3 * turn):
                    assert_close(A @ X, torch.roll(X, 1, 0))
            del A
            gc.collect()


def test_other_indices_copied_into_a_tensor_are_checked(builtin):
    builtin(yes=True)
    n = 2 * thresholds.ENTRIES_CHECKED
    A, wrong, X = chain(n), chain(n), numbers(n, 4)
    wrong.col_indices()[7] = -1
    with asp.override():
        for _ in range(8):
            A @ X
        A.copy_(wrong)
        assert A.col_indices()[7] == -1
        with pytest.raises(StructureError):
            A @ X


def test_the_first_products_of_a_structure_need_no_preparation(builtin, monkeypatch):
    builtin(yes=True)
    n = 2 * thresholds.ENTRIES_CHECKED
    k = thresholds.UNPREPARED_MULTIPLICATIONS // (32 * n)
    A, X, x = chain(n), numbers(n, k), numbers(n)
    want = torch.roll(X, 1, 0)
    least = max(thresholds.UNPREPARED_PRODUCTS, thresholds.UNPREPARED_MULTIPLICATIONS // (n * k))
    unprepared, planned = thresholds.REMEMBERED_PRODUCTS + least + 1, []
    multiply = extension.KnownIndices.multiply
    monkeypatch.setattr(extension.KnownIndices, "multiply", lambda *given: planned.append(given) or multiply(*given))
    with asp.override():
        for n_products in range(1, unprepared + 4):
            assert torch.equal(A @ X, want)
            assert len(planned) == max(0, n_products - unprepared)
        assert_close(torch.addmm(X, A, X), X + torch.roll(X, 1, 0))
        assert_close(A @ x, torch.roll(x, 1))
        assert len(planned) == 4  # three products and that of the sum
        for _ in range(3):
            assert_close(A.t() @ X, torch.roll(X, -1, 0))
            assert_close(torch.sparse.mm(A, X, "sum"), torch.roll(X, 1, 0))
        assert len(planned) > 6
        n_before, n_computed = len(planned), extension.library.n_computed()
        torch.use_deterministic_algorithms(True)
        try:
            assert_close(A @ X, torch.roll(X, 1, 0))
        finally:
            torch.use_deterministic_algorithms(False)
        assert len(planned) == n_before
        assert extension.library.n_computed() == n_computed + 1  # the default kernel is deterministic


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_larger_products_equal_pytorchs(layout, dtype, builtin):
    builtin(yes=True)
    D = dense(300, 200, dtype=dtype)
    A, B, x = compressed(D, layout), numbers(200, 40, dtype=dtype), numbers(200, dtype=dtype)
    base, y = numbers(300, 40, dtype=dtype), numbers(300, dtype=dtype)
    with asp.override():
        for beta, alpha in itertools.product((0, 1, -0.5), (1, 2)):
            want = alpha * (D @ B) + beta * base
            assert_close(torch.addmm(base, A, B, beta=beta, alpha=alpha), want)
            out = torch.full((300, 40), torch.nan, dtype=dtype)
            assert torch.addmm(base, A, B, beta=beta, alpha=alpha, out=out) is out
            assert_close(out, want)
            assert_close(torch.addmm(base, A, B, beta=beta, alpha=alpha, out=base.clone()), want)
            assert_close(torch.addmv(y, A, x, beta=beta, alpha=alpha), alpha * (D @ x) + beta * y)
        wide = numbers(200, 80, dtype=dtype)
        for part in (wide[:, :40], wide[:, ::2], wide.t()[:40].t()):
            assert_close(A @ part, D @ part)
        assert_close(A @ wide[:, 3], D @ wide[:, 3])
        square = compressed(D[:200], layout)
        assert_close(torch.mm(square, B, out=B), D[:200] @ numbers(200, 40, dtype=dtype))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc], ids=str)
@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.float64, torch.float32)], ids=str)
@pytest.mark.parametrize("n", [4, 600])
@pytest.mark.parametrize("yes", [True, False])
def test_values_of_another_dtype_than_the_tensors_are_not_read(layout, dtypes, n, yes, builtin):
    """Check parameters after `Module.double()`, by which PyTorch changes the dtype of a tensor, but not its values."""
    builtin(yes=yes)
    module = torch.nn.ParameterList([torch.nn.Parameter(compressed(torch.ones(n, n, dtype=dtypes[0]), layout))])
    A, X = module.to(dtypes[1])[0].detach(), torch.ones(n, 3, dtype=dtypes[1])
    B = module[0]
    for call in (
        lambda: A @ X, lambda: A @ X[:, 0], lambda: A @ X.to(dtypes[0]), lambda: X.t() @ A, lambda: A.t() @ X,
        lambda: torch.addmm(X, A, X), lambda: torch.mm(A, X, out=X.clone()), lambda: torch.sparse.mm(A, X, "mean"),
        lambda: torch.sparse.sampled_addmm(A, X, X.t()).values(), lambda: B @ X,
    ):  # fmt: skip
        outcomes = []
        for block in (nullcontext(), asp.override(sparse_gradients=True)):
            with block:
                try:
                    outcomes.append(call().detach().sum())
                except RuntimeError as error:
                    outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


def coordinates(at, wrong, *, is_coalesced, batches=()):
    """Return a COO tensor of 5 x 4 with an index of dimension `at` outside its shape, which PyTorch did not check."""
    S = torch.ones(*batches, 5, 4, dtype=torch.float64).to_sparse_coo()
    indices = S.indices().clone()
    indices[at, 3] = S.shape[at] if wrong is None else wrong
    return torch.sparse_coo_tensor(indices, S.values(), S.shape, is_coalesced=is_coalesced, check_invariants=False)


X, BATCH = (torch.ones(*shape, dtype=torch.float64) for shape in ((4, 3), (2, 4, 3)))
OF_COORDINATES = {
    "sparse": lambda A: A @ A.t(),
    "sparse.mm": lambda A: torch.sparse.mm(A.t(), A),
    "one sparse": lambda A: A @ torch.eye(4, dtype=torch.float64).to_sparse_coo(),
    "smm": lambda A: torch.smm(A, X),
    "sspaddmm": lambda A: torch.sspaddmm(A @ A.t(), A, torch.ones(4, 5, dtype=torch.float64), beta=2, alpha=3),
    "hspmm": lambda A: torch.hspmm(A, X),
    "hspmm.out": lambda A: torch.hspmm(A, X, out=torch.zeros(5, 3, dtype=torch.float64).to_sparse_coo()),
}
OF_BATCHES = {
    "bmm": lambda A: torch.bmm(A, BATCH),
    "bmm.out": lambda A: torch.bmm(A, BATCH, out=torch.empty(2, 5, 3, dtype=torch.float64)),
    "gradient": lambda A: torch.bmm(A, BATCH.clone().requires_grad_()),
}


@pytest.mark.parametrize("yes", [False, True], ids=["Python", "module"])
@pytest.mark.parametrize("is_coalesced", [False, True])
@pytest.mark.parametrize("wrong", [-1, None, 10**6, -(10**12), 2**62, -(2**63)])
def test_no_product_of_coordinates_follows_one_out_of_its_tensor(wrong, is_coalesced, yes, builtin):
    builtin(yes=yes)
    with asp.override():
        for products, batches in ((OF_COORDINATES, ()), (OF_BATCHES, (2,))):
            for at in range(2 + len(batches)):
                A = coordinates(at, wrong, is_coalesced=is_coalesced, batches=batches)
                for product in products.values():
                    with pytest.raises(StructureError):
                        product(A)


@pytest.mark.parametrize("yes", [False, True], ids=["Python", "module"])
def test_products_of_coordinates_that_pytorch_computes_are_pytorchs(yes, builtin):
    builtin(yes=yes)
    A, stacked = dense(5, 4, dtype=torch.float64), dense(10, 4, dtype=torch.float64).view(2, 5, 4)
    for products, D in ((OF_COORDINATES, A), (OF_BATCHES, stacked), (OF_COORDINATES, torch.zeros_like(A))):
        S = D.to_sparse_coo()
        for product in products.values():
            stock = product(S)
            with asp.override():
                ours = product(S)
            assert ours.layout is stock.layout
            assert_close(ours.to_dense(), stock.to_dense())
