"""Tests of the numbers of einsum: zeros times infinite values, and error bounds of sums (docs/howto/einsum.md)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.contraction.execution import compute
from autosparse.contraction.operands import prepare
from autosparse.contraction.results import dense
from autosparse.contraction.routes import joins
from autosparse.contraction.subscripts import read
from tests.einsum.test_structures import as_dense, call  # noqa: F401  a fixture

UNIT = {np.dtype(np.float32): 2.0**-24, np.dtype(np.complex64): 2.0**-24, np.dtype(np.float64): 2.0**-53}
OF_TWO = ("ij,j->ij", "ij,j->i", "ij,i->j", "ij,jk->ik", "ij,kj->ik", "ij,ij->ij", "ij,ij->i", "ij,ij->", "ij,ji->")
OF_THREE = ("ij,j,i->j", "ij,j,i->", "ij,ik,kj->ij", "ij,jk,ki->", "ij,jk,kl->il", "ij,jk,k->i", "ij,ij,ij->ij")
KINDS = {2: [1.0, -1.0, 2.0, 0.0, np.inf], 3: [1.0, 3.0, 2.0, 1.0, np.inf]}
"""Values to draw, by number of operands.

The values for three operands give no partial sum of zero: its product with infinity would make the result depend on the
order of the products.
"""


def odd_values(seed, shape, density, n_operands):
    """Return random values, some of them infinite."""
    rng = np.random.default_rng(seed)
    found = rng.choice(KINDS[n_operands], shape, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    return np.where(rng.random(shape) < density, found, np.nan)  # NaN marks entries that are not stored


def stored(values):
    rows, cols = np.nonzero(~np.isnan(values))
    return sps.csr_array((values[rows, cols], (rows, cols)), shape=values.shape)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("text", [*OF_TWO, *OF_THREE])
@pytest.mark.parametrize("seed", range(2))
def test_infinite_values_multiply_what_is_stored_in_every_route(call, text, seed):  # noqa: F811
    """In every route the sum must contain exactly the terms for which every sparse operand stores an entry."""
    letters = text.split("->")[0].split(",")
    for mask in itertools.product([True, False], repeat=len(letters) - 1):
        operands = []
        for n, (one, is_sparse) in enumerate(zip(letters, (True, *mask), strict=True)):
            values = odd_values(10 * seed + n, (6,) * len(one), 0.5, len(letters))
            operands.append(
                stored(values)
                if is_sparse and len(one) == 2
                else np.nan_to_num(values, nan=len(letters) % 2, posinf=np.inf)
            )
        subscripts = read(text, [one.shape for one in operands])
        prepared = prepare(operands, subscripts, np.dtype(np.float64))
        wanted = dense(joins.contract(prepared, subscripts))
        np.testing.assert_array_equal(call(text, *operands), wanted, err_msg=str(mask))


def test_zero_times_infinity_is_not_a_number_where_the_entry_is_stored(call):  # noqa: F811
    A = sps.csr_array(np.array([[np.inf, 1.0], [2.0, 3.0]]))
    x = np.array([0.0, 1.0])
    np.testing.assert_array_equal(call("ij,j->ij", A, x), [[np.nan, 1.0], [0.0, 3.0]])
    np.testing.assert_array_equal(call("ij,j,i->j", A, x, np.ones(2)), [np.nan, 4.0])


@pytest.mark.parametrize(
    "text",
    [
        "ij,j->ij",
        "ij,i->ij",
        "i,ij,j->",
        "ij,jk->ik",
        "ij,kj->ik",
        "ij,ij->ij",
        "ij->i",
        "ij->j",
        "ij->",
        "ij,j->i",
        "ij,i->j",
        "ij,j + ij -> ij",
    ],
)
def test_floating_point_errors_are_silent_as_numpys_are(call, text):  # noqa: F811
    """Check invalid products, invalid sums and overflow, which NumPy's einsum computes without a warning."""
    dense_A, x = np.array([[np.inf, 1e308], [-np.inf, 1e308]]), np.array([0.0, 2.0])
    given = [dense_A if len(one) == 2 else x for one in text.split("->")[0].replace(" + ", ",").strip().split(",")]
    with np.errstate(all="raise"):
        found = call(text, *(sps.csr_array(one) if one.ndim == 2 else one for one in given))
    if "+" not in text:
        np.testing.assert_array_equal(found, np.einsum(text, *given))


def test_missing_entries_do_not_multiply(call):  # noqa: F811
    A = sps.csr_array(np.array([[1.0, 0.0], [2.0, 0.0]]))
    x = np.array([1.0, np.inf])
    assert call("i,ij,j->", np.ones(2), A, x) == 3.0
    np.testing.assert_array_equal(call("ij,j->ij", A, x), [[1.0, 0.0], [2.0, 0.0]])
    np.testing.assert_array_equal(call("ij,j,i->i", A, x, np.ones(2)), [1.0, 2.0])


@pytest.mark.parametrize("text", ["ij,ij->i", "ij->i", "ij,j->i", "ij,j,j->i", "ij,ij,ij->i", "ij,j->", "ij,i,j->"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_long_rows_are_within_the_documented_bound(call, text, dtype):  # noqa: F811
    """Entries have one sign, so that the bound is a relative one: the worst case of a running sum."""
    check_a_long_sum(call, text, dtype, 300_000)


@pytest.mark.full
def test_a_sum_of_ten_million_products_is_within_the_documented_bound(call):  # noqa: F811
    check_a_long_sum(call, "ij,ij->i", np.float32, 10_000_000)


def check_a_long_sum(call, text, dtype, n):  # noqa: F811
    values = np.random.default_rng(0).random(n).astype(dtype)
    rows = sps.csr_array((values, np.arange(n, dtype=np.int32), np.array([0, n, n], np.int32)), shape=(2, n))
    x = np.full(n, 0.1, dtype)
    letters = text.split("->")[0].split(",")
    operands = [rows if one == "ij" else x if one == "j" else np.ones(2, dtype) for one in letters]
    term = values.astype(np.float64) ** letters.count("ij") * np.float64(dtype(0.1)) ** letters.count("j")
    wanted = math.fsum(term)
    got = float(np.asarray(call(text, *operands)).reshape(-1)[0])
    unit = UNIT[np.dtype(dtype)]
    is_by_kernel_in_double = dtype == np.float64 and len(letters) > 1
    n_rounded = len(letters) + (n if is_by_kernel_in_double else n / 1024 if ",j" in text else math.log2(n))
    assert abs(got - wanted) <= n_rounded * unit * wanted


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.usefixtures("kernels_at_once")
def test_kernels_add_single_precision_in_double(dtype):
    """Each product rounds, and the result rounds once more; the sum in double adds almost no error."""
    n = 1_000_000
    values = np.full(n, 0.1, dtype)
    T = asp.tensor(
        np.stack([np.zeros(n, np.int64), np.arange(n) // 1000, np.arange(n) % 1000]), values, (1, 1000, 1000)
    )
    ones = np.ones((1000, 1000), dtype)
    (got,) = as_dense(asp.einsum("ijk,jk->i", T, ones))
    wanted = complex(values[0]) * n
    assert abs(got - wanted) <= 4 * UNIT[np.dtype(dtype)] * abs(wanted)


def test_sums_of_booleans_and_integers_are_numpys(call, pytestconfig):  # noqa: F811
    """Check six expressions; without --full, booleans and uint8 with half of them, the other types with the others."""
    rng, is_full = np.random.default_rng(0), pytestconfig.getoption("--full")
    texts = ("ij,ij->i", "ij,jk->ik", "ij,ij->", "ij,kj->ik", "ij,ij->ij", "ij,ik,kj->ij")
    for at, dtype in enumerate((bool, np.int8, np.uint8, np.int64)):
        a, b = (rng.integers(0, 2 if dtype is bool else 100, (9, 9)).astype(dtype) for _ in range(2))
        for text in texts if is_full else texts[at % 2 :: 2]:
            operands = (a, b) if text.count(",") == 1 else (a, b, b)
            found = call(text, *[sps.csr_array(one) for one in operands])
            wanted = np.einsum(text, *operands)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def test_booleans_are_computed_by_kernels_too():
    a = np.random.default_rng(0).random((20, 20)) < 0.3
    A = sps.csr_array(a)
    subscripts = read("ij,ik,kj->ij", [(20, 20)] * 3)
    found = compute([A] * 3, subscripts, np.dtype(bool), is_dense=True, by_kernel=True)
    np.testing.assert_array_equal(found, np.einsum("ij,ik,kj->ij", a, a, a))


@pytest.mark.parametrize("kind", ["csr", "tensor"])
@pytest.mark.parametrize("text", ["ij,j->i", "ij,ij->ij", "ij,jk->ik", "ij,i->j", "ij,ij->", "ij,j + ij -> ij"])
def test_overflow_and_invalid_values_are_not_reported_as_in_numpys_einsum(text, kind):
    values = np.array([[1e308, np.inf, 0], [np.nan, 0, 1], [0, 2, np.inf]], complex)
    A = sps.csr_array(values) if kind == "csr" else asp.tensor(sps.coo_array(values))
    others = [np.full((3,) * len(one), 1e308 + 0j) for one in text.split(" -> ")[0].split("->")[0].split(",")[1:]]
    others = others if "+" not in text else [np.full(3, 1e308 + 0j), A]
    with np.errstate(all="raise"):
        asp.einsum(text, A, *others)
        if "+" not in text:
            np.einsum(text, values, *others)


def test_mttkrp_reports_no_overflow_of_complex_numbers():
    T = asp.tensor([[0, 1], [0, 1], [1, 0]], np.array([np.inf, 1e308], complex))
    with np.errstate(all="raise"):
        assert not np.isfinite(asp.mttkrp(T, [None, *[np.full((2, 1), 1e308 + 0j)] * 2], mode=0)).any()
