"""Tests of `csr(obj)` and `csc(obj)`: accepted inputs, memory shared with `copy=False`, and error messages."""

from __future__ import annotations

import gzip
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sps

import autosparse
from autosparse import errors
from tests.scipy_versions import IS_RECENT

FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
MAKERS = ("csr", "csc")


def sample(dtype: str = "f8") -> Any:
    m = sps.random(6, 8, 0.3, format="csr", random_state=np.random.RandomState(0))
    return m.astype(dtype)


def make(fmt: str) -> Any:
    return getattr(autosparse, fmt)


def assert_holds(A: Any, dense: Any, fmt: str, kind: str) -> None:
    assert type(A) is getattr(autosparse, f"{fmt}_{kind}")
    np.testing.assert_array_equal(A.toarray(), dense)
    np.testing.assert_allclose(A @ np.ones(dense.shape[1]), dense.sum(axis=1))


@pytest.mark.parametrize("fmt", MAKERS)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_arrays_give_arrays_and_matrices_matrices(fmt: str, source: str, kind: str) -> None:
    m = getattr(sps, f"{source}_{kind}")(sample())
    before = m.copy()
    A = make(fmt)(m)
    assert_holds(A, m.toarray(), fmt, kind)
    assert_holds(make(fmt)(A), m.toarray(), fmt, kind)
    assert (m != before).nnz == 0
    if source == fmt:
        A = make(fmt)(m, copy=False)
        assert np.shares_memory(A.data, m.data)
        assert np.shares_memory(A.indices, m.indices)
        assert not np.shares_memory(make(fmt)(m).data, m.data)
        assert not np.shares_memory(make(fmt)(m, copy=True).data, m.data)
        m.data[0] = 42
        np.testing.assert_allclose(A @ np.ones(8), m @ np.ones(8))


@pytest.mark.parametrize("fmt", MAKERS)
def test_dense_lists_triplets_and_shapes(fmt: str) -> None:
    m = getattr(sps, f"{fmt}_array")(sample())
    dense = m.toarray()
    assert_holds(make(fmt)(dense), dense, fmt, "array")
    assert_holds(make(fmt)(dense.view(np.matrix)), dense, fmt, "array")
    assert_holds(make(fmt)(dense.tolist()), dense, fmt, "array")
    assert_holds(make(fmt)(np.asfortranarray(dense)), dense, fmt, "array")
    triplet = (m.data, m.indices, m.indptr)
    assert_holds(make(fmt)(triplet, shape=m.shape), dense, fmt, "array")
    assert_holds(make(fmt)((*triplet, m.shape)), dense, fmt, "array")
    assert_holds(make(fmt)([*dense]), dense, fmt, "array")
    assert np.shares_memory(make(fmt)(triplet, shape=m.shape, copy=False).data, m.data)
    coo = m.tocoo()
    assert_holds(make(fmt)((coo.data, (coo.row, coo.col)), shape=m.shape), dense, fmt, "array")
    assert make(fmt)((3, 4)).shape == (3, 4)
    assert make(fmt)(dense, dtype="f4").dtype == np.float32
    narrow = make(fmt)(triplet)
    assert narrow.shape == getattr(sps, f"{fmt}_array")(triplet).shape


def test_index_and_value_dtypes_are_scipys() -> None:
    m = sample()
    for index in ("i4", "i8", "u4"):
        triplet = (m.data, m.indices.astype(index), m.indptr.astype(index))
        assert autosparse.csr(triplet).indices.dtype == sps.csr_array(triplet).indices.dtype
    assert autosparse.csr((m.data.astype("f2"), m.indices, m.indptr)).dtype == np.float16


# -- torch


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.filterwarnings("ignore:.*beta state.*", "ignore:.*invariant.*")
@pytest.mark.parametrize("fmt", MAKERS)
@pytest.mark.parametrize("layout", ["to_dense", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "bsr"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_torch_tensors_of_every_layout(torch: Any, fmt: str, layout: str, dtype: str) -> None:
    dense = torch.from_numpy(sample().toarray()).to(getattr(torch, dtype))
    tensor = dense.to_sparse_bsr((2, 2)) if layout == "bsr" else getattr(dense, layout)()
    assert_holds(make(fmt)(tensor), dense.numpy(), fmt, "array")
    assert_holds(make(fmt)(tensor.clone().requires_grad_(), gradients=False), dense.numpy(), fmt, "array")


@pytest.mark.filterwarnings("ignore:.*beta state.*", "ignore:.*invariant.*")
def test_torch_tensors_share_memory(torch: Any) -> None:
    tensor = torch.from_numpy(sample().toarray()).to_sparse_csr()
    A = autosparse.csr(tensor, copy=False)
    tensor.values()[:] = 1
    np.testing.assert_allclose(A @ np.ones(8), tensor.to_dense().numpy().sum(axis=1))
    repeated = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
    assert autosparse.csr(repeated).toarray().tolist() == [[0, 3], [0, 0]]
    assert np.array_equal(
        autosparse.csr(torch.ones(2, 2, dtype=torch.complex64).mH * 1j).toarray(), 1j * np.ones((2, 2))
    )


@pytest.mark.filterwarnings("ignore:.*beta state.*", "ignore:.*invariant.*")
def test_torch_tensors_that_are_no_cpu_matrix(torch: Any) -> None:
    with pytest.raises(errors.InputTypeError, match=r"(?s)bfloat16.*Hint: .*tensor.float"):
        autosparse.csr(torch.ones(2, 2, dtype=torch.bfloat16).to_sparse_csr())
    with pytest.raises(errors.InputError, match=r"(?s)CPU memory.*meta.*Hint: pass tensor.cpu"):
        autosparse.csr(torch.ones(2, 2, device="meta"))
    batch = torch.ones(2, 3, 4)
    for tensor in (batch, batch.to_sparse(), batch.to_sparse(2), batch.to_sparse_csr()):
        with pytest.raises(errors.InputError, match=r"(?s)two dimensions.*Given: .*\(2, 3, 4\).*Hint: "):
            autosparse.csr(tensor)


def test_torch_is_not_imported_for_others() -> None:
    import subprocess

    program = (
        "import sys, numpy, autosparse; autosparse.csr(numpy.eye(3)) @ numpy.ones(3); print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


# -- files


@pytest.mark.parametrize("fmt", MAKERS)
@pytest.mark.parametrize("as_type", [str, Path])
def test_files_of_every_kind(fmt: str, as_type: Any, tmp_path: Path) -> None:
    m = sample()
    dense = m.toarray()
    scipy.io.mmwrite(tmp_path / "m.mtx", m)
    (tmp_path / "m.MTX.gz").write_bytes(gzip.compress((tmp_path / "m.mtx").read_bytes()))
    scipy.io.mmwrite(tmp_path / "dense.mtx", dense)
    compressed = getattr(m, f"to{fmt}")()
    parts = {"data": compressed.data, "indices": compressed.indices, "indptr": compressed.indptr}
    np.savez(tmp_path / "raw.npz", shape=compressed.shape, **parts)
    for name in ("m.mtx", "m.MTX.gz", "dense.mtx", "raw.npz"):
        A = make(fmt)(as_type(tmp_path / name))
        assert type(A) is getattr(autosparse, f"{fmt}_array")
        np.testing.assert_allclose(A.toarray(), dense)
    for kind in ("array", "matrix"):
        for source in ("csr", "csc", "coo", "bsr", "dia"):
            sps.save_npz(tmp_path / "saved.npz", getattr(sps, f"{source}_{kind}")(m))
            kept = "array" if isinstance(sps.load_npz(tmp_path / "saved.npz"), sps.sparray) else "matrix"
            assert_holds(make(fmt)(as_type(tmp_path / "saved.npz")), dense, fmt, kept)


def test_matrix_market_symmetry_patterns_and_complex(tmp_path: Path) -> None:
    head = "%%MatrixMarket matrix coordinate"
    (tmp_path / "p.mtx").write_text(f"{head} pattern symmetric\n2 2 2\n1 1\n2 1\n")
    assert autosparse.csr(tmp_path / "p.mtx").toarray().tolist() == [[1, 1], [1, 0]]
    (tmp_path / "c.mtx").write_text(f"{head} complex general\n1 2 1\n1 2 1.0 -2.0\n")
    assert autosparse.csr(tmp_path / "c.mtx").toarray().tolist() == [[0, 1 - 2j]]


@pytest.mark.matrices
def test_real_matrices_load(matrices: Path) -> None:
    path = matrices / "cora.npz"
    A = autosparse.csr(path)
    m = sps.load_npz(path)
    x = np.random.default_rng(0).random(m.shape[1]).astype(m.dtype)
    np.testing.assert_allclose(A @ x, m @ x, rtol=1e-5)


def _spoiled_files(folder: Path) -> dict[str, Path]:
    scipy.io.mmwrite(folder / "m.mtx", sample() / 1e50)
    text = (folder / "m.mtx").read_bytes()
    sps.save_npz(folder / "m.npz", sample())
    packed = (folder / "m.npz").read_bytes()
    npz_without = folder / "without.npz"
    np.savez(npz_without, values=np.ones(3))
    pickled = folder / "pickled.npz"
    np.savez(pickled, data=np.array([{}], dtype=object), indices=[0], indptr=[0, 1])
    unknown_format = folder / "format.npz"
    np.savez(unknown_format, format="xyz", shape=(1, 1), data=[1.0])
    made = {"values only": npz_without, "pickled": pickled, "unknown format": unknown_format}
    for name, content in {
        "empty.mtx": b"",
        "no header.mtx": b"1 2 3\n",
        "cut.mtx": text[: len(text) // 2],
        "cut in an exponent.mtx": text[: text.rindex(b"E-") + 2],
        "cut in an exponent.mtx.gz": gzip.compress(text[: text.rindex(b"E-") + 1]),
        "index.mtx": b"%%MatrixMarket matrix coordinate real general\n2 2 1\n3 3 1.0\n",
        "words.mtx": b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 one 1.0\n",
        "not gzip.mtx.gz": text,
        "cut.mtx.gz": gzip.compress(text)[:-20],
        "empty.npz": b"",
        "cut.npz": packed[: len(packed) // 2],
        "text.npz": b"hello",
        "flipped.npz": packed[:60] + bytes(b ^ 255 for b in packed[60:120]) + packed[120:],
    }.items():
        (folder / name).write_bytes(content)
        made[name] = folder / name
    return made


def test_broken_files_say_which_and_why(tmp_path: Path) -> None:
    for name, path in _spoiled_files(tmp_path).items():
        with pytest.raises(
            errors.InputFileError, match=r"(?s)cannot read a sparse matrix from '.*': \S.*Hint: "
        ) as caught:
            autosparse.csr(path)
        assert str(path) in str(caught.value), name
        assert isinstance(caught.value, ValueError)


def test_unknown_suffixes_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(errors.InputFileError, match=r"(?s)'.*m.csv'.*\.mtx, \.mtx\.gz, \.npz.*Hint: "):
        autosparse.csr(tmp_path / "m.csv")
    for name in ("gone.mtx", "gone.npz"):
        with pytest.raises(FileNotFoundError, match="gone"):
            autosparse.csr(str(tmp_path / name))
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(errors.InputFileError, match=r"(?s)folder.npz.*Hint: "):
        autosparse.csr(tmp_path / "folder.npz")


def test_files_with_a_structure_out_of_bounds(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", data=[1.0], indices=[7], indptr=[0, 1], shape=(1, 3))
    with pytest.raises(errors.StructureError, match=r"indices must be < 3"):
        autosparse.csr(tmp_path / "m.npz")


# -- refused input: SciPy's exception type, SciPy's first line, what was given, the hint

I3 = np.array([0, 1, 2])
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "float16 matrix": (np.ones((2, 2), "f2"), {}, r".*float16.*\n.*shape \(2, 2\) and dtype float16.*\n.*astype"),
    "objects": (np.array([[1, None]], dtype=object), {}, r".*object.*\n.*dtype object.*\n"),
    "text matrix": (np.array([["a"]]), {}, r".*\n.*dtype <U1.*\n"),
    "dtype=object": (np.ones((2, 2)), {"dtype": object}, r".*\n.*dtype=.*object.*\n"),
    "dtype=text": (np.ones((2, 2)), {"dtype": "no such"}, r".*no such.*\n.*dtype='no such'.*\n"),
    "3-D": (np.ones((2, 2, 2)), {}, rf".*\n.*shape \(2, 2, 2\).*\n.*{'two-dimensional' if IS_RECENT else 'shape='}"),
    "scalar": (3.0, {}, r".*\n.*float 3.0.*\n"),
    "None": (None, {}, r".*\n.*NoneType.*\n"),
    "ragged": ([[1], [1, 2]], {}, r".*\n.*list.*\n"),
    "lengths of data and indices": (
        (np.ones(2), I3, I3),
        {},
        r"indices and data should have the same size\n.*shape \(2,\).*\n.*one index",
    ),
    "two-dimensional data": (
        (np.ones((3, 1)), I3, I3),
        {},
        r"data, indices, and indptr should be 1-D\n.*\(3, 1\).*\n.*one-dim",
    ),
    "indptr too long for the shape": (
        (np.ones(2), I3[:2], I3),
        {"shape": (5, 5)},
        r"index pointer size 3 should be 6\n.*shape=\(5, 5\).*\n",
    ),
    "indptr does not start at 0": (
        (np.ones(3), I3, I3 + 1),
        {},
        r"index pointer should start with 0\n.*\n.*start with 0",
    ),
    "indptr ends too late": (
        (np.ones(3), I3, np.array([0, 9])),
        {},
        r"Last value of index pointer.*\n.*\n.*at least indptr\[-1\]",
    ),
    "no shape to infer": ((np.ones(0), I3[:0], I3[:1]), {}, r"unable to infer matrix dimensions\n.*\n.*pass shape="),
    "negative shape": ((np.ones(0), I3[:0], I3[:1]), {"shape": (-1, 2)}, r".*\n.*shape=\(-1, 2\).*\n"),
    "shape of one number too many": (np.ones((2, 2)), {"shape": (2, 2, 2)}, r".*\n.*shape=\(2, 2, 2\).*\n"),
    "tuple of nothing known": ((1, 2, 3, 4, 5), {}, r".*\n.*tuple.*\n"),
    "set": ({1, 2}, {}, r".*\n.*set.*\n"),
    "entries out of bounds": ((np.ones(1), ([9], [0])), {"shape": (2, 2)}, r".*\n.*\[9\].*\n.*from 0"),
    "entries before the first": ((np.ones(1), ([-1], [0])), {"shape": (2, 2)}, r".*\n.*\[-1\].*\n.*from 0"),
    "entries without a column": ((np.ones(2), ([0, 1], [0])), {}, r".*\n.*\[0, 1\].*\n.*one row index"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_input_has_scipys_type_and_line_the_facts_and_the_hint(case: str) -> None:
    obj, arguments, message = REFUSED[case]
    with pytest.raises(Exception, match=r".") as theirs:
        sps.csr_array(obj, **arguments)
    line, facts = message.split(r"\n", 1)
    with pytest.raises(errors.AutosparseError, match=rf"^.*\n{facts}") as ours:
        autosparse.csr(obj, **arguments)
    assert re.match(line, str(ours.value)) or not IS_RECENT
    assert isinstance(ours.value, TypeError if isinstance(theirs.value, TypeError) else ValueError)
    first, given, hint = str(ours.value).split("\n")
    assert str(theirs.value).startswith(first.removesuffix("..."))
    assert given.startswith("  Given: ")
    assert hint.startswith("  Hint: ")
    if arguments or case.startswith("entries"):
        assert "a torch sparse tensor" not in hint, "the kind of object is not the fault"


@pytest.mark.parametrize(
    ("indices", "indptr", "message"),
    [
        ([0, 3], [0, 1, 2], r"indices must be < 3\n  indices holds 3; the matrix has 3"),
        ([0, -1], [0, 1, 2], r"indices must be >= 0\n  indices holds -1"),
        ([0, 1], [0, 3, 2], r"indptr must be a non-decreasing sequence\n  indptr\[1\] is 3, but indptr\[2\] is 2"),
    ],
)
def test_structures_out_of_bounds_are_refused_at_once(indices: Any, indptr: Any, message: str) -> None:
    for dtype in ("f8", "i4"):
        with pytest.raises(errors.StructureError, match=rf"(?s)^{message}.*Hint: ") as caught:
            autosparse.csr((np.ones(2, dtype), indices, indptr), shape=(2, 3))
        assert isinstance(caught.value, ValueError)
        with pytest.raises(ValueError, match=message.split("\\n", maxsplit=1)[0] if IS_RECENT else "."):
            sps.csr_array((np.ones(2, dtype), indices, indptr), shape=(2, 3)).check_format()


def test_complex_to_real_warns_as_scipy_does() -> None:
    m = sample("c16")
    with pytest.warns(np.exceptions.ComplexWarning):
        A = autosparse.csr(m, dtype="f8")
    assert A.dtype == np.float64


def test_scipy_matrices_with_a_structure_out_of_bounds_raise_at_the_product() -> None:
    m = sps.csr_array((np.ones(2), np.array([0, 9]), np.array([0, 1, 2])), shape=(2, 3))
    A = autosparse.csr(m)
    with pytest.raises(errors.StructureError, match="indices must be < 3"):
        A @ np.ones(3)


# -- snapshots of torch tensors


def counted(A: Any, n: int) -> int:
    """Return the number of warnings about a snapshot in `n` products."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for _ in range(n):
            A @ np.ones(8)
    return sum(issubclass(one.category, autosparse.SnapshotWarning) for one in shown)


@pytest.mark.filterwarnings("ignore:.*beta state.*", "ignore:.*invariant.*")
@pytest.mark.parametrize("layout", ["to_dense", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc"])
@pytest.mark.parametrize("fmt", MAKERS)
def test_a_matrix_of_a_tensor_is_a_snapshot_and_says_once_that_the_tensor_was_written(
    torch: Any, fmt: str, layout: str
) -> None:
    tensor = getattr(torch.from_numpy(sample().toarray()), layout)()
    A = make(fmt)(tensor)
    before = A @ np.ones(8)
    assert counted(A, 30) == 0
    (tensor if layout == "to_dense" else tensor._values() if layout == "to_sparse_coo" else tensor.values()).mul_(2)
    assert counted(A, 1) == 0
    assert counted(A, 1) == 1
    assert counted(A, 30) == 0
    np.testing.assert_array_equal(A @ np.ones(8), before)


@pytest.mark.filterwarnings("ignore:.*beta state.*", "ignore:.*invariant.*")
def test_a_sharing_matrix_follows_optimiser_steps_without_a_warning(torch: Any) -> None:
    tensor = torch.from_numpy(sample().toarray()).to_sparse_csr()
    A = autosparse.csr(tensor, copy=False)
    for _ in range(40):
        tensor.values().mul_(2)
        np.testing.assert_allclose(A @ np.ones(8), tensor.to_dense().numpy().sum(axis=1))
        assert counted(A, 2) == 0


@pytest.mark.filterwarnings("ignore:.*beta state.*", "ignore:.*invariant.*")
def test_a_snapshot_is_as_fast_a_path_as_any(torch: Any) -> None:
    tensor = torch.from_numpy(sample().toarray()).to_sparse_csr()
    A = autosparse.csr(tensor)
    for _ in range(60):
        A @ np.ones(8)
    assert A._cell.fast_path is autosparse.arrays.tensors._FAST_PATH.__get__(A._cell)
    del tensor
    A @ np.ones(8)
    assert A._cell.origin is None
    with torch.inference_mode():
        assert autosparse.csr(torch.eye(3)).nnz == 3
