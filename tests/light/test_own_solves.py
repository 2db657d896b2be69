"""Tests of first solves by autosparse's own loops: SciPy's answers and errors, while matrices stay light."""

from __future__ import annotations

from typing import Final

import pytest
from autosparse._native import runtime_api

from tests.light.test_light import printed
from tests.light.test_solves import SETTING
from tests.scipy_versions import needs_recent

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")
OWN: Final = f"{SETTING}solves.MAX_ENTRIES = solves.MAX_ROWS = solves.MAX_SERIES = -1\n"
SQUARE: Final = ("bicgstab", "cg", "cgs", "gmres", "minres", "qmr")
CALLS: Final = {
    **{name: f"both('{name}', S, b, rtol=1e-9)" for name in SQUARE},
    "complex": "all(both(name, S * (1 + 0.1j), b * 1j, rtol=1e-9) for name in ('bicgstab', 'gmres', 'cgs'))",
    "complex b": "both('bicgstab', S, b + 1j, rtol=1e-9)",
    "transposed": "same(asp.linalg.cg(asp.csr(S).T, b, rtol=1e-9), sla.cg(S, b, rtol=1e-9))",
    "float32": "same(asp.linalg.cg(asp.csr(S.astype('f')), b.astype('f')), sla.cg(S.astype('f'), b.astype('f')))",
    "csc": "same(asp.linalg.minres(asp.csc(S), b, rtol=1e-9), sla.minres(S, b, rtol=1e-9))",
    "diagonal M": "both('cg', S, b, M=sps.diags_array(1 / S.diagonal()), rtol=1e-9)",
    "matrix M": "both('cg', S, b, M=sps.eye_array(30, format='csr'), rtol=1e-9)",
    "operator M": "both('minres', S, b, M=sla.LinearOperator(S.shape, lambda r: r / S.diagonal()), rtol=1e-9)",
    "guess": "both('cg', S, b, b * 0.1, rtol=1e-9)",
    "few iterations": "asp.linalg.cg(asp.csr(S), b, maxiter=2)[1] == 2 == sla.cg(S, b, maxiter=2)[1]",
    "zero": "both('cg', S, 0 * b)",
    "operator A": "same(asp.linalg.cg(sla.aslinearoperator(asp.csr(S)), b, rtol=1e-9), sla.cg(S, b, rtol=1e-9))",
    **{name: f"both('{name}', m, np.ones(40))" for name in ("lsmr", "lsqr")},
    "guess of lsqr": "both('lsqr', m, np.ones(40), x0=x, damp=0.1, atol=1e-12, btol=1e-12)",
    **{name: f"both('{name}', S, 2, v0=b)" for name in ("eigs", "eigsh")},
    "shift-invert": "both('eigsh', S, 2, sigma=0.5, v0=b)",
    "svds": "both('svds', m, 2, v0=x)",
    "expm_multiply": "both('expm_multiply', S / 50, b)",
    "expm_multiply at times": "both('expm_multiply', S / 50, b, start=0.0, stop=1.0, num=3)",
    "expm_multiply of columns": "both('expm_multiply', S / 50, np.stack([b, b**2], 1))",
}


@pytest.mark.parametrize("call", CALLS)
def test_own_loops_need_no_library(call):
    assert printed(f"{OWN}print(json.dumps([{CALLS[call]}, light.is_complete, has_own()]))") == [True, False, True]


MAX_MODULES: Final = 27
"""Maximum number of modules of a program that solves by an own loop; every program loads 7. It may only fall."""


@pytest.mark.parametrize("name", ["bicgstab", "cg", "minres"])
def test_own_loops_load_few_modules(name):
    lines = f"""
asp.linalg.{name}(asp.csr(S), b)
names = [key for key, one in sys.modules.items() if key.startswith("autosparse") and one.__name__ == key]
print(json.dumps(len(names)))
"""
    assert printed(OWN + lines) <= MAX_MODULES


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("cg(A, b[:29])", "ValueError"), ("cg(asp.csr(m), b)", "ValueError"),
        pytest.param("cg(A, b, atol=-1.0)", "ValueError", marks=needs_recent),
        ("cg(A, b, M=sps.eye_array(29))", "ValueError"), ("cg(A, b, b[:3])", "ValueError"), ("cg(A)", "TypeError"),
        ("minres(A, b, maxiter='a')", "TypeError"), ("gmres(A, b, callback_type='a')", "ValueError"),
    ],
)  # fmt: skip
def test_wrong_arguments_raise_what_scipy_raises(call, error):
    lines = f"""
def raised(linalg, A, m):
    try:
        linalg.{call}
    except Exception as error:
        return type(error).__name__
A = asp.csr(S)
found = [raised(asp.linalg, A, m)]
A, asp.csr = S, lambda one: one
print(json.dumps([*found, raised(sla, S, m)]))
"""
    assert printed(OWN + lines) == [error, error]


CHANGES: Final = {
    "values in place": "A.data *= 1.5",
    "other values": "A.data = A.data * 1.5",
    "other indices": "A.indices = A.indices[::-1].copy()",
    "the library is loaded": "light.complete()",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["cg", "bicgstab", "minres"])
def test_changes_of_a_callback_are_seen_by_the_next_product(name, change):
    lines = f"""
def solved(linalg, A):
    n = 0
    def call(x):
        nonlocal n
        n += 1
        if n == 2:
            {CHANGES[change]}
    return first(linalg.{name}(A, b, callback=call, maxiter=5, rtol=1e-14)), n
ours, theirs = solved(asp.linalg, asp.csr(S)), solved(sla, S.copy())
print(json.dumps([bool(np.allclose(ours[0], theirs[0], rtol=1e-6)), ours[1] == theirs[1]]))
"""
    assert printed(OWN + lines) == [True, True]


@pytest.mark.parametrize("held", [True, False])
def test_indices_that_leave_the_columns_are_never_read(held):
    lines = f"""
A = asp.csr(S)
indices = A.indices
def call(x):
    indices[0] = 1 << 30
    if not {held}:
        globals()["indices"] = np.zeros(1, int)
try:
    asp.linalg.cg(A, b, callback=call, rtol=1e-14)
except Exception as error:
    print(json.dumps(type(error).__name__))
"""
    assert printed(OWN + lines) == "StructureError"


def test_a_subclass_with_its_own_product_is_obeyed():
    lines = """
class Named(asp.csr_array):
    pass
class Twice(asp.csr_array):
    def dot(self, other):
        return 2 * (S @ other)
    __matmul__ = dot
found = [same(asp.linalg.cg(Named(S), b, rtol=1e-9), sla.cg(S, b, rtol=1e-9))]
found.append(same(asp.linalg.cg(Twice(S), b, rtol=1e-9), sla.cg(2 * S, b, rtol=1e-9)))
print(json.dumps(found))
"""
    assert printed(OWN + lines) == [True, True]


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_a_long_solve_loads_the_library_and_goes_on(name):
    """The clock counts 1 ms for each product, and a solve has more products than `LOADING_NS` allows.

    The extension module has a clock of its own: each request for its calls counts 1 ms.
    """
    lines = f"""
n = 100
S = sps.diags_array([-np.ones(n - 1), 2.001 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1], format="csr")
b = np.linspace(1, 2, n)
import autosparse.light.native as native
import autosparse.linalg.solves.solve as solve
solve.FIRST_ENTRIES, light.LOADING_NS, now_ns = 0, 3_000_000, 0
def tick():
    global now_ns
    now_ns += 1_000_000
    return now_ns
light.perf_counter_ns = native.perf_counter_ns = tick
fast_call = native.fast_call
def ticking(*args):
    light._spent_ns += 1_000_000
    return fast_call(*args)
native.fast_call = ticking
A = asp.csr(S)
ours = asp.linalg.{name}(A, b, atol=1e-10)
theirs = sla.{name}(S, b, atol=1e-10)
print(json.dumps([light.is_complete, same(ours, theirs), A._cell.solver_memory is not None]))
"""
    assert printed(OWN + lines) == [True, True, True]


def test_threads_solve_with_one_matrix_while_another_loads_the_library():
    lines = """
import threading
A, wanted, found = asp.csr(S), sla.cg(S, b, rtol=1e-12)[0], []
def solve():
    for _ in range(40):
        found.append(bool(np.allclose(asp.linalg.cg(A, b, rtol=1e-12)[0], wanted)))
threads = [threading.Thread(target=solve) for _ in range(3)]
for one in threads:
    one.start()
light.complete()
for one in threads:
    one.join()
print(json.dumps([len(found), all(found)]))
"""
    assert printed(OWN + lines) == [120, True]


def test_a_trace_loads_the_library():
    lines = """
with asp.linalg.trace() as solves:
    asp.linalg.cg(asp.csr(S), b)
print(json.dumps([light.is_complete, solves[0].solver, solves[0].n_products > 0]))
"""
    assert printed(OWN + lines) == [True, "cg", True]
