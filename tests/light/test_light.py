"""Tests of light matrices, in fresh processes: what they load, what they answer, and how they become complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse import light
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.interop import neighbours
from autosparse.light import matrices
from tests.conftest import REPOSITORY

HEAD: Final = """
import json, sys
import numpy as np, scipy.sparse as sps
import autosparse as asp
from autosparse import light
light.LOADING_NS = {loading_ns}
m = sps.random_array((40, 30), density=0.2, format="csr", random_state=np.random.default_rng(0))
x, y, X = np.arange(30.0), np.arange(40.0), np.arange(90.0).reshape(30, 3)
A, B = asp.csr(m), m[:30, :30]
"""
NEVER_NS: Final = 1 << 62


def run(lines: str, *, loading_ns: int = NEVER_NS, **environment: str) -> str:
    """Return what a fresh process prints whose environment sets no option besides `environment`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AUTOSPARSE_")}
    kept["AUTOSPARSE_CACHE_DIR"] = os.environ.get("AUTOSPARSE_CACHE_DIR", "")
    done = subprocess.run(
        [sys.executable, "-c", HEAD.format(loading_ns=loading_ns) + lines], env=kept | environment,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


STAYS_LIGHT: Final = (
    "A @ x", "A.dot(x)", "A @ X", "A @ X[:, :1]", "A @ np.asfortranarray(X)", "A @ x.astype(np.float32)", "y @ A",
    "A.T @ y", "A.T @ np.ones((40, 2))", "X.T @ A.T", "A @ x[::-1]", "A @ np.arange(30)", "A @ (x + 1j)",
    "A @ A.T", "A.T @ A", "A @ m.T", "A @ sps.diags_array(x)", "A @ sps.eye_array(30)", "A @ np.ones((30, 0))",
    "A + A", "A - 2 * A", "A.multiply(A)", "A.multiply(x)", "-A", "A / 2", "abs(A)", "A > 0.5", "A != A", "A.power(2)",
    "A + sps.csr_array(m)", "A[3]", "A[[1, 2]]", "A[2:9]", "A[:, 4]", "A[:, 3:9]", "A[2, 3]", "A[y > 5][:, x > 3]",
    "asp.linalg.norm(A)", "asp.linalg.onenormest(A[:30])", "asp.linalg.aslinearoperator(A).matvec(x)",
    "asp.linalg.factorized((A[:30] + 9 * sps.eye_array(30)).tocsc())(x)",
    "A.sum()", "A.sum(axis=0)", "A.sum(axis=1)", "A.mean(axis=0)", "A.max(axis=1)", "A.min()", "A.argmax(axis=0)",
    "A.diagonal()", "A.trace()", "A.count_nonzero()", "A.toarray()", "A.todense()", "A.nonzero()", "A.copy()",
    "A.astype(np.float32)", "A.astype(int) @ x", "A.astype(bool) @ A.T.astype(bool)", "A.conj().T", "A.tocsc()",
    "A.tocsr()", "A.T.tocsr()", "A.tocoo()", "A.T.T", "A.nnz", "A.shape", "A.dtype", "A.data", "A.indices", "A.indptr",
    "A.format", "A.has_sorted_indices", "sps.vstack([A, A])", "sps.kron(A, A)", "sps.tril(A)", "sps.issparse(A)",
    "sps.diags_array(y) @ A", "repr(A)", "A.reshape(30, 40)", "asp.csr(sps.csr_matrix(m)) * x",
    "asp.csc(sps.csc_matrix(m)) * X", "asp.csc(sps.csc_array(m)) @ x", "asp.csr(m.astype(int)) @ x",
    "asp.csr(m.astype(np.complex64)) @ x",
    "asp.csr((m.data, m.indices, m.indptr), shape=m.shape) @ x", "asp.csc((m.data, m.indices, m.indptr), (30, 40)) @ y",
    "asp.csr(sps.csr_matrix(m)).getrow(2)", "m + A", "m - A", "m @ A.T.tocsr()", "m * A", "A.tolil()", "A.todok()",
    "A.todia()", "A.tobsr()", "A.tolil().tocsr()", "type(A)(m, copy=True)", "asp.csr(A)", "asp.csr(A) @ x",
    "asp.csc(A.T) @ y", "A.argmax(axis=1)", "unsorted().argmax(axis=1)",
    "unsorted().argmax(axis=0)", "A * 2", "3.0 * A", "asp.csr(sps.csr_matrix(m)) * 2",
    "2j * asp.csr(sps.csr_matrix(m))",
    "pickle.loads(pickle.dumps(A)) @ x", "pickle.loads(pickle.dumps(A.T)) @ y", "pickle.loads(pickle.dumps(A, 2)).data",
    "pickle.loads(pickle.dumps(asp.csr(sps.csr_matrix(m)))) * x", "pickle.loads(pickle.dumps(A[:, 3:9]))[4]",
    *(f"asp.{fmt}(m.to{other}())" for fmt in ("csr", "csc") for other in ("coo", "dia", "bsr", "lil", "dok", "array")),
    "asp.csr(m.tocsc())", "asp.csc(m)", "asp.csr(m.T) @ y", "asp.csr(sps.coo_matrix(m)) * x", "asp.csr(A.tocoo())",
    "asp.csr(A.T)", "asp.csr(m.toarray().tolist())", "asp.csr([[0, 1], [2, 0]])", "asp.csr((m.data, m.nonzero()))",
    "asp.csr((m.data[:3], (m.indices[:3], np.array([2, 2, 1], np.int32))), shape=(50, 3))",
    "asp.csr(m.toarray()).argmax(axis=1)", "asp.csr_array(m)", "asp.csr_array((5, 4))",
    "asp.csc_matrix(m.toarray()) * x",
    "asp.csr_array((m.data, m.nonzero()), shape=m.shape) @ x", "asp.csr_matrix((m.data, m.nonzero())) * x",
    "asp.csr_array((m.data, m.indices, m.indptr), shape=m.shape) @ x", "asp.csr_array(m.tolil())",
    "A @ list(x)", "A.dot(X.tolist())", "A @ ([[1]] * 30)", "asp.csr_matrix(m) * x.tolist()",
    "A @ np.matrix(x).T", "asp.csr_matrix(m) @ np.matrix(X)", "np.matrix(y) @ asp.csc_matrix(m)",
    "asp.csr_matrix(m).sum(axis=0)", "asp.csr_matrix(m > 0.5).sum(axis=0)", "asp.csr_matrix(A)",
    "asp.csr_matrix(A) + A", "asp.csr_array(asp.csr_matrix(m)) @ x", "A @ asp.csr_matrix(m.T)",
    "sps.dia_matrix(sps.eye(40)) @ A",
    "copy.copy(A)", "copy.copy(A) @ x", "copy.copy(A.T).data", "copy.deepcopy(A)", "copy.deepcopy(A.T) @ y",
    "copy.deepcopy({0: A, 1: A})[1] @ x", "copy.copy(asp.csr_matrix(m)) * x",
    "tuple(one.max() for one in asp.csr_matrix(m))", "asp.csr(m, dtype=np.float32)",
    "asp.csr(m, dtype='complex128') @ x", "asp.csr(m, dtype=float)",
    "asp.csr(m > 0.5, dtype=np.int8) @ x", "asp.csr_array(m, dtype=np.float32)", "asp.csc(m.toarray(), dtype='f4')",
    "asp.csr_array((m.data, m.indices, m.indptr), shape=m.shape, dtype=np.complex64)",
    "asp.csc_matrix((m.data, m.nonzero()), dtype=complex)",
    "asp.csr(([1.0, 2.0, 4.0], ([1, 1, 0], [2, 2, 1])), shape=(3, 3))", "asp.csr_matrix(([1, 2], ([0, 1], [1, 0])))",
    "asp.csr_matrix(([1, 2], ([0, 1], [1, 0])), dtype=float)", "asp.csr(([True, True], ([0, 1], [1, 0])))",
    "asp.einsum('ij,jk->ik', A, X)", "asp.einsum('q w, w -> q', asp.csc(m), x)", "asp.einsum('ij,i->j', A, y)",
    "asp.einsum('ij,ik->jk', asp.csr_matrix(m), np.ones((40, 2)))", "asp.einsum('i,ij,j->', y, A, x)",
    "asp.einsum('ij,ij->i', A, A / 2)", "asp.einsum('ij,ij->', A, asp.csr_matrix(m))",
    "asp.einsum('ii->', asp.csr(m.T @ m))", "asp.einsum('ij,jk->ik', A, A.T)", "asp.einsum('i,ij->j', y, A)",
    "asp.einsum('ij,kj->ik', A, A)", "asp.einsum('ij,ik->jk', A, asp.csc(m))", "asp.einsum('ij,kj->ik', A, X.T)",
    "asp.einsum('ij,ij->ij', A, asp.csr_matrix(m))", "asp.einsum('ij,ij,ij->ij', A, A / 2, asp.csc(m))",
    "asp.einsum('ij,ik,kj->ij', asp.csr(B), asp.csr(B), asp.csr(B))", "asp.einsum('ij,jk,ki->', A, A.T @ A, A.T)",
    "asp.einsum('ij,jk,ik->', A, A.T @ A, A)", "asp.einsum('i,ij->ij', y, A)", "asp.einsum('ij,j->ij', A, x)",
    "asp.einsum('ij->ji', A)", "asp.einsum('ij->ji', unsorted())", "asp.einsum('ij->i', A)", "asp.einsum('ij->j', A)",
    "asp.einsum('ij->', A)", "asp.einsum('ii->i', asp.csr(B))", "asp.einsum('ij,i->ij', asp.csc_matrix(m), (y + 1) * np.inf)",
    "asp.csr_array((m.data, (m.nonzero()[0].tolist(), m.nonzero()[1].astype(np.int32))), shape=m.shape).indices",
)  # fmt: skip
COMPLETES: Final = (
    "str(A.explain())", "A.base", "A.to_scipy()", "A.owns_arrays", "next(iter(A))", "vars(A)['data']",
    "A._repr_html_()[:6]",
    "asp.einsum('ij,jk->ik', A, X, dtype=complex)", "asp.einsum('ij,ij->ij', A, A * np.inf)",
    "asp.einsum('ij,jk,ki->', A, asp.csc(m.T) * np.inf, asp.csr(m @ m.T))", "asp.einsum('ij,ij', A, A)",
    "asp.einsum('ij->', asp.csr((0, 3)))",
    "asp.einsum('ij,j->i', A, x.astype(int))", "asp.einsum('i,ij,j->', y + 1, A, (x + 1) * np.inf)",
    "raised(lambda: asp.einsum('ii->', A))",
    "raised(lambda: asp.einsum('ij,j->i', A, y))", "raised(lambda: asp.einsum('ij,jk->i', A, x))",
    "unsorted().T.argmin(axis=0)", "asp.csr(m, dtype=int)", "asp.csr(m, dtype=np.longdouble)",
    "asp.csr(m, copy=False)", "asp.matmul(A, x)",
    *(f"{one}.owns_arrays" for one in (
        "asp.csr(m.tocoo())", "asp.csr(m.tocsc())", "asp.csr(m.toarray())", "asp.csr((m.data, m.nonzero()))",
        "asp.csr_array(m)", "asp.csr_array(m.toarray())", "pickle.loads(pickle.dumps(A))",
    )),
    *(f"raised(lambda: {one})" for one in (
        "asp.csr(([1.0], ([9], [0])), shape=(3, 3))", "asp.csr([[1.0], [2.0, 3.0]])", "asp.csr([['a']])",
        "A @ [list(x), 1]", "A @ [1.0]", "A @ ['a'] * 30", "asp.csr(m, dtype='no dtype')", "asp.csr(m, dtype=object)",
        "asp.csr([])", "asp.csr(['ab', 'c'])", "asp.csr([[1.0, None]])", "asp.csr([m, m])",
        "asp.csr(np.ones((2, 2, 2)))", "asp.csr_array(([1.0], ([0, 1], [0])))", "'2' * asp.csr(sps.csr_matrix(m))",
    )),
)  # fmt: skip
NEEDS_NEW_SCIPY: Final = frozenset() if hasattr(sps, "get_index_dtype") else frozenset({
    "A[3]", "A[:, 4]", "asp.csr(sps.csr_matrix(m)) * x", "asp.csc(sps.csc_matrix(m)) * X",
    "asp.csr(sps.csr_matrix(m)).getrow(2)", "next(iter(A))", "asp.csr(sps.csr_matrix(m)) * 2",
    "2j * asp.csr(sps.csr_matrix(m))", "pickle.loads(pickle.dumps(asp.csr(sps.csr_matrix(m)))) * x",
    "pickle.loads(pickle.dumps(A[:, 3:9]))[4]",
    "asp.csr((m.data[:3], (m.indices[:3], np.array([2, 2, 1], np.int32))), shape=(50, 3))",
    "raised(lambda: asp.csr(['ab', 'c']))",
})  # fmt: skip
"""Expressions that SciPy before 1.15 refuses, or that load the library with that SciPy alone, or without it alone."""

COMPARE: Final = """
import copy, os, pickle
def facts(made):
    if isinstance(made, tuple):
        return [facts(one) for one in made]
    kind = type(made).__module__ + "." + type(made).__name__
    if sps.issparse(made):
        return [kind, made.dtype.str, list(made.shape), made.nnz, made.toarray().ravel()]
    if isinstance(made, np.ndarray):
        return [kind, made.dtype.str, list(made.shape), np.asarray(made).ravel()]
    return [kind, made if np.isscalar(made) else str(made)]
def same(one, other):
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (np.ndarray, np.number, float)):
        return np.allclose(one, other)
    return one == other
def unsorted():
    return asp.csr((np.array([1.0, 3.0, 2.0, 2.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 2, 4])), shape=(3, 3))
def raised(make):
    try:
        return make()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
answers = {}
for one in expressions:
    reading, writing = os.pipe()
    if os.fork() == 0:
        answer = facts(eval(one)), not light.is_complete
        with open(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answers[one] = pickle.loads(pipe.read())
    os.wait()
stayed = [one for one, (_, is_light) in answers.items() if is_light]
light.complete()
A = asp.csr(m)
print(json.dumps([stayed, [one for one, (answer, _) in answers.items() if not same(answer, facts(eval(one)))]]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(("expressions", "stay"), [(STAYS_LIGHT, STAYS_LIGHT), (COMPLETES, ())])
def test_light_matrices_answer_as_complete_ones(expressions, stay):
    expressions = [one for one in expressions if one not in NEEDS_NEW_SCIPY]
    stayed, differing = json.loads(run(f"expressions = {list(expressions)!r}{COMPARE}"))
    assert [one for one in expressions if one not in stayed] == [one for one in expressions if one not in stay]
    assert differing == []


def printed(lines: str, **environment: str) -> Any:
    """Return the JSON that a fresh process prints."""
    return json.loads(run(lines, **environment))


KERNEL_PRODUCTS: Final = (
    "A @ x", "A.T @ y", "A @ X", "y @ A", "A.T @ np.ones((40, 2))", "A @ np.asfortranarray(X)", "A @ x[::-1]",
    "A @ X[:, 1:2]", "X.T @ A.T", "A[:0] @ x", "A[:, :0] @ x[:0]", "A @ np.ones((30, 0))", "A[2:30] @ x", "A.dot(X)",
    "asp.csr(m.astype(np.float32)) @ x.astype(np.float32)", "asp.csr(m.astype(complex)) @ (x + 1j)",
    "asp.csr(m.astype(np.complex64)).T @ y.astype(np.complex64)", "asp.csc(sps.csc_matrix(m)) * X",
    "asp.csr(m.astype(int)) @ np.arange(30)",
    "asp.csr((m.data, m.indices.astype(np.int64), m.indptr.astype(np.int64)), shape=m.shape) @ X",
)  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_kernels_of_the_runtime_answer_as_complete_matrices():
    products = [one for one in KERNEL_PRODUCTS if one not in NEEDS_NEW_SCIPY]
    lines = f"light.RUNTIME_NS = light.MIN_TERMS = 0\nexpressions = {products!r}{COMPARE}"
    stayed, differing = json.loads(run(lines))
    assert (stayed, differing) == (products, [])


def test_index_arrays_are_checked_once_after_methods_of_scipy_fetched_them():
    lines = """
n, is_sound = 0, light.is_sound
def counted(*given):
    global n
    n += 1
    return is_sound(*given)
light.is_sound = counted
S = asp.csr(m)
counts = [n]
for _ in range(3):
    A.sum(axis=1), A.max(axis=1), A.toarray()
    for _ in range(4):
        A @ x, A.T @ y, A @ A.T, A @ S.T, A[2:4]
    counts.append(n)
print(json.dumps(counts))
"""
    assert printed(lines) == [1, 2, 3, 4]  # S in the constructor, then A once in each round


def test_matrices_stay_the_same_objects_of_the_same_classes():
    lines = """
T, kind, S = A.T, type(A), A[3:9]
class Own(kind): pass
own = Own(m)
light.complete()
from autosparse.arrays.family import AutoSparseMatrix
print(json.dumps([
    kind is type(A) is asp.csr_array, type(T) is asp.csc_array, T._cell is A._cell, S._cell is not A._cell,
    isinstance(A, AutoSparseMatrix), issubclass(Own, AutoSparseMatrix), bool(np.allclose(own @ x, m @ x)),
    bool(np.allclose(A @ x, m @ x)), bool(np.allclose(S @ x, m[3:9] @ x)), A.owns_arrays, not light.alive,
]))
"""
    assert printed(lines) == [True] * 11


def test_a_write_to_the_source_is_never_seen():
    lines = "m.data[:] = 0\nbefore = A @ x\nlight.complete()\nprint(bool(before.any() and (A @ x).any()))"
    assert run(lines) == "True"


def test_writes_to_the_matrix_are_seen_before_and_after():
    lines = """
values, indices = A.data, A.indices
values[:] = 2.0
seen = [A @ x]
A.data = np.full(A.nnz, 3.0)
seen.append(A @ x)
light.complete()
seen.append(A @ x)
A.data[:] = 5.0
seen.append(A @ x)
unit = asp.csr(m.astype(bool).astype(float)) @ x
print(json.dumps([bool(np.allclose(one, n * unit)) for n, one in zip((2, 3, 3, 5), seen)]))
"""
    assert printed(lines) == [True] * 4


@pytest.mark.parametrize("completes", ["", "light.complete()"])
def test_indices_out_of_bounds_raise_though_they_were_fetched_before(completes):
    lines = f"""
held = A.indices
A @ x
{completes}
A @ x
held[0] = 1 << 30
try:
    A @ x
except ValueError as error:
    print(type(error).__name__)
"""
    assert run(lines) == "StructureError"


@pytest.mark.parametrize("product", ["A @ x", "A @ A.T", "A + A", "A[2:4] @ x", "A * 2.0"])
def test_indices_are_checked_after_their_holder_wrote_and_let_go(product):
    """A check while other code holds the indices says nothing about later products, which would read out of bounds."""
    lines = f"""
held = A.indices
A @ x, {product}
held[:] = 1 << 30
del held
try:
    A @ x
except ValueError as error:
    print(type(error).__name__)
"""
    assert run(lines) == "StructureError"


def test_sums_with_unsound_operands_are_checked() -> None:
    lines = """
unsound = asp.csr(m)
A.has_canonical_format, unsound.has_canonical_format, A @ x
unsound.indices[-1] = 1 << 30
try:
    (A + unsound) @ x
except ValueError as error:
    print(type(error).__name__)
"""
    assert run(lines) == "StructureError"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("A @ y", "ShapeError"),
        ("y @ A.T", "ShapeError"),
        ("A @ 2.0", "ValueError"),
        ("A @ np.ones((2, 2, 2))", "ValueError"),
        ("asp.csr((m.data, m.indices + 1, m.indptr), shape=m.shape)", "StructureError"),
        ("asp.csr((m.data, m.indices[1:], m.indptr), shape=m.shape)", "InputError"),
    ],
)
def test_errors_are_those_of_complete_matrices(call, name):
    lines = f"""
def text():
    try:
        {call}
    except ValueError as error:
        return [type(error).__name__, str(error)]
first = text()
light.complete()
print(json.dumps([first, text()]))
"""
    first, later = printed(lines)
    assert first == later
    assert first[0] == name


def test_threads_multiply_while_the_library_is_loaded():
    lines = """
import threading
wrong, n_threads = [], 6
def work(k):
    for n in range(300):
        B = asp.csr(m)
        if not (np.allclose(B @ x, m @ x) and np.allclose(B.T @ y, m.T @ y) and B[2:7].nnz == m[2:7].nnz):
            wrong.append(k)
        if k == 0 and n == 20:
            light.complete()
threads = [threading.Thread(target=work, args=(k,)) for k in range(n_threads)]
for one in threads: one.start()
for one in threads: one.join()
print(json.dumps([wrong, light.is_complete]))
"""
    assert printed(lines) == [[], True]


def test_products_continue_where_files_cannot_be_read():
    lines = """
class NoFiles:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("autosparse"):
            raise OSError(24, "Too many open files")
sys.meta_path.insert(0, NoFiles())
light.LOADING_NS = 0
print(json.dumps([bool((A @ x == m @ x).all()), A[2:4].nnz == m[2:4].nnz, light.is_complete]))
"""
    assert printed(lines) == [True, True, False]


def test_neighbours_are_the_libraries_that_register_complete_classes():
    assert set(light.NEIGHBOURS) >= set(neighbours.PENDING)
    text = (REPOSITORY / "autosparse" / "interop" / "neighbours.py").read_text(encoding="utf-8")
    assert all(f'"{name}": ' in text for name in light.NEIGHBOURS)


def test_every_public_attribute_of_complete_matrices_is_answered():
    own = {name for name in dir(AutoSparseMatrix) if not name.startswith("_")}
    answered = set(dir(matrices.Light)) | set(dir(sps.csr_array))
    assert own - answered == set()


def test_after_completion_light_methods_are_gone():
    assert matrices.Light not in asp.csr_array.__mro__
    assert asp.csr_matrix.__mro__.index(AutoSparseMatrix) < asp.csr_matrix.__mro__.index(sps.csr_matrix)
    assert np.allclose(asp.csr(sps.eye_array(3, format="csr")) @ np.ones(3), 1.0)


def test_a_transpose_keeps_its_values_when_others_are_assigned():
    lines = """
T = A.T
before = T @ y
A.data = np.zeros(A.nnz)
print(json.dumps([bool(np.allclose(T @ y, before)), float(abs(A @ x).max())]))
"""
    assert printed(lines) == [True, 0.0]
