"""Tests of parts of light matrices and of products of two light matrices, against SciPy."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from autosparse import light
from autosparse.light import selection
from tests.light.test_light import printed
from tests.scipy_versions import needs_recent

PARTS: Final = (
    "[3]", "[-1]", "[np.int64(4)]", "[2:9]", "[:]", "[:, 3]", "[3, 4]", "[2:5, 3:9]", "[:, 0:7]", "[[5]]", "[[4, -2]]",
    "[np.array([3, 1, -2])]", "[[3, 1], :]", "[:, [4, 0, -1]]", "[:, [4]]", "[:, np.array([4, 2])]", "[0:5, [1, 2]]",
    "[:, np.array([-3])]", "[2:5, [4]]", "[[2], 1:4]", "[:, [99]]", "[:, [slice(0, 3)]]",
    "[[1, 2], [3, 4]]", "[y > 5]", "[::2]", "[np.array([], int)]", "[np.array([10**6])]", "[np.array([1.5])]",
    "[None]", "[True]", "[np.array([[1, 2]])]", "[np.array([1, 2], np.uint8)]", "[(3,)]",
)  # fmt: skip


@pytest.mark.parametrize("completes", ["", "light.complete()"])
def test_parts_are_those_of_scipy(completes):
    """Selected by `light.selection` after a few calls; errors have SciPy's types."""
    lines = f"""
def part(M, key):
    try:
        found = eval("M" + key)
    except Exception as error:
        return [type(error).__name__]
    arrays = found.coords if sps.issparse(found) and found.ndim == 1 else ()
    if sps.issparse(found):
        names = ("data", "indices", "indptr") if found.format in ("csr", "csc") else ("data",)
        arrays = [*arrays, *(getattr(found, name) for name in names)]
        facts = [type(found).__name__, str(found.shape), found.format]
    else:
        arrays, facts = [np.asarray(found)], [type(found).__name__]
    return facts + [[str(one.dtype), one.tolist()] for one in arrays]
def wide(M):
    return type(M)((M.data, M.indices.astype(np.int64), M.indptr.astype(np.int64)), shape=M.shape)
{completes}
bad = []
for key in {PARTS!r}:
    for make in (lambda M: M, lambda M: M.tocsc(), lambda M: M.T, lambda M: M.astype(np.int64), wide):
        theirs = part(make(m), key)
        bad += [key for _ in range(9) if part(make(A), key) != theirs]
print(json.dumps([bad, light.is_complete]))
"""
    assert printed(lines) == [[], bool(completes)]


@pytest.mark.parametrize("dtype", ["float", "np.float32", "complex", "int", "np.uint8", "bool"])
@pytest.mark.parametrize("from_entries", [0, 1 << 60])
def test_sums_of_two_light_matrices_have_scipys_bits(dtype, from_entries):
    """Check sums by the runtime, and by SciPy's loop, which `light.sums` calls after a few sums by SciPy's method."""
    lines = f"""
from autosparse.light import sums
sums.FROM_ENTRIES, light.RUNTIME_NS = {from_entries}, 0
values = np.where(m.data > 0.3, m.data * 4, 0).astype({dtype})
m = sps.csr_array((values, m.indices.astype(np.int32), m.indptr.astype(np.int32)), shape=m.shape)
n, bad = sps.csr_array((-m.data[::-1] if m.dtype != bool else m.data[::-1], m.indices, m.indptr), shape=m.shape), []
wide = sps.csr_array((m.data, m.indices.astype(np.int64), m.indptr.astype(np.int64)), shape=m.shape)
mixed = sps.csr_array((m.data, m.indices[::-1].copy(), m.indptr), shape=m.shape)
of_two = [lambda A, B: A + B, lambda A, B: A.multiply(B), lambda A, B: A + B.astype(np.int8), lambda A, B: A.maximum(B),
          lambda A, B: A != B, lambda A, B: A + B.tocsc(), lambda A, B: A + sps.csr_array(B), lambda A, B: A.T + B.T]
of_two += [lambda A, B: A - B] * (m.dtype != bool)
for one, other in [(m, n), (sps.csr_matrix(m), sps.csr_matrix(n)), (wide, wide), (mixed, n), (m[:0], n[:0])]:
    for number, operation in enumerate(of_two):
        ours, wanted = operation(asp.csr(one), asp.csr(other)), operation(one, other)
        same = [type(ours).__name__ == type(wanted).__name__, ours.dtype == wanted.dtype, ours.shape == wanted.shape]
        for name in ("indptr", "indices", "data"):
            mine, theirs = getattr(ours, name), getattr(wanted, name)
            same.append(mine.dtype == theirs.dtype and mine.tolist() == theirs.tolist())
        bad += [number] * (not all(same))
is_merged = light.summer(m) is not None and light.rows_of(asp.csr(m) + asp.csr(m)) is not None
print(json.dumps([bad, is_merged, light.is_complete]))
"""
    assert printed(lines) == [[], True, False]


@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
@pytest.mark.parametrize("dtype", ["float", "np.float32", "complex", "int", "np.uint8", "bool"])
def test_products_of_two_light_matrices_by_the_runtime_have_scipys_bits(dtype):
    lines = f"""
light.RUNTIME_NS = 0
m = sps.csr_array((m.data.astype({dtype}), m.indices.astype(np.int32), m.indptr.astype(np.int32)), shape=m.shape)
A, n, bad = asp.csr(m), m.T.tocsc(), []
products = [lambda A: A @ A.T, lambda A: A.T @ A, lambda A: A @ n, lambda A: A.tocsc() @ n, lambda A: A @ m.T.tocoo(),
            lambda A: A @ m.T.astype(np.int8), lambda A: A @ sps.diags_array(np.arange(A.shape[1]) + 1.0)]
wide = sps.csr_array((m.data, m.indices.astype(np.int64), m.indptr.astype(np.int64)), shape=m.shape)
for theirs in (m, sps.csr_matrix(m), wide):
    for number, product in enumerate(products):
        ours, wanted = product(asp.csr(theirs)), product(theirs)
        same = [type(ours).__name__ == type(wanted).__name__, ours.dtype == wanted.dtype, ours.shape == wanted.shape]
        for name in ("indptr", "indices", "data"):
            one, other = getattr(ours, name), getattr(wanted, name)
            same.append(one.dtype == other.dtype and one.tolist() == other.tolist())
        bad += [number] * (not all(same))
print(json.dumps([bad, "autosparse.light.native" in sys.modules, light.is_complete]))
"""
    assert printed(lines) == [[], True, False]


@needs_recent
@pytest.mark.parametrize("index", ["np.int32", "np.int64"])
def test_rows_and_columns_need_no_method_of_scipys(index):
    """Lines of 64-bit indices, which SciPy makes of NumPy's default integers, are selected like those of 32 bits."""
    lines = f"""
from autosparse.light import selection
m = sps.csr_array((m.data, m.indices.astype({index}), m.indptr.astype({index})), shape=m.shape)
found = []
for M in (asp.csr(m), asp.csc(m)):
    arrays = M.indptr, M.indices, M.data
    found += [selection.part_of(M, key, arrays, tuple) for key in (3, (slice(None), 2))]
wanted = [m[3], m[:, 2], m.tocsc()[3], m.tocsc()[:, 2]]
same = [ours.coords[0].dtype == one.coords[0].dtype and (ours.toarray() == one.toarray()).all()
        for ours, one in zip(found, wanted) if ours is not None]
print(json.dumps([len(same), all(map(bool, same))]))
"""
    assert printed(lines) == [4, True]


def test_products_with_diagonals_count_an_entry_for_each_diagonal():
    """Columns scaled by a diagonal: as many multiplications as entries, whatever the diagonal's length."""
    lines = """
A, diagonals = asp.csr(m), sps.diags_array([np.ones(m.shape[1]), np.ones(m.shape[1] - 1)], offsets=[0, 1])
light.MAX_TERMS = 2 * m.nnz
rows = light.rows_of(A)
print(json.dumps([light.n_terms(A, rows, D) == n * m.nnz and not light.is_complete for D, n in
                  ((sps.diags_array(np.ones(m.shape[1])), 1), (diagonals, 2))] + [m.nnz > 10]))
"""
    assert printed(lines) == [True, True, True]


@pytest.mark.parametrize("runtime_ns", ["0", "1 << 62"])
def test_products_of_two_dtypes_are_those_of_scipy(runtime_ns):
    """Both operands are converted to the dtype of the product; vectors, columns and transposes of each pair."""
    lines = f"""
light.RUNTIME_NS, light.MIN_TERMS, light.adoption.MAX_SCATTERED = {runtime_ns}, 0, 100
bad, kinds = [], [np.dtype(char) for char in "?bBhHiIlLfdFD"] + [np.dtype(">f8")]
for stored in kinds[:-1]:
    M = (9 * m).astype(stored)
    A, C = asp.csr(M), asp.csc(M)
    for kind in kinds:
        v, V = (9 * np.arange(30)).astype(kind), (9 * X).astype(kind)
        for product in (lambda N: N @ v, lambda N: N @ V, lambda N: N[:5] @ v, lambda N: N[:, :2] @ v[:2],
                        lambda N: N @ V[:, ::2], lambda N: N @ np.asfortranarray(V)):
            for one in (A, C):
                try:
                    wanted = product(M if one is A else M.tocsc())
                except Exception as error:
                    wanted = type(error)
                try:
                    got = product(one)
                except Exception as error:
                    got = type(error)
                if type(wanted) is type or type(got) is type:
                    bad += [] if wanted is got else [[str(stored), str(kind), str(wanted), str(got)]]
                elif got.dtype != wanted.dtype or not np.allclose(got, wanted, 0, 1e-5 * (1 + abs(wanted).max())):
                    bad += [[str(stored), str(kind), str(got.dtype), str(wanted.dtype)]]
print(json.dumps([bad, light.is_complete]))
"""
    assert printed(lines) == [[], False]


@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
def test_small_products_with_the_transpose_are_left_to_scipys_loop():
    """The kernel adds to scattered elements no faster; larger products, and those with columns, are computed by it."""
    lines = """
light.RUNTIME_NS = light.MIN_TERMS = 0
A, calls = asp.csr(m), []
native = light.runtime()
product = native.product
native.product = lambda *given, **how: (calls.append(how["transposed"]), product(*given, **how))[1]
for limit in (m.nnz, m.nnz - 1):
    light.adoption.MAX_SCATTERED = limit
    A.T @ y, A @ x, A.T @ np.ones((40, 2))
print(json.dumps(calls))
"""
    assert printed(lines) == [False, True, True, False, True]


@pytest.mark.skipif(runtime_api.extension is None, reason="the extension module was not built")
def test_large_results_of_light_matrices_reuse_the_pages_of_freed_results():
    """Results of 128 KiB and more, dense and sparse; freed ones are kept until the library sets its own limit."""
    lines = """
light.RUNTIME_NS = light.MIN_TERMS = 0
M = sps.random_array((400, 400), density=0.05, format="csr", random_state=np.random.default_rng(0))
A, Y = asp.csr(M), np.ones((400, 64))
from autosparse._native import loaded_runtime
light.runtime(), (kept := loaded_runtime()[0].asp_output_kept_bytes)
first = A @ Y
found, place = [first.nbytes > 1 << 17, kept() == 0], first.ctypes.data
del first
found += [kept() > 0, (A @ Y).ctypes.data == place]
C, wanted = A @ A, M @ M
found += [(getattr(C, name) == getattr(wanted, name)).all() for name in ("indptr", "indices", "data")]
before = kept()
n_bytes = C.data.nbytes + C.indices.nbytes
del C
found.append(kept() >= before + n_bytes)
print(json.dumps([bool(one) for one in found] + [light.is_complete]))
"""
    assert printed(lines) == [True] * 8 + [False]


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_few_columns_have_scipys_entries_in_their_order(monkeypatch, index, is_sorted):
    """A comparison of all indices finds them; unsorted rows have duplicates, which stay apart."""
    rng = np.random.default_rng(0)
    m = sps.random_array((60, 900), density=0.1, format="csr", random_state=rng)
    columns = m.indices.astype(index) if is_sorted else rng.permutation(m.indices).astype(index)
    m = sps.csr_array((m.data, columns, m.indptr.astype(index)), shape=m.shape)
    monkeypatch.setattr(selection, "NARROW_FROM_ENTRIES", 0)
    assert light.complete()
    for rows in (slice(None), slice(7, 50)):
        for first, end in ((0, 9), (3, 4), (890, 900), (899, 900), (5, 5), (100, 114), (0, 800)):
            for plain, key in ((m, (rows, slice(first, end))), (m.T, (slice(first, end), rows))):
                wanted, found = plain[key], (asp.csr if plain is m else asp.csc)(plain)[key]
                assert found.shape == wanted.shape
                for field in ("indptr", "indices", "data"):
                    ours, theirs = getattr(found, field), getattr(wanted, field)
                    assert ours.dtype == theirs.dtype
                    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "csr_matrix", "csc_matrix"])
def test_entries_by_coordinates_count_as_canonical_as_in_scipy(kind):
    """SciPy adds duplicates up once, and does not look again at indices that the program writes afterwards."""
    lines = f"""
def entries(M):
    M.indices[:] = M.indices[::-1].copy()
    M.sum_duplicates()
    total = float(M.sum())
    return [bool(M.has_canonical_format), bool(M.has_sorted_indices), M.indices.tolist(), M.data.tolist(), total]
given = [np.array([1.0, 2.0, 3.0, 4.0]), ([0, 1, 0, 1], [1, 0, 0, 1])]
found = entries(asp.{kind}(tuple(given)))
print(json.dumps([found == entries(sps.{kind}(tuple(given))), not light.is_complete]))
"""
    assert printed(lines) == [True, True]


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "csr_matrix", "csc_matrix"])
def test_places_of_extremes_leave_the_flags_that_scipy_leaves(kind):
    lines = f"""
def flags(library, indices, axis):
    M = library.{kind}((np.arange(1.0, 4.0), np.array(indices), np.array([0, 3, 3])))
    found = np.ravel(M.argmin(axis=axis)).tolist()
    M.indices[:] = M.indices[::-1].copy()
    return [found, M.has_sorted_indices, M.has_canonical_format, M.indices.tolist()]
cases = [(indices, axis) for indices in ([0, 1, 2], [2, 0, 1]) for axis in (None, 0, 1)]
print(json.dumps([flags(asp, *case) == flags(sps, *case) for case in cases] + [not light.is_complete]))
"""
    assert printed(lines) == [True] * 7


@pytest.mark.parametrize("dtype", ["int", "'f4'", "complex", "bool", "'i1'"])
def test_a_small_product_of_one_dtype_goes_to_the_loop_of_scipy_at_once(dtype):
    """The general way takes 1.5 us longer, as long as half of such a product."""
    lines = f"""
N, v, V = asp.csr(m.astype({dtype})), x.astype({dtype}), X.astype({dtype})
wanted = [m.astype({dtype}) @ v, m.astype({dtype}) @ V]
light.n_terms = None
found = [N @ v, N @ V]
same = [a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(found, wanted)]
print(json.dumps([*same, light.is_complete]))
"""
    assert printed(lines) == [True, True, False]
