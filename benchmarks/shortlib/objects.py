"""Short programs that copy, store, convert and clean matrices."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np

from shortlib.inputs import coo, grid, scattered, vector
from shortlib.program import dense, is_ours, load, short


@short(lambda: {"A": scattered(500, 400, 0.02)})
def copies(sp: Any, A: Any) -> Any:
    """Copy a matrix, change the copy and compare."""
    A = load(sp, A)
    B = A.copy()
    B.data *= 2
    return A.sum(), B.sum(), (B - A).sum(axis=0)


@short(lambda: {"A": scattered(500, 400, 0.02)})
def copy_module(sp: Any, A: Any) -> Any:
    """Copy a matrix by copy.copy and multiply."""
    A = load(sp, A)
    B = copy.copy(A)
    return B @ np.ones(400), A @ np.ones(400)


@short(lambda: {"A": scattered(500, 400, 0.02, matrix=True)})
def deep_copy(sp: Any, A: Any) -> Any:
    """Copy a matrix by copy.deepcopy, change it and multiply."""
    A = load(sp, A)
    B = copy.deepcopy(A)
    B.data[:] = 1
    return B @ np.ones(400), A @ np.ones(400)


@short(lambda: {"model": {"A": scattered(300, 300, 0.03), "b": vector(300)}})
def deep_copy_of_dict(sp: Any, model: Any) -> Any:
    """Copy a dict that holds a matrix."""
    model = {"A": load(sp, model["A"]), "b": model["b"]}
    other = copy.deepcopy(model)
    return other["A"] @ other["b"]


@short(lambda: {"A": scattered(500, 400, 0.02)})
def pickling(sp: Any, A: Any) -> Any:
    """Pickle a matrix, load it and multiply."""
    A = load(sp, A)
    B = pickle.loads(pickle.dumps(A))  # noqa: S301 (written here)
    return B @ np.ones(400)


@short(lambda: {"A": scattered(300, 300, 0.03)})
def pickled_pieces(sp: Any, A: Any) -> Any:
    """Pickle slices of a matrix, as pools of processes do."""
    A = load(sp, A)
    parts = [pickle.dumps(A[i : i + 30]) for i in range(0, 300, 30)]
    return np.concatenate([pickle.loads(part) @ np.ones(300) for part in parts])  # noqa: S301


@short(lambda: {"A": scattered(500, 400, 0.02)})
def npz(sp: Any, A: Any) -> Any:
    """Save a matrix as .npz and load it."""
    A, stream = load(sp, A), io.BytesIO()
    sp.save_npz(stream, A, compressed=False)
    stream.seek(0)
    return sp.load_npz(stream) @ np.ones(400)


@short(lambda: {"A": scattered(500, 400, 0.02, dtype="int64")})
def integers(sp: Any, A: Any) -> Any:
    """Multiply integers, and convert them to floats."""
    A = load(sp, A)
    return A @ np.arange(400), A.astype(float) @ np.ones(400), A.astype("float32").sum()


@short(lambda: {"A": scattered(500, 400, 0.02)})
def to_single(sp: Any, A: Any) -> Any:
    """Convert to float32 while the matrix is made."""
    A = sp.csr(A, dtype=np.float32) if is_ours(sp) else sp.csr_array(A, dtype=np.float32)
    return A @ np.ones(400, np.float32)


@short(lambda: {"A": scattered(500, 400, 0.02)})
def constructor_dtype(sp: Any, A: Any) -> Any:
    """Convert by the dtype of a constructor."""
    A = sp.csr_array(A, dtype="float32")
    return A.dot(np.ones(400, np.float32)), A.astype(np.float64).sum()


@short(lambda: {"A": scattered(300, 300, 0.03)})
def list_operand(sp: Any, A: Any) -> Any:
    """Multiply by a list."""
    return load(sp, A) @ ([1.0, 2.0, 3.0] * 100)


@short(lambda: {"A": grid(20, 20)})
def list_operand_dot(sp: Any, A: Any) -> Any:
    """Multiply by lists through dot, ten times."""
    A, x = load(sp, A), [1.0] * 400
    for _ in range(10):
        x = (A.dot(x) / 8).tolist()
    return np.array(x)


@short(lambda: {"entries": coo(300, 300, 4000)})
def duplicates(sp: Any, entries: Any) -> Any:
    """Sum duplicates and sort indices."""
    values, rows, cols = entries
    A = sp.coo_array((values, (rows, cols)), shape=(300, 300)).tocsc().tocsr()
    A.sum_duplicates()
    A.sort_indices()
    return A.nnz, A.indices, A.data


@short(lambda: {"A": scattered(400, 300, 0.03)})
def repeated_load(sp: Any, A: Any) -> Any:
    """Convert inside a function that is called ten times."""

    def score(m: Any, x: Any) -> Any:
        return load(sp, m) @ x

    return sum(score(A, np.full(300, k)) for k in range(10))


@short(lambda: {"A": scattered(400, 300, 0.03)})
def attributes(sp: Any, A: Any) -> Any:
    """Read attributes, print a matrix and test its type."""
    A = load(sp, A)
    assert sp.issparse(A)
    assert A.format == "csr"
    text = f"{A!r} {A}"
    return A.shape, A.nnz, A.dtype.itemsize, len(text) > 100, A.has_sorted_indices, A.size


@short(lambda: {"A": scattered(400, 300, 0.03)})
def reshaping(sp: Any, A: Any) -> Any:
    """Reshape and transpose."""
    A = load(sp, A)
    return A.reshape((300, 400)).tocsr().sum(axis=0), A.T.tocsr() @ np.ones(400), A.transpose().sum(axis=1)


@short(lambda: {"A": scattered(100, 100, 0.1)})
def conjugates(sp: Any, A: Any) -> Any:
    """Compute with a complex matrix and its adjoint."""
    A = load(sp, A).astype(complex)
    A.data += 0.5j
    H = (A + A.conj().T) / 2
    return H.real.sum(axis=0), dense(H @ H).imag, H @ np.ones(100)
