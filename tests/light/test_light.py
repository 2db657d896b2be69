"""Tests of light matrices, in fresh processes: what they load, what they answer, and how they become complete."""

from __future__ import annotations

import json
import os
import types
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse import light
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.interop import neighbours
from autosparse.light import adoption, matrices
from tests.light.answers import COMPLETES, NEEDS_NEW_SCIPY, STAYS_LIGHT
from tests.processes import run_with

HEAD: Final = """
import json, sys
import numpy as np, scipy.sparse as sps
import autosparse as asp
from autosparse import light
light.LOADING_NS = {loading_ns}
m = sps.random_array((40, 30), density=0.2, format="csr", random_state=np.random.default_rng(0))
m.indices, m.indptr = m.indices.astype(np.int32), m.indptr.astype(np.int32)  # SciPy 1.13 makes int64
x, y, X = np.arange(30.0), np.arange(40.0), np.arange(90.0).reshape(30, 3)
A, B = asp.csr(m), m[:30, :30]
"""
NEVER_NS: Final = 1 << 62


def run(lines: str, *, loading_ns: int = NEVER_NS, **environment: str) -> str:
    """Return what a process prints that has imported SciPy, and whose environment sets no option but `environment`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AUTOSPARSE_")}
    kept["AUTOSPARSE_CACHE_DIR"] = os.environ.get("AUTOSPARSE_CACHE_DIR", "")
    code = HEAD.format(loading_ns=loading_ns) + lines
    done = run_with("scipy.sparse", code, environment=kept | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


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


@pytest.mark.parametrize("holder", ["", "part = C.indices[:2]", "whole = C._light.arrays[1].base"])
def test_a_sum_that_is_a_part_of_its_memory_is_checked_once_unless_other_code_holds_it(holder):
    """SciPy's sums are the first parts of arrays with room for the entries of both matrices."""
    lines = f"""
C, counts = A + asp.csr(m).astype(np.float32), [0]
assert C._light.arrays[1].base is not None
C.indices, C.indptr
{holder}
found = light.is_sound
def counted(*given):
    counts[0] += 1
    return found(*given)
light.adoption.light.is_sound = counted
for _ in range(5):
    C @ x
print(json.dumps([counts[0] > 1]))
"""
    assert printed(lines) == [bool(holder)]


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
    text = Path(neighbours.__file__).read_text(encoding="utf-8")  # of an installed copy, too
    assert all(f'"{name}": ' in text for name in light.NEIGHBOURS)


def test_every_public_attribute_of_complete_matrices_is_answered():
    own = {name for name in dir(AutoSparseMatrix) if not name.startswith("_")}
    answered = set(dir(matrices.Light)) | set(dir(sps.csr_array))
    assert own - answered == set()


def test_help_describes_methods_before_the_library_is_loaded():
    """`help` reads a class. Its light attributes had no signature and no text until a matrix had loaded the library."""
    lines = """
import pydoc
class Own(asp.csr_array):
    pass
shown = [pydoc.render_doc(kind, renderer=pydoc.plaintext) for kind in (Own, asp.csc_matrix)]
heads = "tune(self, operation", "explain(self, B", "to_scipy(self)", "Return whether the matrix owns", "Plain SciPy"
print([head for text in shown for head in heads if head not in text], asp.csr_array.tune.__doc__[:6])
print(matrices.Light.tune.__get__(None, matrices.Light) is matrices.Light.tune)
"""
    assert run(f"from autosparse.light import matrices\n{lines}") == "[] Search\nTrue"


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


def test_new_items_are_those_of_both_constructors(monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy 1.13 gives the base of its classes maxprint alone, later versions the constructor's argument first."""

    class Base:
        def __init__(self, maxprint: int = 50) -> None:
            self._shape, self.maxprint = None, maxprint

    class Later:
        def __init__(self, arg1: object, *, maxprint: int | None = None) -> None:
            self._shape, self.maxprint = arg1, 50 if maxprint is None else maxprint

    for base in (Base, Later):
        monkeypatch.setattr(adoption, "sps", types.SimpleNamespace(csr_array=type("csr_array", (base,), {})))
        assert adoption._new_items() == (("maxprint", 50),)
