"""Random einsum calls by seed, some with malformed operands. Run as a program, it checks a range of seeds.

A case passes if the call gives NumPy's answer or, for a malformed operand, raises one of our errors. A crash of the
process fails the test.
"""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sps

import autosparse as asp
from autosparse.errors import AutosparseError

DTYPES = ("f8", "f8", "f4", "c16", "i4", "i1", "?", "f2", "u8")
FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia", "tensor", "asp")
NASTY = (-1, -(2**31), 2**31 - 1, 7, 900_000_000, 4)


def expression(rng: random.Random) -> str:
    """Return a product of one to four operands of one to three indices, some with diagonals, and any output."""
    inputs = [
        "".join(rng.choices("ijkl", k=rng.choice((1, 2, 2, 2, 3)))) for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))
    ]
    used = sorted(set("".join(inputs)))
    return ",".join(inputs) + "->" + "".join(rng.sample(used, rng.randint(0, min(3, len(used)))))


def operand(letters: str, sizes: dict[str, int], rng: random.Random) -> tuple[np.ndarray, Any]:
    """Return a dense operand, and the same operand dense or in a sparse form."""
    values = np.random.default_rng(rng.randrange(2**32))
    shape = tuple(sizes[index] for index in letters)
    dense = (values.integers(0, 3, shape) * (values.random(shape) < 0.5)).astype(rng.choice(DTYPES))
    fmt = rng.choice(FORMATS)
    if len(shape) == 1 or (len(shape) == 2 and rng.random() < 0.25):
        return dense, dense
    if len(shape) == 3 or fmt == "tensor" or dense.dtype == np.float16:
        return dense, asp.tensor(np.stack(np.nonzero(dense)), dense[np.nonzero(dense)], shape)
    made = asp.csr(dense) if fmt == "asp" else sps.csr_array(dense).asformat(fmt)
    return dense, made


def spoiled(one: Any, rng: random.Random) -> bool:
    """Write a bad number into an index array of a sparse operand; return whether it has such an array."""
    names = [name for name in ("indices", "indptr", "row", "col") if isinstance(getattr(one, name, None), np.ndarray)]
    arrays = [array for name in names if (array := getattr(one, name)).size and array.flags.writeable]
    if not arrays:
        return False
    array = rng.choice(arrays)
    array[rng.randrange(array.size)] = rng.choice(NASTY)
    return True


def as_dense(result: Any) -> np.ndarray:
    for name in ("toarray", "todense"):
        if hasattr(result, name):
            return np.asarray(getattr(result, name)())
    return np.asarray(result)


def check(seed: int) -> bool:
    """Run the call of `seed` and return whether it raised one of our errors."""
    rng = random.Random(seed)
    text, sizes = expression(rng), {index: rng.choice((1, 2, 4, 5)) for index in "ijkl"}
    pairs = [operand(letters, sizes, rng) for letters in text.split("->")[0].split(",")]
    given = [sparse for _, sparse in pairs]
    is_spoiled = rng.random() < 0.5 and sum(spoiled(one, rng) for one in given) > 0
    options = {"runs": 1000} if rng.random() < 0.04 else {}
    wanted = np.einsum(text, *[dense for dense, _ in pairs])
    try:
        with asp.options(threads=rng.choice((1, 2)), **options):
            fmt = rng.choice((None, None, "dense", "tensor")) if wanted.ndim else None
            found = as_dense(asp.einsum(text, *given, format=fmt))
    except AutosparseError:
        assert is_spoiled, text
        return True
    assert found.shape == wanted.shape, (text, found.shape, wanted.shape)
    if not is_spoiled:  # a number within bounds makes another valid matrix
        assert found.dtype == wanted.dtype, (text, found.dtype, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=2e-3, err_msg=text)
    return False


def main(folder: Path, first: int, n: int) -> None:
    """Print the number of calls that raised."""
    warnings.simplefilter("ignore")
    n_raised = 0
    with asp.options(cache_dir=folder / "cache"):
        for seed in range(first, first + n):
            (folder / "seed").write_text(str(seed))
            n_raised += check(seed)
    print(n_raised)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
