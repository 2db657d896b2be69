"""Tests of the roofline of a case: its minimum work, and the limits that are measured on a machine."""

from __future__ import annotations

import shutil

import numpy as np
import peers
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from peerlib.case import Case, Operation, Tensor
from peerlib.roofline import Limits, Work, fastest_s, measure_limits, roofline_of, work_of

LIMITS = Limits(
    dtype="float32",
    threads=2,
    flops=100e9,
    read=((1e4, 400e9), (1e6, 100e9), (1e8, 20e9)),
    triad=((1e4, 300e9), (1e6, 120e9), (1e8, 10e9)),
)


def case_of(A: object, operation: str) -> Case:
    return Case.of("made", A, Operation.parse(operation), threads=1, effort="off", budget_s=1.0, seed=0)


def matrix() -> scipy.sparse.csr_array:
    """Return a 4 x 6 matrix whose rows 0 and 2 have entries, in columns 1, 4 and 5."""
    entries = ([1.0, 2.0, 3.0, 4.0], ([0, 0, 2, 2], [1, 4, 4, 5]))
    made = scipy.sparse.csr_array(scipy.sparse.coo_array(entries, shape=(4, 6)), dtype=np.float32)
    made.indices, made.indptr = made.indices.astype(np.int32), made.indptr.astype(np.int32)
    return made


CSR_BYTES = 4 * 4 + 4 * 4 + 5 * 4


@pytest.mark.parametrize(
    ("operation", "flops", "n_bytes"),
    [
        ("spmv", 2 * 4, CSR_BYTES + (3 + 4) * 4),  # three elements of x, four of y
        ("spmm8", 2 * 4 * 8, CSR_BYTES + (3 + 4) * 8 * 4),
        ("sddmm8", 2 * 4 * 8, CSR_BYTES + 4 * 4 + (3 + 2) * 8 * 4),  # the two rows of X whose row of A has entries
    ],
)
def test_work_of_products_with_dense_operands(operation: str, flops: float, n_bytes: float) -> None:
    assert work_of(case_of(matrix(), operation)) == Work(flops=flops, n_bytes=n_bytes)


def test_work_of_a_sparse_product_is_that_of_its_terms() -> None:
    A = scipy.sparse.csr_array(np.array([[1, 1, 0], [0, 0, 2], [0, 0, 0]], dtype=np.float32))
    work = work_of(case_of(A, "spgemm"))
    assert work.flops == 2 * 3  # row 0 multiplies row 0 (two entries) and row 1 (one); row 1 multiplies row 2 (none)
    assert work.n_bytes == 2 * (3 * 4 + 3 * 4 + 4 * 4)  # three entries in A and in A @ A, int32 indices


def test_work_of_a_tensor_takes_factors_out_of_fibers() -> None:
    """Use entries (0,0,0), (0,0,1), (0,1,1), (2,1,1): two rows with entries, three fibers."""
    coords = np.array([[0, 0, 0, 2], [0, 0, 1, 1], [0, 1, 1, 1]], np.int32)
    tensor = Tensor(coords, np.ones(4, np.float32), (3, 2, 2))
    work = work_of(case_of(tensor, "mttkrp16"))
    assert work.flops == 2 * (4 + 3) * 16
    stored = 4 * ((2 + 3 + 4) + (3 + 4) + 4)  # coordinates of all levels, starts of nodes, values
    assert work.n_bytes == stored + (2 + 2 + 3) * 16 * 4  # rows of both factors and of the result


def test_bandwidth_is_the_better_of_both_and_falls_with_the_footprint() -> None:
    assert [rate for _, rate in LIMITS.curve] == [400e9, 120e9, 20e9]
    assert LIMITS.bandwidth(1e6) == pytest.approx(120e9)
    assert LIMITS.bandwidth(1.0) == pytest.approx(400e9)
    assert LIMITS.bandwidth(1e12) == pytest.approx(20e9)
    assert LIMITS.bandwidth(1e5) == pytest.approx((400e9 * 120e9) ** 0.5)  # halfway between 1e4 and 1e6
    noisy = Limits(dtype="float32", threads=1, flops=1.0, read=((1e3, 5.0), (1e6, 9.0)), triad=((1e3, 1.0), (1e6, 1.0)))
    assert noisy.bandwidth(1e3) == pytest.approx(9.0)  # a bandwidth reached with a large operand holds for a small one


@given(st.floats(1.0, 1e12), st.floats(1.0, 1e12))
def test_the_roofline_is_the_larger_time_and_grows_with_the_work(flops: float, n_bytes: float) -> None:
    work = Work(flops=flops, n_bytes=n_bytes)
    by_flops_s, by_bytes_s = flops / LIMITS.flops, n_bytes / LIMITS.bandwidth(n_bytes)
    assert work.least_s(LIMITS) == max(by_flops_s, by_bytes_s)
    assert work.bound(LIMITS) == ("multiply-adds" if by_flops_s > by_bytes_s else "bytes")
    assert Work(flops=2 * flops, n_bytes=2 * n_bytes).least_s(LIMITS) >= work.least_s(LIMITS)


def test_a_record_holds_the_fraction_of_the_roofline() -> None:
    case = case_of(matrix(), "spmm8")
    kept = roofline_of(case, LIMITS)
    assert kept["least_s"] == work_of(case).least_s(LIMITS)
    times = {"autosparse": {"median_s": 4 * kept["least_s"]}, "autosparse-out": {"median_s": 2 * kept["least_s"]}}
    assert peers.fraction_of_roofline({"times": times, "roofline": kept}) == pytest.approx(0.5)
    assert peers.fraction_of_roofline({"times": times}) is None  # record of a version without rooflines
    assert peers.fraction_of_roofline({"times": {}, "roofline": kept}) is None


@pytest.mark.parametrize("wait_s", [0.0, 1e-6, 8e-3])
@pytest.mark.parametrize("round_s", [1e-9, 1e-6, 0.05, 2.0])
def test_waiting_at_the_end_of_a_call_is_not_taken_for_work(round_s: float, wait_s: float) -> None:
    now_s = 0.0

    def call(rounds: int) -> None:
        nonlocal now_s
        now_s += rounds * round_s + wait_s

    assert fastest_s(call, clock=lambda: now_s) == pytest.approx(round_s, rel=0.35)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_limits_are_measured_at_every_footprint(dtype: str) -> None:
    largest = 1 << 20
    limits = measure_limits(dtype, 1, largest_bytes=largest)
    assert limits.flops > 0
    for curve in (limits.read, limits.triad):
        sizes = [size for size, _ in curve]
        assert sizes == sorted(sizes)
        assert 0.5 * largest <= sizes[-1] <= largest
        assert min(rate for _, rate in curve) > 0
    assert limits.curve == sorted(limits.curve, key=lambda point: (point[0], -point[1]))
