"""Tests of first solves with small light matrices: SciPy's functions solve them, until solves take long."""

from __future__ import annotations

import pytest

from autosparse.light import solves
from tests.light.test_light import printed

SETTING = """
from autosparse.light import solves
solves.PATIENCE_NS = solves.LOOK_NS = solves.OWN_NS = 1 << 60
S = (m[:30] @ m[:30].T + 40 * sps.eye_array(30)).tocsr()
T, b = sps.csr_array(sps.tril(S)), np.linspace(1.0, 2.0, 30)
import scipy.sparse.linalg as sla
def first(found):
    return np.asarray(found[0] if isinstance(found, tuple) else found)
def both(name, matrix, *args, **how):
    ours = first(getattr(asp.linalg, name)(asp.csr(matrix), *args, **how))
    theirs = first(getattr(sla, name)(matrix, *args, **how))
    return bool(np.allclose(ours, theirs))
def same(ours, theirs):
    return bool(np.allclose(first(ours), first(theirs)))
def has_own():
    return not {"autosparse.linalg.arguments", "autosparse.linalg.eigenvalues"}.isdisjoint(sys.modules)
"""
CALLS = {
    **{name: f"both('{name}', S, b, rtol=1e-9)" for name in ("bicgstab", "cg", "cgs", "gmres", "minres", "qmr")},
    **{name: f"both('{name}', m, np.ones(40))" for name in ("lsmr", "lsqr")},
    **{name: f"both('{name}', S, 2, v0=b)" for name in ("eigs", "eigsh")},
    "svds": "both('svds', m, k=2, v0=x)",
    "lobpcg": "both('lobpcg', S, np.stack([b, b**2], 1), tol=1e-6, maxiter=60)",
    "expm_multiply": "both('expm_multiply', S / 50, b)",
    "spsolve_triangular": "both('spsolve_triangular', T, b, lower=True)",
}


def test_every_function_has_a_call():
    assert CALLS.keys() == solves.NAMES


@pytest.mark.parametrize("name", CALLS)
def test_a_first_solve_needs_no_library(name):
    assert printed(f"{SETTING}print(json.dumps([{CALLS[name]}, light.is_complete]))") == [True, False]


@pytest.mark.parametrize(
    "call",
    [
        "both('cg', S, b, callback=len, rtol=1e-9)", "both('cg', S, b, M=sps.eye(30), rtol=1e-9)",
        "both('cg', S, b, M=sla.LinearOperator(S.shape, lambda r: r / S.diagonal()), rtol=1e-9)",
        "both('gmres', S, b, M=sps.diags_array(1 / S.diagonal()), restart=5, rtol=1e-9)",
        "same(asp.linalg.cg(sla.LinearOperator(S.shape, asp.csr(S).__matmul__), b), sla.cg(S, b))",
        "same(asp.linalg.lsqr(sla.aslinearoperator(m), np.ones(40)), sla.lsqr(m, np.ones(40)))",
        "same(asp.linalg.bicgstab(S.tocoo(), b), sla.bicgstab(S, b))",
        "(asp.install(), same(sla.cg(sps.csr_array(S), b), sla.cg.__wrapped__(S, b)))[1]",
        "(asp.install(), same(sla.gmres(sps.csr_array(S), b), sla.gmres.__wrapped__(S, b)))[1]",
    ],
)  # fmt: skip
def test_preconditioners_operators_and_installed_names_need_no_library(call):
    assert printed(f"{SETTING}print(json.dumps([{call}, light.is_complete]))") == [True, False]


@pytest.mark.parametrize(("factor", "has_own"), [(1, False), (1e5, True)])
def test_a_short_series_of_a_larger_matrix_is_computed_by_scipy(factor, has_own):
    lines = f"""
solves.MAX_ENTRIES = 0
asp.linalg.expm_multiply(asp.csr(S * ({factor} / 50)), b)
print(json.dumps([has_own()]))
"""
    assert printed(SETTING + lines) == [has_own]


@pytest.mark.parametrize("limits", ["PATIENCE_NS = -1", "LOOK_NS, solves.PATIENCE_NS = -1, 1"])
def test_a_long_gmres_is_solved_by_the_own_function(limits):
    lines = f"""
solves.{limits}
found = [both("gmres", S, b, rtol=1e-9), has_own()]
print(json.dumps(found))
"""
    assert printed(SETTING + lines) == [True, True]


@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize("install", ["", "asp.install()"])
@pytest.mark.parametrize(
    "call",
    [
        "expm_multiply(sla.aslinearoperator(S / 50), b)", "spsolve_triangular(T.todia(), b)",
        "gmres(asp.csr(S), b, callback=float)", "lobpcg(asp.csr(S), b[:, None], maxiter=1, tol=1e-12)",
    ],
)  # fmt: skip
def test_warnings_of_functions_found_before_the_library_is_loaded_name_the_line_of_the_caller(
    call, install, is_complete
):
    lines = f"""
import warnings
ours = asp.linalg.{call[: call.index("(")]}
def solved(solve):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        solve{call[call.index("(") :]}
    return [(one.filename, one.lineno) for one in seen]
def nested(solve):
    return solved(solve)
theirs = sla.{call[: call.index("(")]}
{install}
if {is_complete}:
    light.complete()
installed = sla.{call[: call.index("(")]}
print(json.dumps([nested(theirs), nested(ours), nested(installed)]))
"""
    theirs, ours, installed = printed(SETTING + lines)
    assert theirs
    assert ours == installed == theirs


@pytest.mark.parametrize(
    "call",
    [
        "asp.linalg.cg(asp.csr(S), b, progress=False)", "both('cg', S, b.astype(int))",
        "asp.linalg.cg(asp.csr(S), np.stack([b, b], 1), columns=True)", "both('eigsh', S, 28)",
        "both('cg', asp.csr(S) * 1, b.tolist())", "both('gmres', S, b, callback=float)",
        "both('gmres', S, b, M=sla.aslinearoperator(S))", "asp.linalg.minres(sla.aslinearoperator(S), b, check=True)",
        "asp.linalg.expm_multiply(sla.aslinearoperator(S / 50), b, traceA=1.0)",
    ],
)  # fmt: skip
def test_other_arguments_are_those_of_the_own_function(call):
    lines = f"asp.linalg.cg(asp.csr(S), b)\none = has_own()\n{call}\nprint(json.dumps([one, has_own()]))"
    assert printed(f"{SETTING}import warnings\nwarnings.simplefilter('ignore')\n{lines}") == [False, True]


def test_large_matrices_have_the_own_function_and_time_of_solves_loads_the_library():
    lines = """
found = [has_own()]
for limit, spent_ns in ((S.nnz, 0), (S.nnz - 1, 0)):
    solves.MAX_ENTRIES = limit
    asp.linalg.cg(asp.csr(S), b)
    found.append(has_own())
print(json.dumps([found, light._spent_ns > 0]))
"""
    assert printed(SETTING + lines) == [[False, False, True], True]
    lines = """
A, found = asp.csr(S), []
for _ in range(2):
    asp.linalg.minres(A, b)
    found.append(light.is_complete)
    light._spent_ns = light.LOADING_NS
print(json.dumps(found))
"""
    assert printed(SETTING + lines) == [False, True]


def test_time_of_solves_by_scipys_functions_is_limited():
    lines = """
A, found = asp.csr(S), []
for name, solves.OWN_NS in (("cg", 1 << 60), ("lobpcg", 0), ("cg", 0)):
    asp.linalg.lobpcg(A, b[:, None], maxiter=60) if name == "lobpcg" else asp.linalg.cg(A, b)
    found.append(has_own())
print(json.dumps([*found, light.is_complete]))
"""
    assert printed(SETTING + lines) == [False, False, True, False]


def test_help_and_signature_are_those_of_the_complete_function():
    lines = """
import inspect, pydoc
shown = pydoc.render_doc(asp.linalg.cg, renderer=pydoc.plaintext)
shown = shown.replace("(\\n    ", "(")  # Python 3.13 writes long signatures on several lines
text, signature = inspect.getdoc(asp.linalg.cg), str(inspect.signature(asp.linalg.cg))
from autosparse.linalg.conjugate_gradients import cg
same = [text == inspect.getdoc(cg), signature == str(inspect.signature(cg))]
print(json.dumps([*same, "progress" in signature, "cg(A: " in shown, repr(asp.linalg.cg) == "<function cg>"]))
"""
    assert printed(SETTING + lines) == [True, True, True, True, True]


def test_the_function_keeps_its_name_and_refuses_what_the_complete_one_refuses():
    lines = """
import inspect, pickle
solve = asp.linalg.cg
found = [solve.__name__, pickle.loads(pickle.dumps(solve)) is solve, "rtol" in inspect.signature(solve).parameters]
for _ in range(2):
    try:
        solve(asp.csr(S), np.ones(29))
    except ValueError as error:
        found.append(str(error))
print(json.dumps(found))
"""
    name, is_same, has_parameter, *errors = printed(SETTING + lines)
    assert (name, is_same, has_parameter) == ("cg", True, True)
    assert errors[0] == errors[1]
    assert "incompatible" in errors[0]
