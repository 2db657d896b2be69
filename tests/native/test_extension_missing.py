"""Tests of an installation whose extension module is missing, or was built from other sources: Python code serves."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from autosparse._native import runtime_api

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")

PYTHON_ONLY = """
    import sys
    sys.modules["autosparse._native._extension"] = MODULE
    import numpy as np, scipy.sparse as sps
    import autosparse as asp
    from autosparse._native import memory, python_objects, runtime_api
    from autosparse.dispatch import fast_path

    assert runtime_api.available and runtime_api.extension is None
    assert FAULT in runtime_api.extension_fault, runtime_api.extension_fault
    assert fast_path.make is None and python_objects.small_product is None
    m = sps.random_array((300, 300), density=0.02, format="csr", random_state=np.random.default_rng(0))
    A, x = asp.csr(m, copy=True), np.ones(300)
    for n in range(40):
        np.testing.assert_allclose(A @ x, m @ x)
        np.testing.assert_allclose(A.T @ x, m.T @ x)
        A.data[n] += 1
        m.data[n] += 1
    operand = A._cell
    operand.refresh()
    before = operand.values_version
    A.data[0] += 1
    operand.refresh()
    assert operand.values_version == before + 1
    operand.refresh()
    assert operand.values_version == before + 1
    kept = A.data
    A.data = kept.copy()
    np.testing.assert_allclose(A @ x, sps.csr_array((kept, m.indices, m.indptr), shape=m.shape) @ x)
    assert memory.empty_output((1 << 20,), np.dtype(float)).flags.owndata
    A.tune(columns=8)
    B = np.ones((300, 8))
    np.testing.assert_allclose(A @ B, A.to_scipy() @ B)
    A.data *= 2
    np.testing.assert_allclose(A @ B, A.to_scipy() @ B)
    found = asp.linalg.cg(sps_spd := asp.csr(m.T @ m + sps.eye_array(300)), x)[0]
    np.testing.assert_allclose(sps_spd @ found, x, rtol=1e-3)
    print("served by Python")
"""
OTHER_SOURCES = "type('Module', (), {'HEADERS': 'of an older build', 'FUNCTIONS': (), 'connect': None})"


@pytest.mark.parametrize(("module", "fault"), [("None", "cannot be loaded"), (OTHER_SOURCES, "different sources")])
def test_python_serves_without_a_fitting_module(module: str, fault: str) -> None:
    program = textwrap.dedent(PYTHON_ONLY).replace("MODULE", module).replace("FAULT", repr(fault))
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout.strip().endswith("served by Python"), run.stderr[-3000:]
