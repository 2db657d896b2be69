"""Child process of solver_peers.py: conjugate gradients of PETSc on a matrix in a file.

    python petsc_child.py FILE.npz RTOL MAX_ITERATIONS ROUNDS [jacobi]

The interpreter needs petsc4py. It prints one line of JSON: seconds of each solve, iterations, and the true residual
over the norm of b. PETSc runs in one process and therefore on one core, without preconditioner or with Jacobi's.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import petsc4py

petsc4py.init([])
from petsc4py import PETSc  # noqa: E402 (after init)


def main(given: list[str]) -> int:
    """Solve and print the results."""
    path, rtol, most, rounds, *kind = given
    with np.load(path) as kept:
        data, indices, indptr, b = (kept[name] for name in ("data", "indices", "indptr", "b"))
    n = b.size
    A = PETSc.Mat().createAIJ(size=(n, n), csr=(indptr.astype(PETSc.IntType), indices.astype(PETSc.IntType), data))
    right, x = PETSc.Vec().createWithArray(b), PETSc.Vec().createSeq(n)
    solver = PETSc.KSP().create()
    solver.setOperators(A)
    solver.setType("cg")
    solver.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
    solver.getPC().setType(kind[0] if kind else "none")
    solver.setTolerances(rtol=float(rtol), max_it=int(most))
    times = []
    for _ in range(int(rounds)):
        x.set(0.0)
        begun_s = time.perf_counter()
        solver.solve(right, x)
        times.append(time.perf_counter() - begun_s)
    r = right - A * x
    told = {"times_s": times, "iterations": solver.getIterationNumber(), "residual": r.norm() / right.norm()}
    sys.stdout.write(json.dumps({**told, "version": ".".join(map(str, PETSc.Sys.getVersion()))}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
