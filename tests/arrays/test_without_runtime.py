"""Tests of an installation without the C runtime: SciPy computes every product, and the classes stay the same."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent("""
    import sys
    sys.modules["autosparse._native._runtime"] = None  # as if it had not been built
    import numpy as np, scipy.sparse as sps, pickle
    import autosparse
    from autosparse._native import runtime_api

    assert not runtime_api.available
    m = sps.random(30, 40, 0.3, format="csr", random_state=np.random.RandomState(0))
    for name in ("csr", "csc"):
        A = getattr(autosparse, name)(m, copy=True)
        x, B = np.random.rand(40), np.random.rand(40, 3)
        np.testing.assert_allclose(A @ x, m @ x)
        np.testing.assert_allclose(A @ B, m @ B)
        np.testing.assert_allclose(A.T @ (A @ B), m.T @ (m @ B))
        np.testing.assert_allclose((m @ x) @ A, (m @ x) @ m)
        np.testing.assert_allclose(autosparse.matmul(A, B, out=np.empty((30, 3))), m @ B)
        A.data *= 2
        np.testing.assert_allclose(A @ x, 2 * (m @ x))
        assert not A.T.T is None and type(A.T.T) is type(A)
        np.testing.assert_allclose(pickle.loads(pickle.dumps(A)) @ x, A @ x)
        operand = A._cell
        operand.refresh()
        before = operand.values_version, operand.structure_version
        A.data[0] += 1
        operand.refresh()
        assert (operand.values_version, operand.structure_version) == (before[0] + 1, before[1])
        assert operand.pattern.nnz == m.nnz
        assert A.tune(columns=3).is_default
    try:
        autosparse.csr(([1.0], [5], [0, 1]), shape=(1, 2))
    except ValueError as err:
        assert "indices must be < 2" in str(err), err
    else:
        raise AssertionError("an index out of bounds was taken")
    print("served by SciPy")
""")


def test_scipy_serves_where_the_runtime_was_not_built() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert run.stdout.strip().endswith("served by SciPy"), run.stderr[-3000:]


TRUTH = textwrap.dedent("""
    import sys, warnings
    sys.modules["autosparse._native._runtime"] = None
    import numpy as np, scipy.sparse as sps
    import autosparse as asp
    from autosparse.cli import show

    m = sps.random_array((30, 40), density=0.3, format="csr", random_state=np.random.default_rng(0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for dtype in ("float32", "float64", "int64"):
            A = asp.csr(m.astype(dtype), copy=True)
            A @ np.ones(40, dtype), A @ np.ones((40, 2), dtype), A @ A.T, A.T @ np.ones(30, dtype)
            plans = [A.tune(columns=2), A.tune("sddmm", columns=2)]
        T = asp.tensor(np.array([[0, 1], [1, 0], [0, 1]]), np.ones(2), (2, 2, 2))
        asp.mttkrp(T, [np.ones((2, 3))] * 3, 0)
        plans.append(T.tune(columns=3))
        told = str(A.explain(2)), str(T.explain(3))
    assert [one.category for one in caught] == [asp.FallbackWarning], [str(one.message) for one in caught]
    for text in (str(caught[0].message), *told, *(plan.why for plan in plans)):
        assert "was not built" in text and "dtype" not in text.replace("dtype=", ""), text
    assert "--no-cache-dir" in str(caught[0].message)
    assert [show.schedule(plan) for plan in plans] == ["SciPy's own code", "NumPy's own code", "NumPy's own code"]
    print("true")
""")


def test_one_warning_and_the_true_reason_in_explain_and_tune() -> None:
    run = subprocess.run([sys.executable, "-c", TRUTH], capture_output=True, text=True, check=False)
    assert run.stdout.strip().endswith("true"), run.stderr[-3000:]
