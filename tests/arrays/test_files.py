"""Tests of files that contain less than they declare, or something else: an exception says why, and nothing crashes."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse
from autosparse import errors

HEAD = b"%%MatrixMarket matrix "
COORDINATE = HEAD + b"coordinate real general\n"
REFUSED_TEXTS = {
    "a vector": (b"%%MatrixMarket vector coordinate real general\n3 2\n1 2.5\n3 4\n", "not supported"),
    "no banner": (b"1 2 3\n", "banner"),
    "a million million entries": (COORDINATE + b"3 2 1000000000000\n1 1 1\n", "header says 1,000,000,000,000 entries"),
    "a million times a million": (HEAD + b"array real general\n1000000 1000000\n1\n", "header says 1,000,000,000,000 "),
    "more than 64 bits": (
        HEAD + b"array real general\n10000000000 10000000000\n1\n",
        "header says 100,000,000,000,000,",
    ),
    "symmetric and not square": (HEAD + b"array real symmetric\n3 2\n1\n2\n3\n", "symmetric matrix is square"),
    "half a number": (COORDINATE + b"3 2 2\n1 1 1\n2 2 1e", "middle of a number"),
    "a line too many without an end": (HEAD + b"array integer skew-symmetric\n3 3\n1\n2\n3\n1x", "too long"),
    "a value too many": (HEAD + b"array integer skew-symmetric\n3 3\n1\n2\n3\n4\n", "File too long"),
    "a zero byte": (HEAD + b"coordinate integer general\n3 3 1\n1 2 184\x0077\n", "contains a NUL byte"),
    "negative extents": (HEAD + b"array real general\n-3 -2\n1\n", "negative"),
}
READ_TEXTS = {
    "no rows": (HEAD + b"array real general\n0 3\n", np.zeros((0, 3))),
    "no entries": (HEAD + b"array integer skew-symmetric\n1 1\n", np.zeros((1, 1), np.int64)),
    "no end of the last line": (COORDINATE + b"2 2 2\n1 1 1\n2 2 1e5", np.array([[1.0, 0], [0, 1e5]])),
}
READ_ALL = """
import sys, autosparse
for path in sys.argv[2:]:
    try:
        getattr(autosparse, sys.argv[1])(path)
    except Exception as error:
        print(type(error).__name__, str(error).split(chr(10))[0], flush=True)
"""


def read_all(paths: list[Path], fmt: str) -> list[str]:
    """Read the files in another process, and return one line for each exception; fail if that process crashes."""
    command = [sys.executable, "-c", READ_ALL, fmt, *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = run.stdout.splitlines()
    assert run.returncode == 0, f"file {len(lines)} ended the process: {run.stderr}"
    return lines


def write_text(folder: Path, suffix: str, text: bytes) -> Path:
    path = folder / f"m{suffix}"
    path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    return path


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
def test_inconsistent_text_files_raise_with_the_reason_and_do_not_crash(suffix: str, tmp_path: Path) -> None:
    paths = []
    for number, (text, _) in enumerate(REFUSED_TEXTS.values()):
        (tmp_path / str(number)).mkdir()
        paths.append(write_text(tmp_path / str(number), suffix, text))
    lines = read_all(paths, "csr")
    for (name, (_, reason)), line, path in zip(REFUSED_TEXTS.items(), lines, paths, strict=True):
        assert line.startswith(f"InputFileError cannot read a sparse matrix from '{path}': "), name
        assert reason in line, name


@pytest.mark.filterwarnings("error")  # SciPy 1.18 warns unless it is asked for arrays
@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
def test_texts_at_the_edge_are_read(suffix: str, tmp_path: Path) -> None:
    for text, wanted in READ_TEXTS.values():
        A = autosparse.csr(write_text(tmp_path, suffix, text))
        assert A.dtype == wanted.dtype
        np.testing.assert_array_equal(A.toarray(), wanted)


def test_paths_in_any_alphabet(tmp_path: Path) -> None:
    path = tmp_path / "matrix-\u03bb.mtx"
    path.write_bytes(READ_TEXTS["no end of the last line"][0] + b"\n")
    assert autosparse.csr(path).toarray().tolist() == [[1.0, 0.0], [0.0, 1e5]]


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
def test_the_command_line_says_what_is_wrong_with_a_file(suffix: str, tmp_path: Path) -> None:
    path = write_text(tmp_path, suffix, REFUSED_TEXTS["a million million entries"][0])
    command = [sys.executable, "-m", "autosparse", "explain", str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith("autosparse explain: cannot read a sparse matrix from")
    assert "header says" in run.stderr


def saved(matrix: object, folder: Path, **changed: object) -> Path:
    """Write `matrix` by `save_npz`, replace some arrays of the file, and return its path."""
    stream = io.BytesIO()
    sps.save_npz(stream, matrix)
    with np.load(io.BytesIO(stream.getvalue())) as file:
        arrays = {name: file[name] for name in file.files} | changed
    path = folder / "lying.npz"
    np.savez(path, **arrays)
    return path


SMALL = sps.csr_array(np.array([[1.0, 2, 0, 0], [0, 3, 4, 0], [0, 0, 5, 6], [7, 0, 0, 8]]))
LIES: dict[str, tuple[Callable[[], object], dict[str, object]]] = {
    "csc index beyond the rows": (SMALL.tocsc, {"indices": np.full(8, 2**30, np.int32)}),
    "csc index below zero": (SMALL.tocsc, {"indices": np.full(8, -7, np.int32)}),
    "csr index beyond the columns": (SMALL.copy, {"indices": np.full(8, 99, np.int32)}),
    "indptr that falls": (SMALL.tocsc, {"indptr": np.array([0, 8, 2, 7, 8], np.int32)}),
    "indptr below zero at the end": (SMALL.copy, {"indptr": np.array([0, 2, 4, 6, -1], np.int32)}),
    "block beyond the columns": (lambda: SMALL.tobsr((2, 2)), {"indices": np.full(4, 2**20, np.int32)}),
    "diagonal far away": (SMALL.todia, {"offsets": np.array([-(2**31), 0, 2**31 - 1, 1][:3], np.int64)}),
    "shape of no integers": (SMALL.copy, {"shape": np.array([np.inf, 4.0])}),
    "no shape at all": (SMALL.copy, {"shape": np.array("x")}),
}


@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_inconsistent_npz_files_are_refused(fmt: str, tmp_path: Path) -> None:
    paths = []
    for number, (make, changed) in enumerate(LIES.values()):
        (tmp_path / str(number)).mkdir()
        paths.append(saved(make(), tmp_path / str(number), **changed))
    lines = read_all(paths, fmt)
    for name, line in zip(LIES, lines, strict=True):
        assert line.startswith("InputFileError cannot read a sparse matrix from"), name


def test_npz_headers_that_declare_more_than_the_file_holds_are_refused(tmp_path: Path) -> None:
    """A header that declares petabytes must be refused before anything is allocated."""
    path = saved(SMALL, tmp_path)
    content = path.read_bytes()
    at = content.index(b"'shape': (8,), }")
    header = b"'shape': (10**18,), }".replace(b"10**18", b"999999999999999")
    path.write_bytes(content[:at] + header + content[at + len(header) :])
    with pytest.raises(errors.InputFileError):
        autosparse.csr(path)
