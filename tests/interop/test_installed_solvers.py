"""Tests of `install`: names of SciPy's solvers refer to ours while it is active, and to SciPy's afterwards."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import textwrap
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg

import autosparse as asp
from autosparse.linalg.solves import Solve
from tests.processes import run_with

PLAIN = sps.diags_array([-np.ones(39), 3 * np.ones(40), -np.ones(39)], offsets=[-1, 0, 1], format="csr")
b = np.random.default_rng(0).random(40)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of our solvers that begin a solve."""
    names: list[str] = []
    enter = Solve.__enter__

    def counting(solve: Solve) -> Solve:
        names.append(solve.name)
        return enter(solve)

    monkeypatch.setattr(Solve, "__enter__", counting)
    return names


def test_names_of_all_solvers_and_no_others_change_and_are_restored() -> None:
    shared = {name for name in asp.linalg.OURS if hasattr(scipy.sparse.linalg, name)}
    before = {name: getattr(scipy.sparse.linalg, name) for name in dir(scipy.sparse.linalg)}

    def changed() -> set[str]:
        return {name for name, value in before.items() if getattr(scipy.sparse.linalg, name) is not value}

    assert "cg" in shared
    with asp.install():
        assert changed() == shared
        with asp.install():
            pass
        assert changed() == shared
        for name in shared:
            assert inspect.signature(getattr(scipy.sparse.linalg, name)) == inspect.signature(before[name])
    assert not changed()


def test_names_imported_inside_a_block_are_scipys_after_it(begun: list[str]) -> None:
    with asp.install():
        from scipy.sparse.linalg import cg
    assert cg(PLAIN, b)[1] == 0
    assert not begun
    assert pickle.loads(pickle.dumps(cg)) is cg
    with asp.install():
        assert cg(PLAIN, b)[1] == 0
    assert begun == ["cg"]


def test_a_library_that_calls_scipy_by_its_module_runs_ours(begun: list[str]) -> None:
    expected = scipy.sparse.linalg.cg(PLAIN, b, rtol=1e-10)[0]
    assert not begun
    with asp.install():
        found, info = scipy.sparse.linalg.cg(PLAIN, b, rtol=1e-10)
    assert begun == ["cg"]
    assert info == 0
    np.testing.assert_allclose(found, expected, rtol=1e-9)


SKLEARN = textwrap.dedent("""
    import numpy as np, scipy.sparse as sps
    import autosparse as asp
    from autosparse.linalg.solves import Solve
    begun, enter = [], Solve.__enter__
    Solve.__enter__ = lambda solve: (begun.append(solve.name), enter(solve))[1]
    A = sps.random_array((60, 12), density=0.4, random_state=np.random.default_rng(1), format="csr")
    y = np.random.default_rng(2).random(60)
    with asp.install():
        from sklearn.linear_model import Ridge  # it imports the name cg
        found = Ridge(solver="sparse_cg", tol=1e-10).fit(A, y).coef_
    assert "cg" in begun
    begun.clear()
    expected = Ridge(solver="sparse_cg", tol=1e-10).fit(A, y).coef_
    assert not begun
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    print("the same")
""")


def test_a_library_that_is_imported_while_installed_runs_ours_until_the_end_of_the_block() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    run = subprocess.run([sys.executable, "-c", SKLEARN], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "the same", run.stderr[-3000:]


def test_a_name_replaced_by_another_library_is_not_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(*_: Any, **__: Any) -> None: ...

    with asp.install():
        monkeypatch.setattr(scipy.sparse.linalg, "cg", mine)
    assert scipy.sparse.linalg.cg is mine


EVERY = textwrap.dedent("""
    import warnings
    warnings.simplefilter("ignore")
    import numpy as np, scipy.sparse as sps, scipy.sparse.linalg as sla
    m = sps.diags_array([-np.ones(39), 3 * np.ones(40), -np.ones(39)], offsets=[-1, 0, 1], format="csr")
    b, calls = np.random.default_rng(0).random(40), {
        "cg": {}, "cgs": {}, "bicgstab": {}, "minres": {}, "gmres": {}, "qmr": {}, "lsqr": {}, "lsmr": {},
        "eigsh": {"k": 2, "v0": np.ones(40)}, "eigs": {"k": 2, "v0": np.ones(40)},
        "svds": {"k": 2, "v0": np.ones(40)}, "lobpcg": {"maxiter": 3}, "expm_multiply": {},
    }
    second = {"eigsh": (), "eigs": (), "svds": (), "lobpcg": (np.eye(40, 2),)}
    expected = {name: getattr(sla, name)(m, *second.get(name, (b,)), **how) for name, how in calls.items()}
    import autosparse as asp
    A = asp.csr(m)
    with asp.install():
        for name, how in calls.items():
            for solver in (getattr(sla, name), getattr(asp.linalg, name)):
                found = solver(A, *second.get(name, (b,)), **how)
                pairs = zip(found, expected[name]) if isinstance(found, tuple) else [(found, expected[name])]
                for mine, theirs in pairs:
                    np.testing.assert_allclose(np.abs(mine), np.abs(theirs), rtol=1e-6, atol=1e-12, err_msg=name)
    print("the same")
""")
WITHOUT_RUNTIME = """
import sys
sys.modules["autosparse._native._runtime"] = None
from autosparse._native import runtime_api
assert not runtime_api.available
"""


@pytest.mark.parametrize("runtime", ["", WITHOUT_RUNTIME], ids=["runtime", "no runtime"])
def test_solvers_that_are_first_called_while_installed(runtime: str) -> None:
    run = subprocess.run([sys.executable, "-c", runtime + EVERY], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "the same", run.stderr[-3000:]


LATER = textwrap.dedent("""
    import sys
    import scipy.sparse as sps
    import autosparse as asp
    name, before = "scipy.sparse.linalg", set(sys.modules)
    asp.install()
    assert not [one for one in set(sys.modules) - before if one.startswith(name)]
    WAY
    import scipy.sparse.linalg as sla
    from autosparse.interop import solver_names
    assert sla.cg is solver_names.cg
    assert not [one for one in sys.meta_path if type(one).__module__.startswith("autosparse")]
    assert "autosparse" not in type(sla.__spec__.loader).__module__
    assert sla.__loader__ is sla.__spec__.loader
    asp.uninstall()
    assert sla.cg is solver_names.cg.__wrapped__
    print("exchanged")
""")


@pytest.mark.parametrize(
    "way",
    [
        "import scipy.sparse.linalg",
        "from scipy.sparse.linalg import cg",
        "sps.linalg",
        "import autosparse.linalg",
        "asp.linalg.cg",
        "from autosparse.interop import solver_names",
        "asp.uninstall(); asp.install()",
    ],
)
def test_solvers_are_replaced_when_their_module_is_imported(way: str) -> None:
    run = run_with("scipy.sparse", LATER.replace("WAY", way))
    assert run.stdout.strip() == "exchanged", run.stderr[-3000:]


def test_a_block_that_ended_leaves_solvers_alone() -> None:
    script = """
import sys
import scipy.sparse, autosparse as asp
finders = list(sys.meta_path)
with asp.install(), asp.install():
    pass
assert sys.meta_path == finders
import scipy.sparse.linalg as sla
print(sla.cg.__module__.split(".")[0])
"""
    run = run_with("scipy.sparse", script)
    assert run.stdout.strip() == "scipy", run.stderr[-3000:]


def test_names_below_ours_lead_to_our_solvers() -> None:
    import autosparse.scipy_compat as compat

    assert compat.linalg is asp.linalg
    assert compat.linalg.cg is asp.linalg.cg


WARNING: dict[str, tuple[Any, ...]] = {
    "spsolve_triangular": (sps.tril(PLAIN, format="coo"), b),
    "lobpcg": (PLAIN, np.random.default_rng(1).random((40, 2)), None, None, None, 1e-14, 1),
    "expm_multiply": (
        scipy.sparse.linalg.LinearOperator((40, 40), matvec=PLAIN.dot, rmatvec=PLAIN.dot, dtype=float),
        b,
    ),
    "expm_multiply in long double": (
        scipy.sparse.linalg.LinearOperator((40, 40), matvec=PLAIN.dot, rmatvec=PLAIN.dot, dtype=np.longdouble),
        b,
    ),
    "eigsh": (PLAIN.toarray(), 40),
    "eigs": (PLAIN.toarray(), 39),
}
"""Solver, in some cases with a remark -> arguments with which SciPy's function warns."""


@pytest.mark.parametrize("name", WARNING)
def test_warnings_name_the_line_of_the_caller(name: str) -> None:
    def filenames() -> set[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            getattr(scipy.sparse.linalg, name.split(maxsplit=1)[0])(*WARNING[name])
        return {one.filename for one in caught}

    assert filenames() == {__file__}
    with asp.install():
        assert filenames() == {__file__}
