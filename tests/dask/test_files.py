"""Tests of matrices that are read in pieces: they equal those that SciPy reads at once."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sps

pytest.importorskip("dask.array", reason="dask is not installed")

import autosparse as asp
from autosparse.dask import archives, files
from autosparse.errors import InputError, InputFileError

m = sps.random_array((300, 200), density=0.05, random_state=np.random.default_rng(1), format="csr")


def same(found, wanted):
    found = found.compute(scheduler="sync")
    assert isinstance(found, asp.csr_array)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found.toarray(), wanted.toarray(), rtol=1e-12)


@pytest.mark.parametrize("compressed", [True, False])
def test_npz(tmp_path, compressed):
    sps.save_npz(tmp_path / "a.npz", m, compressed=compressed)
    A = asp.dask.read(tmp_path / "a.npz", n_blocks=4)
    assert A.numblocks == (4, 1)
    same(A, m)


@pytest.mark.parametrize("order", [1, -1])
def test_a_compressed_npz_is_inflated_about_once(tmp_path, monkeypatch, order):
    """Each piece must begin at the nearest saved state of the decompressor, in any order of the pieces."""
    sps.save_npz(tmp_path / "a.npz", m, compressed=True)
    monkeypatch.setattr(archives, "MIN_DISTANCE", 256)
    monkeypatch.setattr(archives, "FED_BYTES", 64)
    n_bytes = []
    frombuffer = np.frombuffer
    monkeypatch.setattr(np, "frombuffer", lambda text, dtype: n_bytes.append(len(text)) or frombuffer(text, dtype))
    pieces = [(first, min(first + 100, m.nnz)) for first in range(0, m.nnz, 100)][::order]
    for first, last in pieces:
        found = archives.entries(tmp_path / "a.npz", "data", first, last)
        np.testing.assert_array_equal(found, m.data[first:last])
    assert sum(n_bytes) < 3 * m.data.nbytes, f"{len(pieces)} pieces, each from the start: {len(pieces) / 2} times"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"indptr": [0, 2, 1, 3]}, "non-decreasing"),
        ({"indptr": [1, 1, 2, 3]}, "start with 0"),
        ({"indptr": [0, 1, 3]}, "size 3 should be 4"),
        ({"indptr": [0, 1, 2, 4]}, "indptr ends at 4; indices has 3"),
        ({"indptr": [0.0, 1, 2, 3]}, "dtype float64"),
        ({"indices": [0, 1, 4]}, "must be < 4"),
        ({"indices": [0, -1, 3]}, "must be >= 0"),
        ({"indices": [0.5, 1, 2]}, "not integers"),
        ({"data": [[1.0, 2.0, 3.0]]}, "one-dimensional numeric array"),
        ({"data": [1.0]}, "data 1"),
        ({"shape": [3, -4]}, "is not that of a matrix"),
        ({"shape": None}, "shape"),
    ],
)
def test_broken_npz_are_refused_before_anything_follows_an_index(tmp_path, broken, message):
    arrays = {"data": [1.0, 2.0, 3.0], "indices": [0, 1, 3], "indptr": [0, 1, 2, 3], "shape": [3, 4], **broken}
    path = tmp_path / "a.npz"
    np.savez(path, **{name: np.array(values) for name, values in arrays.items() if values is not None})
    with pytest.raises(InputFileError, match=message):
        asp.dask.read(path, n_blocks=2).compute(scheduler="sync")


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK no archive")
    with pytest.raises(InputFileError):
        asp.dask.read(tmp_path / "a.npz")
    sps.save_npz(tmp_path / "b.npz", m, compressed=True)
    A = asp.dask.read(tmp_path / "b.npz", n_blocks=2)
    (tmp_path / "b.npz").write_bytes((tmp_path / "b.npz").read_bytes()[:2000])
    with pytest.raises(InputFileError):
        A.compute(scheduler="sync")


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_matrix_market_in_pieces(tmp_path, monkeypatch, symmetry):
    wanted = m if symmetry == "general" else (m @ m.T).tocsr()
    scipy.io.mmwrite(tmp_path / "a.mtx", wanted, symmetry=symmetry, precision=17)
    monkeypatch.setattr(files, "PIECE_BYTES", 5000)
    A = asp.dask.read(tmp_path / "a.mtx", n_blocks=4)
    assert A.numblocks == (4, 1)
    same(A, wanted)


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_matrix_market_of_another_number_of_entries_is_refused(tmp_path, symmetry):
    wanted = m if symmetry == "general" else (m @ m.T).tocsr()
    scipy.io.mmwrite(tmp_path / "a.mtx", wanted, symmetry=symmetry, precision=17)
    lines = (tmp_path / "a.mtx").read_text().splitlines()
    for broken in (lines[:-1], [*lines, lines[-1]], []):
        (tmp_path / "b.mtx").write_text("".join(f"{line}\n" for line in broken))
        with pytest.raises(ValueError, match=r"file|banner"):
            scipy.io.mmread(tmp_path / "b.mtx")
        with pytest.raises(InputFileError, match="entries" if broken else "banner"):
            asp.dask.read(tmp_path / "b.mtx")


def test_parquet_of_triples(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    entries = m.tocoo()
    table = pa.table({"row": entries.row, "col": entries.col, "value": entries.data})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    same(asp.dask.read(tmp_path / "a.parquet", n_blocks=4, shape=m.shape), m)
    guessed = asp.dask.read(tmp_path, n_blocks=2)
    assert guessed.shape == (entries.row.max() + 1, entries.col.max() + 1)
    with pytest.raises(InputError, match="no column weight"):
        asp.dask.read(tmp_path, columns=("row", "col", "weight"))
    with pytest.raises(InputFileError, match="exceeds"):
        asp.dask.read(tmp_path, shape=(10, 10))


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        asp.dask.read(tmp_path / "none.npz")
    (tmp_path / "a.txt").write_text("1 2 3")
    with pytest.raises(InputFileError):
        asp.dask.read(tmp_path / "a.txt")
    sps.save_npz(tmp_path / "c.npz", m.tocsc())
    with pytest.raises(InputFileError, match="csc"):
        asp.dask.read(tmp_path / "c.npz")
