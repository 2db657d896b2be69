"""Tests of kernels for graph networks: every instruction set, type and width against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from autosparse._native import runtime_api

from autosparse.core.pattern import Pattern
from autosparse.ops import sddmm
from tests.covering import covering

if not runtime_api.available:
    pytest.skip("the C runtime is not built", allow_module_level=True)

ffi, lib, pointer = runtime_api.ffi, runtime_api.lib, runtime_api.pointer
ISAS = range(lib.asp_best_isa() + 1)
TOLERANCE = {"f4": 2e-4, "f8": 1e-11, "c8": 2e-4, "c16": 1e-11}
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 128, 200, 256, 257, 300, 515)


@pytest.fixture(params=ISAS, ids=lambda isa: f"isa{isa}", autouse=True)
def isa(request):
    lib.asp_force_isa(request.param)
    yield request.param
    lib.asp_force_isa(-1)


def patterns():
    """Yield (name, SciPy CSR matrix): random, empty rows at both ends, one full row, empty, repeated entries."""
    rng = np.random.default_rng(7)
    for name, shape, density in (("random", (37, 41), 0.2), ("dense", (9, 23), 1.0), ("wide", (3, 500), 0.3)):
        yield name, scipy.sparse.random_array(shape, density=density, random_state=rng, format="csr")
    sparse = scipy.sparse.random_array((50, 30), density=0.02, random_state=rng, format="lil")
    sparse[17, :] = 1.0
    sparse[[0, 1, 48, 49], :] = 0.0
    yield "one full row", sparse.tocsr()
    yield "empty", scipy.sparse.csr_array((6, 5))
    yield "no rows", scipy.sparse.csr_array((0, 5))
    repeated = scipy.sparse.csr_array(
        (np.ones(5), np.array([2, 2, 0, 2, 1]), np.array([0, 3, 3, 5])), shape=(3, 4)
    )  # unsorted and repeated
    yield "repeated", repeated
    yield "identical_rows", identical_rows(rng)


def identical_rows(rng):
    """Return a matrix with groups of one to seven rows that have the same columns.

    Rows have 1 to 45 entries, unsorted. Other rows equal their predecessor only in their length and all columns but
    the last.
    """
    rows = []
    for n in (1, 3, 4, 5, 6, 7, 8, 21, 45):
        for n_rows in (3, 2, 4, 7, 1):
            rows += n_rows * [rng.permutation(67)[:n]]
            rows.append(np.append(rows[-1][:-1], rng.permutation(67)[:1]))
        rows.append(np.empty(0, int))
    lengths, columns = [len(row) for row in rows], np.concatenate(rows)
    return scipy.sparse.csr_array((np.ones(columns.size), columns, np.cumsum([0, *lengths])), shape=(len(rows), 67))


PATTERNS = dict(patterns())


def structure(name, index_dtype):
    matrix = PATTERNS[name]
    return Pattern(*matrix.shape, matrix.indptr.astype(index_dtype), matrix.indices.astype(index_dtype))


def entries(pattern):
    return np.repeat(np.arange(pattern.n_rows), pattern.row_lengths), pattern.indices


def numbers(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def codes(array, pattern):
    return runtime_api.DTYPE_CODES[array.dtype.name], runtime_api.INDEX_CODES[pattern.index_dtype]


@covering(index_dtype=["int32", "int64"], dtype=["f4", "f8", "c8", "c16"], name=PATTERNS)
def test_sampled_dots_equal_numpy(name, dtype, index_dtype):
    pattern = structure(name, index_dtype)
    for width in WIDTHS:
        X, Y = numbers((pattern.n_rows, width), dtype, 1), numbers((width, pattern.n_cols), dtype, 2)
        ones = np.ones(pattern.nnz, dtype)
        got = sddmm.sample(pattern, X, Y.T, threads=2)
        np.testing.assert_allclose(got, sddmm.reference(pattern, ones, X, Y.T), rtol=0, atol=TOLERANCE[dtype] * width)


@covering(
    width=[4, 8, 20, 32, 128, 256, 300], dtype=["f4", "f8", "c8", "c16"], name=["random", "identical_rows", "dense"]
)
def test_sampled_dots_scale_and_add(name, dtype, width, isa):
    pattern = structure(name, "int32")
    n_rows, n_cols = pattern.shape
    X, Y = numbers((n_rows, width), dtype, 1), numbers((n_cols, width), dtype, 2)
    base = numbers(pattern.nnz, dtype, 3)
    alpha, beta = (0.7 + 0.2j, -1.5 + 0.3j) if np.dtype(dtype).kind == "c" else (0.7, -1.5)
    rows, cols = entries(pattern)
    want = alpha * np.einsum("pk,pk->p", X[rows], Y[cols]) + beta * base
    out = base.copy()  # in place
    scale = ffi.new("double[4]", [alpha.real, alpha.imag, beta.real, beta.imag])
    status = lib.asp_sddmm(
        *codes(X, pattern), n_rows, n_cols, pointer(pattern.indptr), pointer(pattern.indices), pattern.nnz, pointer(X),
        width, pointer(Y), width, width, 1, scale, pointer(out), pointer(out), 2, 0,
    )  # fmt: skip
    assert status == 0
    np.testing.assert_allclose(out, want, rtol=0, atol=width * TOLERANCE[dtype])


def test_sampled_dots_read_no_value_twice_and_none_beside(isa):
    """Check with infinities in the last values of rows and in neighbouring rows: an unmasked lane would give NaN."""
    pattern = structure("dense", "int32")
    for width in (5, 17, 33, 65, 270):
        X = np.ones((pattern.n_rows, width), "f4")
        Y = np.full((pattern.n_cols, width), np.inf, "f4")
        assert np.all(np.isposinf(sddmm.sample(pattern, X, Y)))
        X[:, -1] = 0  # 0 * inf is NaN, as in NumPy
        assert np.all(np.isnan(sddmm.sample(pattern, X, Y)))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sampled_dots_do_not_depend_on_where_rows_begin(dtype, isa):
    """Check rows of Y at every offset from a cache line, with NaN around them."""
    for name in ("random", "dense", "identical_rows"):
        pattern = structure(name, "int32")
        for width in (16, 32, 64, 128, 256):
            X = np.random.default_rng(1).integers(-3, 4, (pattern.n_rows, width)).astype(dtype)
            Y = np.random.default_rng(2).integers(-3, 4, (pattern.n_cols, width)).astype(dtype)
            want = sddmm.reference(pattern, np.ones(pattern.nnz, dtype), X, Y)
            for shift in range(0, 64 // X.itemsize, 3):
                room = np.full(Y.size + 256, np.nan, dtype)
                start = -room.ctypes.data % 64 // X.itemsize + 64 + shift
                moved = room[start : start + Y.size].reshape(Y.shape)
                moved[...] = Y
                np.testing.assert_array_equal(sddmm.sample(pattern, X, moved), want)


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sampled_dots_of_identical_rows_have_the_bits_of_each_row_alone(dtype, index_dtype, isa):
    """Check for any number of threads, which may divide a group of identical rows."""
    pattern = structure("identical_rows", index_dtype)
    most = (8, 16, 16)[isa] * max((16, 32, 64)[isa] // np.dtype(dtype).itemsize, 4)  # what fits in registers
    for width in (width for width in (16, 32, 64, 128, 256) if width <= most):
        X, Y = numbers((pattern.n_rows, width), dtype, 1), numbers((pattern.n_cols, width), dtype, 2)
        alone = [
            sddmm.sample(
                Pattern(1, pattern.n_cols, np.array([0, end - start], index_dtype), pattern.indices[start:end]), x, Y
            )
            for start, end, x in zip(pattern.indptr[:-1], pattern.indptr[1:], X[:, np.newaxis], strict=True)
        ]
        for threads in (1, 2, 3, 5):
            np.testing.assert_array_equal(sddmm.sample(pattern, X, Y, threads=threads), np.concatenate(alone))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("mean", [1, 5])
def test_nan_in_the_next_row_does_not_reach_results_of_a_row(mean, dtype, isa):
    """Check with NaN in all columns of odd rows: kernels may compute a row's end with the next row's start."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 2 * mean + 1, 60)
    rows = np.repeat(np.arange(60), lengths)
    columns = 2 * rng.integers(0, 20, rows.size) + rows % 2
    pattern = Pattern(60, 40, np.cumsum([0, *lengths]).astype("int32"), columns.astype("int32"))
    values = rng.integers(1, 4, rows.size).astype(dtype)
    for width in (8, 16, 32, 64):
        X, Y = (rng.integers(1, 4, (n, width)).astype(dtype) for n in pattern.shape)
        Y[1::2] = np.nan
        out = np.full(rows.size + 8, 7, dtype)
        status = lib.asp_sddmm_scaled(
            *codes(X, pattern), *pattern.shape, pointer(pattern.indptr), pointer(pattern.indices), pointer(X), width,
            pointer(Y), width, width, pointer(values), pointer(out), 1, 0,
        )  # fmt: skip
        assert status == 0
        np.testing.assert_array_equal(out[: rows.size], sddmm.reference(pattern, values, X, Y))
        np.testing.assert_array_equal(out[rows.size :], 7)


@covering(name=PATTERNS, dtype=["f4", "f8"], n_heads=[1, 2, 3, 4, 5, 8, 16])
def test_row_softmax_and_its_gradient_equal_numpy(name, dtype, n_heads):
    pattern = structure(name, "int64")
    scores, grad = (3 * numbers((pattern.nnz, n_heads), dtype, seed) for seed in (1, 2))
    softmax, d_scores = np.empty_like(scores), np.empty_like(scores)
    want, d_want = np.empty_like(scores), np.empty_like(scores)
    for start, end in zip(pattern.indptr[:-1], pattern.indptr[1:], strict=True):
        if start == end:
            continue
        powers = np.exp(scores[start:end] - scores[start:end].max(0))
        want[start:end] = powers / powers.sum(0)
        dots = (want[start:end] * grad[start:end]).sum(0)
        d_want[start:end] = want[start:end] * (grad[start:end] - dots)
    common = (*codes(scores, pattern), pattern.n_rows, pointer(pattern.indptr), pattern.nnz, n_heads)
    assert lib.asp_row_softmax(*common, pointer(scores), ffi.NULL, pointer(softmax), 2) == 0
    assert lib.asp_row_softmax(*common, pointer(grad), pointer(softmax), pointer(d_scores), 2) == 0
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(softmax, want, rtol=30 * eps, atol=0)
    np.testing.assert_allclose(d_scores, d_want, rtol=0, atol=300 * eps)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_row_softmax_of_extreme_scores(dtype):
    big = 1e30 if dtype == "f4" else 1e300
    cases = (
        [0.0, -big],
        [big, big],
        [-np.inf, 1.0],
        [-np.inf, -np.inf],
        [np.nan, 1.0],
        [np.inf, 1.0],
        [0.0, -87.5, -100],
    )
    for case in cases:
        scores = np.array(case, dtype)
        pattern = Pattern(1, scores.size, np.array([0, scores.size]), np.arange(scores.size))
        out = np.empty_like(scores)
        common = (*codes(scores, pattern), 1, pointer(pattern.indptr), scores.size, 1)
        assert lib.asp_row_softmax(*common, pointer(scores), ffi.NULL, pointer(out), 1) == 0
        with np.errstate(all="ignore"):
            powers = np.exp(scores - scores.max())
            want = powers / powers.sum()
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=np.finfo(dtype).tiny)


@covering(dtype=["f4", "f8"], n_heads=[1, 3, 8], features=[1, 3, 4, 6, 8, 13, 16, 24, 40, 100])
def test_weighted_sums_equal_numpy_also_by_columns(dtype, n_heads, features):
    for name in PATTERNS:
        pattern = structure(name, "int32")
        weights = numbers((pattern.nnz, n_heads), dtype, 1)
        rows, cols = entries(pattern)
        turned = runtime_api.transpose((pattern.indptr, pattern.indices, None), pattern.shape, with_permutation=True)
        sides = ((pattern.indptr, pattern.indices, None, rows, cols), (turned[0], turned[1], turned[3], cols, rows))
        for indptr, indices, perm, to, fro in sides:
            n_out, n_in = len(indptr) - 1, pattern.n_rows if perm is not None else pattern.n_cols
            V = numbers((n_in, n_heads, features), dtype, 2)
            out = np.full((n_out, n_heads, features), np.nan, dtype)
            status = lib.asp_heads_mm(
                *codes(V, pattern), n_out, pointer(indptr), pointer(indices),
                ffi.NULL if perm is None else pointer(perm), pattern.nnz, n_heads, pointer(weights), pointer(V),
                n_heads * features, features, 0.5, pointer(out), 2,
            )  # fmt: skip
            assert status == 0
            want = np.zeros_like(out)
            np.add.at(want, to, 0.5 * weights[:, :, None] * V[fro])
            np.testing.assert_allclose(out, want, rtol=0, atol=60 * TOLERANCE[dtype])


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_extremes_and_their_gradients_equal_numpy(dtype, least, weighted):
    for name in PATTERNS:
        pattern = structure(name, "int64")
        for width in (1, 5, 8, 17, 64, 70):
            values = numbers(pattern.nnz, dtype, 1) if weighted else np.ones(pattern.nnz, dtype)
            B, G = numbers((pattern.n_cols, width), dtype, 2), numbers((pattern.n_rows, width), dtype, 3)
            C, arg = np.empty((pattern.n_rows, width), dtype), np.empty((pattern.n_rows, width), np.int64)
            given = pointer(values) if weighted else ffi.NULL
            common = (*codes(B, pattern), pattern.n_rows, pointer(pattern.indptr), pointer(pattern.indices), given)
            assert (
                lib.asp_csr_extreme(*common, pattern.nnz, pointer(B), width, width, least, pointer(C), pointer(arg), 2)
                == 0
            )
            d_values, dB = np.full(pattern.nnz, np.nan, dtype), np.zeros_like(B)
            assert lib.asp_csr_extreme_backward(
                *common, pattern.nnz, pointer(B), width, width, pointer(G), pointer(arg), pointer(d_values),
                pointer(dB), width, 2,
            ) == 0  # fmt: skip
            want, want_arg, want_dv, want_dB = extremes(pattern, values, B, G, least)
            np.testing.assert_array_equal(C, want)
            np.testing.assert_array_equal(arg, want_arg)
            np.testing.assert_allclose(d_values, want_dv, rtol=0, atol=width * TOLERANCE[dtype])
            np.testing.assert_allclose(dB, want_dB, rtol=0, atol=50 * TOLERANCE[dtype])


def extremes(pattern, values, B, G, least):
    """Return (C, arg, gradient of values, gradient of B); among equal values the first one counts."""
    C, arg = np.zeros_like(G), np.full(G.shape, pattern.nnz)
    d_values, dB = np.zeros_like(values), np.zeros_like(B)
    for i in range(pattern.n_rows):
        span = slice(pattern.indptr[i], pattern.indptr[i + 1])
        if span.start == span.stop:
            continue
        products = values[span, None] * B[pattern.indices[span]]
        best = (products.argmin if least else products.argmax)(0)
        columns = np.arange(B.shape[1])
        C[i], arg[i] = products[best, columns], best + span.start
        np.add.at(d_values, arg[i], G[i] * B[pattern.indices[arg[i]], columns])
        np.add.at(dB, (pattern.indices[arg[i]], columns), values[arg[i]] * G[i])
    return C, arg, d_values, dB


def test_extremes_of_nan_and_infinities():
    pattern = Pattern(1, 3, np.array([0, 3]), np.array([0, 1, 2]))
    C, arg = np.empty((1, 16), "f4"), np.empty((1, 16), np.int64)
    for column, least, want in (
        ([-np.inf, -np.inf, -np.inf], 0, -np.inf), ([1, np.nan, 2], 0, np.nan), ([np.nan, 5, 7], 1, np.nan),
        ([np.inf, np.inf, 3], 1, 3),
    ):  # fmt: skip
        B = np.repeat(np.array(column, "f4")[:, None], 16, axis=1)
        status = lib.asp_csr_extreme(
            0, 1, 1, pointer(pattern.indptr), pointer(pattern.indices), ffi.NULL, 3, pointer(B), 16, 16, least,
            pointer(C), pointer(arg), 1,
        )  # fmt: skip
        assert status == 0
        np.testing.assert_array_equal(C, np.full((1, 16), want, "f4"))


@pytest.mark.parametrize("additive", [0, 1])
@pytest.mark.parametrize(("n_heads", "D", "F"), [(1, 4, 7), (1, 16, 32), (3, 5, 8), (8, 8, 8), (2, 40, 17)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_attention_equals_its_parts(dtype, n_heads, D, F, additive):
    for name in PATTERNS:
        pattern = structure(name, "int64")
        rows, cols = entries(pattern)
        V, dout = numbers((pattern.n_cols, n_heads, F), dtype, 1), numbers((pattern.n_rows, n_heads, F), dtype, 2)
        if additive:
            q, k = numbers((pattern.n_rows, n_heads), dtype, 3), numbers((pattern.n_cols, n_heads), dtype, 4)
            raw = q[rows] + k[cols]
            scores = np.where(raw > 0, raw, 0.2 * raw)
        else:
            q, k = numbers((pattern.n_rows, n_heads, D), dtype, 3), numbers((pattern.n_cols, n_heads, D), dtype, 4)
            scores = 0.3 * np.einsum("phd,phd->ph", q[rows], k[cols])
        powers = np.exp(scores - scores.max(initial=0.0))
        sums = np.zeros((pattern.n_rows, n_heads), dtype)
        np.add.at(sums, rows, powers)
        alpha = powers / sums[rows]
        want = np.zeros_like(dout)
        np.add.at(want, rows, alpha[:, :, None] * V[cols])
        d_alpha = np.einsum("phf,phf->ph", dout[rows], V[cols])
        dots = np.zeros_like(sums)
        np.add.at(dots, rows, alpha * d_alpha)
        d_score = alpha * (d_alpha - dots[rows])
        dq = np.zeros_like(q)
        if additive:
            d_score = np.where(raw > 0, d_score, 0.2 * d_score)
            np.add.at(dq, rows, d_score)
        else:
            np.add.at(dq, rows, 0.3 * d_score[:, :, None] * k[cols])
        got = {"alpha": np.empty_like(alpha), "out": np.empty_like(want), "dscore": np.empty_like(alpha)}
        got["dq"] = np.full_like(dq, np.nan)
        arrays = {"q": q, "k": k, "V": V, "dout": dout, **got}
        arguments = ffi.new("asp_attention *", {
            "indptr": pointer(pattern.indptr), "indices": pointer(pattern.indices),
            "n_rows": pattern.n_rows, "n_cols": pattern.n_cols,
            "nnz": pattern.nnz, "n_heads": n_heads, "D": D, "F": F, "scale": 0.3, "slope": 0.2, "additive": additive,
            **{field: pointer(array) for field, array in arrays.items()},
        })  # fmt: skip
        assert lib.asp_attention_forward(*codes(V, pattern), arguments, 2) == 0
        assert lib.asp_attention_backward(*codes(V, pattern), arguments, 2) == 0
        atol = 200 * TOLERANCE[dtype]
        for field, value in {"alpha": alpha, "out": want, "dscore": d_score, "dq": dq}.items():
            np.testing.assert_allclose(got[field], value, rtol=0, atol=atol, err_msg=f"{field} of {name}")


def test_unknown_types_are_refused():
    pattern = structure("random", "int32")
    zero = np.zeros(4)
    scale = ffi.new("double[4]")
    common = (37, 41, pointer(pattern.indptr), pointer(pattern.indices), pattern.nnz)
    for dtype, itype in ((4, 0), (-1, 0), (0, 2)):
        p = pointer(zero)
        assert lib.asp_sddmm(dtype, itype, *common, p, 1, p, 1, 1, 1, scale, ffi.NULL, p, 1, 0)
        assert lib.asp_row_softmax(dtype, itype, 37, pointer(pattern.indptr), pattern.nnz, 1, p, ffi.NULL, p, 1)
    with pytest.raises(ValueError, match="do not fit"):
        sddmm.sample(pattern, np.zeros((3, 2)), np.zeros((41, 2)))


def test_probe_sees_a_replaced_array():
    a = np.arange(10_000)
    before = lib.asp_probe(pointer(a), a.nbytes)
    assert before == lib.asp_probe(pointer(a.copy()), a.nbytes)
    a += 1
    assert before != lib.asp_probe(pointer(a), a.nbytes)
    assert lib.asp_probe(pointer(a), 0) == lib.asp_probe(pointer(a), 0)
