"""Matrices read piece by piece are those that SciPy reads at once."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sps

pytest.importorskip("dask.array", reason="dask is not installed")

import autosparse as asp
from autosparse.dask import files
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


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_matrix_market_in_pieces(tmp_path, monkeypatch, symmetry):
    wanted = m if symmetry == "general" else (m @ m.T).tocsr()
    scipy.io.mmwrite(tmp_path / "a.mtx", wanted, symmetry=symmetry, precision=17)
    monkeypatch.setattr(files, "PIECE_BYTES", 5000)
    A = asp.dask.read(tmp_path / "a.mtx", n_blocks=4)
    assert A.numblocks == (4, 1)
    same(A, wanted)


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
