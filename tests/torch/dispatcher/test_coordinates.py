"""Tests of products of COO tensors: entries in any order, index arrays that are made again, and writes to them."""

from __future__ import annotations

import gc
import itertools

import pytest

import autosparse
from tests.torch.samples import VALUES, assert_close, numbers, torch

import autosparse.torch as asp  # isort: skip  (torch first: the line above skips where it is missing)
from autosparse.torch import coordinates, thresholds  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
REAL = (torch.float32, torch.float64)
N, M = 40, 30
WIDTHS = {"in C++": 5, "in C++, threads": 600, "in Python": 2000}
assert 700 * WIDTHS["in C++, threads"] < thresholds.KEPT_COORDINATES <= 700 * WIDTHS["in Python"]


def ids(order, n_entries=700, seed=0):
    """Return the ids of entries, with duplicates, in one of the orders of `ORDERS`."""
    generator = torch.Generator().manual_seed(seed)
    row, col = (torch.randint(extent, (n_entries,), generator=generator) for extent in (N, M))
    by = {"rows": row, "columns": col, "none": torch.randperm(n_entries, generator=generator)}[order.split()[0]]
    pairs = torch.stack([row, col])[:, by.argsort(stable=True)]
    return pairs.t().contiguous().t() if "edges" in order else pairs


ORDERS = ("rows", "columns", "none", "none as edges")


def matrix(at, values, **more):
    """Return a COO matrix, which shares the memory of both arguments."""
    return torch.sparse_coo_tensor(at, values, (N, M), check_invariants=False, **more)


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_entries_in_any_order_give_pytorchs_product(order, dtype, width):
    at = ids(order)
    A, B, C = matrix(at, numbers(700, dtype=dtype)), numbers(M, width, dtype=dtype), numbers(N, width, dtype=dtype)
    calls = (
        lambda: A @ B, lambda: A.t() @ C, lambda: torch.addmm(C, A, B, beta=0.5, alpha=-2), lambda: C.t() @ A,
        lambda: torch.mm(A, B, out=C.clone()), lambda: torch.sparse.mm(A, B), lambda: A @ B,
    )  # fmt: skip
    want = [call() for call in calls]
    with asp.override():
        for call, expected in zip(calls, want, strict=True):
            got = call()
            assert got.stride() == expected.stride()
            assert_close(got, expected)


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("order", ORDERS)
def test_gradients_of_entries_in_any_order_are_pytorchs(order, width):
    at, grads = ids(order), []
    for block in (autosparse.options(), asp.override()):
        values, B = numbers(700).requires_grad_(), numbers(M, width).requires_grad_()
        with block:
            for _ in range(2):
                (torch.sparse.mm(matrix(at, values), B).square().sum() / width).backward()
        grads.append((values.grad, B.grad))
    for got, want in zip(*reversed(grads), strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("order", ORDERS)
def test_rows_are_recognised_in_a_transpose_and_in_a_copy(order):
    A = matrix(ids(order), numbers(700))
    rows = coordinates.rows_of(A).rows
    assert coordinates.rows_of(A).rows is rows
    turned, again = A.t(), matrix(A._indices().clone(), numbers(700, seed=2))
    assert coordinates.rows_of(turned)[2:] == (rows, True)
    assert coordinates.rows_of(again)[2:] == (rows, False)
    assert coordinates.rows_of(again.t())[2:] == (rows, True)
    other = A._indices().clone()
    other[0, 0] = (other[0, 0] + 1) % N
    assert coordinates.rows_of(matrix(other, numbers(700))).rows is not rows


def test_rows_of_a_coalesced_matrix_are_its_own():
    """Check a matrix whose transpose has the same entries in the same order, as a staircase has."""
    steps = torch.arange(M).repeat_interleave(2)[None].repeat(2, 1)
    steps[0, 1:] = steps[0, :-1].clone()
    A = torch.sparse_coo_tensor(steps, numbers(2 * M), (M, M)).coalesce()
    for one in (A, A.t().coalesce(), A):
        assert_close(asp.spmm(one, torch.eye(M)), one.to_dense())
        found = coordinates.rows_of(one)
        assert found.rows.order is None
        assert not found.transposed


def test_order_of_rows_is_stable():
    row, col = ids("none")
    rows = coordinates.rows_of(matrix(torch.stack([row, col]), numbers(700))).rows
    order = row.argsort(stable=True)
    assert torch.equal(rows.order.long(), order)
    assert torch.equal(rows.col.long(), col[order])
    assert torch.equal(rows.crow.diff().long(), torch.bincount(row, minlength=N))
    assert rows.wide_crow is rows.wide_crow
    assert torch.equal(rows.wide_crow, rows.crow.long())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("way", ["torch", "data", "numpy", "made again", "values"])
def test_writes_are_seen(order, way):
    at = ids(order)
    A, B = matrix(at, numbers(700)), numbers(M, WIDTHS["in Python"])
    with asp.override():
        for place in (0, 350, 699):
            A @ B, A.t() @ numbers(N, WIDTHS["in Python"])
            if way == "values":
                A._values()[place] = 100.0 + place
            elif way == "torch":
                A._indices()[:, place] = torch.tensor([place % N, 7])
            elif way == "made again":  # of the same memory, which was written
                at[:, place] = torch.tensor([place % N, 7])
                A = matrix(at, numbers(700))
            elif way == "data":
                A._indices().data[:] = at.roll(place + 1, 1)
            else:
                A._indices().numpy()[:] = at.roll(place + 1, 1).numpy()
            assert_close(A @ B, A.to_dense() @ B)


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("bad", [(0, N), (0, -1), (1, M), (1, -1), (1, 2**40), (0, -(2**40))], ids=str)
@pytest.mark.parametrize("is_coalesced", [False, True])
def test_ids_outside_are_pytorchs_error(width, bad, is_coalesced):
    at = ids("rows")
    at[bad[0], 350] = bad[1]
    A = matrix(at, numbers(700), is_coalesced=is_coalesced)
    with asp.override(), pytest.raises(RuntimeError, match="index out of"):
        A @ numbers(M, width)


def test_without_memory_pytorch_computes_entries_out_of_order():
    B = numbers(M, WIDTHS["in Python"])
    with autosparse.options(extra_memory=0.0), asp.override():
        for order in ORDERS:
            A = matrix(ids(order), numbers(700))
            assert (coordinates.rows_of(A).rows is None) is order.startswith(("columns", "none"))
            assert_close(A @ B, A.to_dense() @ B)


def test_rows_are_dropped_with_the_index_array():
    asp.forget_structures()
    for seed in range(3):
        A = matrix(ids("none", seed=seed), numbers(700))
        coordinates.rows_of(A)
        assert len(coordinates._kept) == 1
        del A
        gc.collect()
    asp.forget_structures()
    assert not coordinates._kept


def test_lengths_of_zero_and_large_shapes():
    for shape, nnz in itertools.product(((0, 3), (3, 0), (1, 1), (5, 4)), (0, 1)):
        if nnz and 0 in shape:
            continue
        A = torch.sparse_coo_tensor(torch.zeros(2, nnz, dtype=torch.int64), torch.ones(nnz), shape)
        with asp.override():
            assert_close(A @ torch.ones(shape[1], 3), A.to_dense() @ torch.ones(shape[1], 3))
    far = torch.sparse_coo_tensor([[0], [2**33]], [1.0], (2, 2**34))
    assert coordinates.rows_of(far).rows is None


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_a_matrix_of_an_extent_that_int32_does_not_hold_is_made(order):
    pairs = torch.tensor([[0, 1, 1], [2**33, 5, 7]])[:, order]
    A = torch.sparse_coo_tensor(pairs, numbers(3), (2, 2**34))
    made, wanted = asp.csr(A).to_torch(), A.coalesce()
    assert made.crow_indices().tolist() == [0, 1, 3]
    assert torch.equal(made.col_indices(), wanted.indices()[1])
    assert torch.equal(made.values(), wanted.values())


def test_one_write_to_the_indices_is_seen():
    at = torch.randint(N, (2, 70_000), generator=torch.Generator().manual_seed(0))
    A, B = torch.sparse_coo_tensor(at, numbers(70_000), (N, N)), numbers(N, 20)
    with asp.override():
        for place in range(1_000, 60_000, 7_001):
            A @ B
            A._indices()[:, place] = torch.tensor([place % 11, 7])
            found = coordinates.rows_of(A).rows
            assert torch.equal(found.crow.diff().long(), torch.bincount(A._indices()[0], minlength=N))
            assert_close(A @ B, A.to_dense() @ B)
