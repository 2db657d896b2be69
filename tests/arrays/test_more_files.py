"""Tests of further files: compressed, in archives, open, of graph libraries, of tensors, with odd banners."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sps

import autosparse as asp
from autosparse.errors import InputFileError

PLAIN = sps.random_array((6, 5), density=0.4, random_state=np.random.default_rng(0), format="csr")


def text_of(matrix: object = PLAIN) -> bytes:
    stream = io.BytesIO()
    scipy.io.mmwrite(stream, matrix)
    return stream.getvalue()


TEXT = text_of()


def tar_of(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "a.mtx.bz2": lambda: bz2.compress(TEXT),
    "a.mtx.gz": lambda: gzip.compress(TEXT),
    "a.tar.gz": lambda: tar_of({"a/a.mtx": TEXT}),
    "a.tgz": lambda: tar_of({"a/a.mtx": TEXT}),
    "a.tar.bz2": lambda: tar_of({"a/a.mtx": TEXT}, "w:bz2"),
    "b.tar.gz": lambda: tar_of({"b/b_b.mtx": b"%%MatrixMarket ...", "b/b.mtx": TEXT, "b/readme.txt": b""}),
    "other.tar.gz": lambda: tar_of({"x/only.mtx": TEXT}),
    "mark.mtx": lambda: b"\xef\xbb\xbf" + TEXT,
    "wide.mtx": lambda: TEXT.decode().encode("utf-16"),
    "upper.mtx": lambda: TEXT.split(b"\n", 1)[0].upper() + b"\n" + TEXT.split(b"\n", 1)[1],
    "spaces.mtx": lambda: TEXT.split(b"\n", 1)[0].replace(b" ", b"   ") + b" \r\n" + TEXT.split(b"\n", 1)[1],
    "mark.mtx.gz": lambda: gzip.compress(b"\xef\xbb\xbf" + TEXT.replace(b"matrix coordinate", b"MATRIX Coordinate")),
}


@pytest.mark.parametrize("name", FILES)
def test_matrices_are_read_from_a_path_and_from_an_open_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name]())
    np.testing.assert_allclose(asp.csr(path).toarray(), PLAIN.toarray())
    with path.open("rb") as stream:
        np.testing.assert_allclose(asp.csc(stream).toarray(), PLAIN.toarray())
    np.testing.assert_allclose(asp.csr(io.BytesIO(path.read_bytes())).toarray(), PLAIN.toarray(), err_msg=name)


def test_text_streams_and_npz_streams_are_read(tmp_path: Path) -> None:
    np.testing.assert_allclose(asp.csr(io.StringIO(TEXT.decode())).toarray(), PLAIN.toarray())
    stream = io.BytesIO()
    sps.save_npz(stream, PLAIN)
    stream.seek(0)
    np.testing.assert_allclose(asp.csr(stream).toarray(), PLAIN.toarray())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "premature EOF|empty|mtx|not|Not"),
        (b"PK\x03\x04 no archive", "zip"),
        (bz2.compress(b"no matrix"), "Not a Matrix Market file|Invalid|Matrix"),
        (tar_of({"a/a.txt": b""}), "holds 0 matrices"),
        (tar_of({"a/x.mtx": TEXT, "a/y.mtx": TEXT}), "holds 2 matrices"),
        (gzip.compress(TEXT)[:-20], "end|ended"),
        (TEXT.replace(b"%%MatrixMarket", b"%%MatrixMarket-"), "Not a Matrix Market file"),
        (TEXT.replace(b"%%MatrixMarket ", b"%%matrixmarket"), "Not a Matrix Market file"),
    ],
    ids=[
        *("nothing", "broken zip", "bzip2 of no matrix", "archive of none", "archive of two", "cut gzip"),
        *("banner that goes on", "banner without a space"),
    ],
)
def test_files_without_a_matrix_raise_input_file_error(content: bytes, reason: str) -> None:
    with pytest.raises(InputFileError, match=reason):
        asp.csr(io.BytesIO(content))


@pytest.mark.parametrize("prefix", ["adj_", "adj_matrix.", "graph_"])
def test_npz_files_of_graph_libraries(prefix: str, tmp_path: Path) -> None:
    arrays = {"data": PLAIN.data, "indices": PLAIN.indices, "indptr": PLAIN.indptr, "shape": PLAIN.shape}
    graph = {f"{prefix}{name}": array for name, array in arrays.items()}
    np.savez(tmp_path / "one.npz", **graph, labels=np.arange(6))
    np.testing.assert_allclose(asp.csr(tmp_path / "one.npz").toarray(), PLAIN.toarray())
    np.savez(tmp_path / "two.npz", **graph, **{f"attr_{name}": array for name, array in arrays.items()})
    if prefix.startswith("adj"):
        np.testing.assert_allclose(asp.csr(tmp_path / "two.npz").toarray(), PLAIN.toarray())
    else:
        with pytest.raises(InputFileError, match="not data, indices and indptr of one matrix"):
            asp.csr(tmp_path / "two.npz")


TNS = b"# a comment\n1 1 2 1.5\n2 3 1 -2\n\n 2 3 1 4e0\n"


@pytest.mark.parametrize(("name", "pack"), [("t.tns", bytes), ("t.tns.gz", gzip.compress), ("t.tns.bz2", bz2.compress)])
def test_tensors_in_frostts_format(name: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(pack(TNS))
    wanted = np.zeros((2, 3, 2))
    wanted[0, 0, 1], wanted[1, 2, 0] = 1.5, 2.0
    np.testing.assert_array_equal(asp.tensor(path).todense(), wanted)
    assert asp.tensor(str(path), shape=(4, 4, 4)).shape == (4, 4, 4)
    with path.open("rb") as stream:
        np.testing.assert_array_equal(asp.tensor(stream).todense(), wanted)
    with pytest.raises(InputFileError, match="a tensor of 3 modes, which `tensor` reads"):
        asp.csr(path)


def test_a_tensor_of_two_modes_is_a_matrix(tmp_path: Path) -> None:
    (tmp_path / "m.tns").write_bytes(b"1 2 5\n3 1 7\n")
    np.testing.assert_array_equal(asp.csr(tmp_path / "m.tns").toarray(), [[0, 5], [0, 0], [7, 0]])


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"1 1 1\n2 2\n", b"0 1 2.5\n", b"1.5 1 2\n", b"a b c\n", b"1\n"])
def test_texts_that_are_no_tensor_are_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.tns").write_bytes(text)
    with pytest.raises(InputFileError):
        asp.tensor(tmp_path / "t.tns")


def test_tensors_from_files_of_matrices(tmp_path: Path) -> None:
    (tmp_path / "a.mtx").write_bytes(TEXT)
    sps.save_npz(tmp_path / "a.npz", PLAIN)
    arrays = {"data": PLAIN.data, "indices": PLAIN.indices, "indptr": PLAIN.indptr, "shape": PLAIN.shape}
    np.savez(tmp_path / "g.npz", **{f"adj_{name}": array for name, array in arrays.items()})
    for name in ("a.mtx", "a.npz", "g.npz"):
        np.testing.assert_allclose(asp.tensor(tmp_path / name).todense(), PLAIN.toarray())


def test_read_only_and_mapped_arrays_multiply(tmp_path: Path) -> None:
    """Memory maps and read-only arrays must work in products, transposes and tuning."""
    x, y = np.arange(5.0), np.arange(6.0)
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(PLAIN, name))
    parts = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr")]
    fixed = [np.array(part) for part in parts]
    for part in fixed:
        part.flags.writeable = False
    for arrays in (parts, fixed):
        for A in (asp.csr(tuple(arrays), shape=(6, 5)), asp.csr_array(tuple(arrays), shape=(6, 5))):
            np.testing.assert_allclose(A @ x, PLAIN @ x)
            np.testing.assert_allclose(A.T @ y, PLAIN.T @ y)
            np.testing.assert_allclose((A @ A.T).toarray(), (PLAIN @ PLAIN.T).toarray())
            np.testing.assert_allclose(asp.sddmm(A, np.ones((6, 2)), np.ones((2, 5))).toarray(), 2 * PLAIN.toarray())
            A.tune("matmul", columns=1, effort="estimate")
            np.testing.assert_allclose(A @ x, PLAIN @ x)
