"""Tests of products of light matrices that are called from C, which solvers need to iterate without Python."""

from __future__ import annotations

from typing import Final

import pytest
from autosparse._native import python_objects

from tests.light.test_light import printed
from tests.light.test_own_solves import OWN

pytestmark = pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
CALL: Final = f"""{OWN}
from autosparse.linalg.operators import fast_call_of
A, out = asp.csr(S), np.zeros(30)
def made():
    return fast_call_of(A, b, out)
def serves(call):
    out[:] = 0
    return call[0](*call[1:]) and bool(np.allclose(out, A_ @ b))
A_ = S.copy()
"""


@pytest.mark.parametrize("name", ["bicgstab", "cg", "minres"])
def test_iterations_of_light_matrices_run_in_the_extension(name):
    lines = f"""
from autosparse._native import python_objects
advance, done = python_objects.advance_{name}, []
def counted(*args):
    found = advance(*args)
    done.append(found[0])
    return found
python_objects.advance_{name} = counted
print(json.dumps([both("{name}", S, b, rtol=1e-9), sum(done) > 0, light.is_complete]))
"""
    assert printed(OWN + lines) == [True, True, False]


@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize("code", ["f", "d", "F", "D"])
def test_calls_serve_matrices_by_rows_and_by_columns(fmt, code):
    lines = f"""
A_ = A_.astype("{code}")
A, b, out = asp.{fmt}(A_), b.astype("{code}"), out.astype("{code}")
print(json.dumps([serves(made()), light.is_complete]))
"""
    assert printed(CALL + lines) == [True, False]


@pytest.mark.parametrize(
    "change",
    ["A.indices", "A.indptr", "A.T.indices", "A.indices = A.indices.copy()", "A.data = A.data * 2", "light.complete()"],
)
def test_calls_end_where_arrays_may_change(change):
    assert printed(f"{CALL}call = made()\n{change}\nprint(json.dumps([call[0](*call[1:])]))") == [False]


def test_no_call_is_made_after_an_index_array_was_exported():
    assert printed(f"{CALL}A.indices\nprint(json.dumps([made()]))") == [None]


def test_no_call_is_made_while_another_thread_exports_an_index_array():
    lines = """
from autosparse.light import native
made_before = native._comparable
def exported_meanwhile(rows):
    A.indices
    return made_before(rows)
native._comparable = exported_meanwhile
print(json.dumps([made()]))
"""
    assert printed(CALL + lines) == [None]


def test_written_values_are_read():
    assert printed(f"{CALL}call = made()\nA.data[:] *= 2\nA_.data *= 2\nprint(json.dumps([serves(call)]))") == [True]


def test_values_in_fewer_elements_are_not_read():
    lines = "call, values = made(), A.data\nvalues.resize(3, refcheck=False)\nprint(json.dumps([call[0](*call[1:])]))"
    assert printed(CALL + lines) == [False]


@pytest.mark.parametrize("other", ["b.astype('f')", "b[:29]", "np.stack([b, b], 1)", "b.tolist()"])
def test_calls_refuse_operands_that_do_not_fit(other):
    lines = f"call = made()\nprint(json.dumps([call[0](call[1], {other}, *call[3:])]))"
    assert printed(CALL + lines) == [False]


def test_products_count_towards_loading():
    lines = """
for _ in range(50):
    call = made()
    call[0](*call[1:])
made()
print(json.dumps([light._spent_ns > 0, A._light.n_products]))
"""
    assert printed(CALL + lines) == [True, 50]


def test_calls_end_when_the_library_is_due():
    lines = "light.LOADING_NS = light._spent_ns + 1\ncall = made()\nfound = call[0](*call[1:])\nlight._spent_ns += 9\n"
    assert printed(f"{CALL}{lines}print(json.dumps([found, made()]))") == [True, None]


def test_matrices_are_freed():
    lines = """
import weakref
call, rows = made(), A._light
gone = weakref.ref(A)
def references():
    return [sys.getrefcount(one) for one in rows.arrays]
before = references()
del call, A
rows.export()
print(json.dumps([gone() is None, all(now < n for now, n in zip(references(), before))]))
"""
    assert printed(CALL + lines) == [True, True]
