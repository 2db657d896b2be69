"""Products on aarch64 against SciPy, for each instruction set; `test_arm.py` runs it under qemu-user."""

from __future__ import annotations

import platform

import numpy as np
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from autosparse.cli import doctor
from autosparse.isa import isas_of

RTOL = {"float32": 1e-4, "float64": 1e-11, "complex64": 1e-4, "complex128": 1e-11}


def check(isa: str, dtype: str, threads: int) -> None:
    """Compare the products of one matrix with SciPy's."""
    rng = np.random.default_rng(0)
    m = sps.random_array((300, 240), density=0.05, random_state=rng, format="csr").astype(dtype)
    A, rtol = asp.csr(m), RTOL[dtype]
    with asp.options(isa=isa, effort="off", threads=threads):
        for width in (1, 2, 3, 7, 8, 13, 32, 67):
            B = rng.standard_normal((240, width) if width > 1 else 240).astype(dtype)
            np.testing.assert_allclose(A @ B, m @ B, rtol=rtol, atol=rtol)
            C = rng.standard_normal((300, width) if width > 1 else 300).astype(dtype)
            np.testing.assert_allclose(A.T @ C, m.T @ C, rtol=rtol, atol=rtol)
        if np.dtype(dtype).kind == "f":
            X, Y = rng.standard_normal((300, 16)).astype(dtype), rng.standard_normal((240, 16)).astype(dtype)
            dots = np.einsum("ij,ij->i", X[m.tocoo().row], Y[m.tocoo().col])
            np.testing.assert_allclose(asp.sddmm(A, X, Y.T).data, m.data * dots, rtol=rtol, atol=rtol)


def main() -> None:
    """Check every combination and print what ran."""
    assert platform.machine() == "aarch64"
    assert runtime_api.best_isa() == isas_of()[-1].name
    assert runtime_api.best_isa() in {line.name: line.value for line in doctor._machine()}["instruction set"]
    for row in isas_of():
        for dtype in RTOL:
            for threads in (1, 2):
                check(row.name, dtype, threads)
    print("aarch64:", *(row.name for row in isas_of()))


if __name__ == "__main__":
    main()
