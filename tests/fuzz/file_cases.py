"""Mutated .mtx, .mtx.gz and .npz files, one per seed. Run as a program, it reads the files of a range of seeds.

A case passes if the matrix equals SciPy's or the exception is one that SciPy could raise. The file ``seed`` of the
working folder holds the current seed, so that the caller of a crashed process can name it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import random
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sps

import autosparse as asp

HEAD = b"%%MatrixMarket matrix "
TEXTS = (
    HEAD + b"coordinate real general\n% c\n3 4 5\n1 1 1.5\n2 2 -2e3\n3 4 1e-300\n1 4 4\n2 1 nan\n",
    HEAD + b"coordinate pattern symmetric\n3 3 3\n1 1\n2 1\n3 3\n",
    HEAD + b"coordinate integer skew-symmetric\n3 3 2\n2 1 7\n3 2 -8\n",
    HEAD + b"coordinate complex hermitian\n3 3 3\n1 1 1 0\n2 1 1.5 2\n3 2 -8 1e5\n",
    HEAD + b"array real general\n2 3\n1\n2\n3\n4\n5\n6.5\n",
    HEAD + b"array real symmetric\n3 3\n1\n2\n3\n4\n5\n6.5\n",
    HEAD + b"array integer skew-symmetric\n3 3\n1\n2\n3\n",
    HEAD + b"coordinate unsigned-integer general\n3 3 1\n1 2 18446744073709551615\n",
    b"%%MatrixMarket vector coordinate real general\n3 2\n1 2.5\n3 4\n",
)
WORDS = (
    *b"vector array coordinate pattern complex integer real symmetric hermitian skew-symmetric general".split(),
    *b"1e400 inf -inf nan 1e 1e+ - + 1000000000000 -1 0 1 2 9223372036854775807 9223372036854775808 1e5".split(),
    *b"% 2147483648 4294967297 0x10 1_0 1.5 %%MatrixMarket".split(),
    *(b"\n", b"\r\n", b" ", b"\t", b"\0", b"\xff", b""),
)
NUMBERS = (0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, -(2**62))
REAL_NUMBERS = (*NUMBERS, 0.5, np.nan, np.inf, -np.inf)
MAX_BYTES = 3 << 30
"""Limit on the address space, because a file may declare a matrix with billions of rows."""
OURS = (asp.AutosparseError, OSError, MemoryError, ValueError, TypeError, IndexError, OverflowError)


def mutated(text: bytes, rng: random.Random) -> bytes:
    """Return `text` with one to six changes of bytes, words or lines."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        text = rng.choice((_cut, _byte, _inserted, _word, _swapped, _deleted))(text, rng)
    return text


def _cut(text: bytes, rng: random.Random) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def _byte(text: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]


def _inserted(text: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(WORDS) + text[at:]


def _word(text: bytes, rng: random.Random) -> bytes:
    lines = [line.split(b" ") for line in text.split(b"\n")]
    line = rng.choice(lines)
    line[rng.randrange(len(line))] = rng.choice(WORDS)
    return b"\n".join(map(b" ".join, lines))


def _swapped(text: bytes, rng: random.Random) -> bytes:
    lines = text.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _deleted(text: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[at + rng.randrange(1, 6) :]


def text_file(rng: random.Random) -> tuple[str, bytes]:
    """Return (name, content) of a Matrix Market file, sometimes compressed."""
    text = mutated(rng.choice(TEXTS), rng)
    if rng.random() < 0.75:
        return "m.mtx", text
    packed = gzip.compress(text, mtime=0)
    return "m.mtx.gz", mutated(packed, rng) if rng.random() < 0.3 else packed


def npz_file(rng: random.Random) -> tuple[str, bytes]:
    """Return (name, content) of an archive whose arrays may be wrong and whose bytes may be mutated."""
    values = np.random.default_rng(rng.randrange(2**32))
    fmt = rng.choice(("csr", "csc", "coo", "bsr", "dia"))
    m = sps.random_array((6, 8), density=0.3, random_state=values, format="csr")
    made = m.tobsr((2, 2)) if fmt == "bsr" else m.asformat(fmt)
    stream = io.BytesIO()
    sps.save_npz(stream, rng.choice((made, getattr(sps, f"{fmt}_matrix")(made))), compressed=rng.random() < 0.3)
    with np.load(io.BytesIO(stream.getvalue())) as file:
        arrays: dict[str, Any] = {name: file[name] for name in file.files}
    if rng.random() < 0.3:
        arrays = {name: array for name, array in arrays.items() if name not in ("format", "_is_array")}
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        _lie(arrays, rng)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(stream, **arrays)
    content = stream.getvalue()
    return "m.npz", mutated(content, rng) if rng.random() < 0.3 else content


def _lie(arrays: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice(list(arrays))
    array = np.array(arrays[name], copy=True)
    match rng.randrange(6):
        case 0 if array.size and array.dtype.kind in "iuf":
            numbers = NUMBERS if array.dtype.kind in "iu" else REAL_NUMBERS
            with contextlib.suppress(OverflowError):
                array.reshape(-1)[rng.randrange(array.size)] = rng.choice(numbers)
        case 1:
            array = array[: rng.randrange(array.shape[0] + 1)] if array.ndim else array.reshape(1)
        case 2:
            with contextlib.suppress(ValueError, TypeError, RuntimeError):
                array = array.astype(rng.choice(("i1", "u1", "i8", "u8", "f4", "f8", "c16", "S3", "?", "M8[s]", ">i4")))
        case 3:
            array = np.concatenate([array.reshape(-1), array.reshape(-1)])
        case 4:
            array = np.asarray(rng.choice(("csr", "csc", "coo", "bsr", "dia", "lil", "x", b"csr", 7)))
        case _:
            array = array[None]
    arrays[name] = array


def theirs(path: Path, content: bytes) -> Any:
    """Return what SciPy reads from the file."""
    if path.name == "m.npz":
        with np.load(path, allow_pickle=False) as file:
            if "format" in file:
                return sps.csr_array(sps.load_npz(path))
            parts = (file["data"], file["indices"], file["indptr"])
            return sps.csr_array(parts, shape=tuple(file["shape"]) if "shape" in file else None)
    text = gzip.decompress(content) if path.name.endswith(".gz") else content
    return sps.csr_array(scipy.io.mmread(io.BytesIO(text + b"\n")))


def check(seed: int, folder: Path) -> bool:
    """Read the file of `seed` and return whether it held a matrix."""
    rng = random.Random(seed)
    name, content = (text_file if rng.random() < 0.6 else npz_file)(rng)
    path = folder / name
    path.write_bytes(content)
    try:
        A = asp.csr(path)
    except OURS:
        return False
    if A.shape[0] * A.shape[1] > 10**6 or A.dtype.kind not in "biufc":
        return True
    if 0 not in A.shape:  # SciPy's reader of dense files divides by the number of rows
        wanted = theirs(path, content)
        assert A.shape == wanted.shape
        assert A.dtype == wanted.dtype
        np.testing.assert_array_equal(A.toarray(), wanted.toarray())
        x = np.ones(A.shape[1])
        np.testing.assert_allclose(A @ x, wanted @ x, rtol=1e-12)
    return True


def main(folder: Path, first: int, n: int) -> None:
    """Print the number of files that held a matrix."""
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    warnings.simplefilter("ignore")
    n_read = 0
    for seed in range(first, first + n):
        (folder / "seed").write_text(str(seed))
        n_read += check(seed, folder)
    print(n_read)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
