"""Forty linear systems: symmetric positive definite (SPD), symmetric indefinite, and unsymmetric.

`python -m tests.linalg.systems [NAME ...]` prints iterations and residuals of every solver beside SciPy's.
"""

from __future__ import annotations

import sys
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import scipy.sparse as sps
from scipy.sparse.linalg import aslinearoperator

from tests.conftest import matrices_folder

Kind = Literal["spd", "indefinite", "unsymmetric"]

MAX_ITERATIONS: Final = 300
"""Upper bound on the iterations of each solve."""

SOLVERS: Final[dict[Kind, tuple[str, ...]]] = {
    "spd": ("cg", "minres", "gmres", "lsqr", "lsmr", "bicgstab", "cgs", "qmr"),
    "indefinite": ("minres", "gmres", "lsqr", "lsmr", "bicgstab", "cgs", "qmr"),
    "unsymmetric": ("gmres", "lsqr", "lsmr", "bicgstab", "cgs", "qmr"),
}
"""Kind of a system -> solvers that are meant for it. `lsqr` and `lsmr` take no preconditioner."""


@dataclass(frozen=True)
class System:
    """A system A x = b with a right side drawn by the name."""

    name: str
    kind: Kind
    make: Callable[[], Any]
    dtype: str = "d"
    is_real_file: bool = False
    is_singular: bool = False  # b is in the range of A

    def matrix(self) -> Any:
        """Return A, a CSR array of SciPy's."""
        return sps.csr_array(self.make()).astype(self.dtype)

    def right_side(self, A: Any) -> Any:
        """Return b, of unit norm."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        b = rng.standard_normal(A.shape[0]).astype(self.dtype)
        if A.dtype.kind == "c":
            b = b + (1j * rng.standard_normal(A.shape[0])).astype(self.dtype)
        b = A @ b if self.is_singular else b
        return (b / np.linalg.norm(b)).astype(self.dtype)

    @property
    def rtol(self) -> float:
        """Tolerance of every solve of the system."""
        return 1e-8 if self.dtype in "dD" else 1e-4

    @property
    def solvers(self) -> tuple[str, ...]:
        """Solvers for the system. SciPy's `minres` is real."""
        return tuple(one for one in SOLVERS[self.kind] if one != "minres" or self.dtype in "fd")


def line(n: int) -> Any:
    """Return the second difference with Dirichlet ends."""
    return sps.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1], format="csr")


def grid(*lengths: int, weights: tuple[float, ...] | None = None) -> Any:
    """Return the Laplacian of a grid with Dirichlet boundaries, the directions weighted."""
    A = sps.csr_array((1, 1))
    for n, weight in zip(lengths, weights or (1.0,) * len(lengths), strict=True):
        A = sps.kronsum(A, weight * line(n), format="csr")
    return A


def neumann(n: int) -> Any:
    """Return the singular Laplacian of an (n, n) grid with Neumann boundaries: constants are its null space."""
    one = line(n).tolil()
    one[0, 0] = one[-1, -1] = 1
    return sps.kronsum(one.tocsr(), one.tocsr(), format="csr")


def convection(n: int, speed: float) -> Any:
    """Return diffusion and upwind convection of this speed in both directions on an (n, n) grid."""
    upwind = sps.diags_array([-np.ones(n - 1), np.ones(n)], offsets=[-1, 0], format="csr")
    one = line(n) + speed / n * upwind
    return sps.kronsum(one, one, format="csr")


def jumps(n: int) -> Any:
    """Return div(k grad) on an (n, n) grid: k is 1 or 1000 at random in each cell."""
    rng = np.random.default_rng(3)
    difference = sps.diags_array([-np.ones(n), np.ones(n)], offsets=[0, 1], shape=(n, n + 1))
    eye = sps.eye_array(n + 1)
    D = sps.vstack([sps.kron(difference, eye), sps.kron(eye, difference)])
    k = sps.diags_array(rng.choice([1.0, 1e3], D.shape[0]))
    return D.T @ k @ D + 1e-2 * sps.eye_array(D.shape[1])


def magnetic(n: int) -> Any:
    """Return a Hermitian Laplacian with phases on the edges of an (n, n) grid."""
    A = sps.coo_array(grid(n, n))
    phase = np.exp(0.7j * (A.col - A.row) / n)
    return sps.coo_array((A.data * phase, (A.row, A.col)), shape=A.shape)


def saddle(n: int) -> Any:
    """Return [[K, B^T], [B, -C]] with K a Laplacian, B random and C a small diagonal."""
    K = grid(n, n)
    B = sps.random_array((n * n // 4, n * n), density=3 / n**2, random_state=np.random.default_rng(5), format="csr")
    return sps.block_array([[K, B.T], [B, -0.1 * sps.eye_array(B.shape[0])]])


def scaled(A: Any, decades: float) -> Any:
    """Return D A D with a positive diagonal D spread evenly over `decades`."""
    A = sps.csr_array(A)
    rng = np.random.default_rng(7)
    D = sps.diags_array(10 ** (decades * (rng.random(A.shape[0]) - 0.5)))
    return D @ A @ D


def equilibrated(A: Any) -> Any:
    """Return D A D whose diagonal is one, or whose columns have norm one where the diagonal is zero."""
    A = sps.csr_array(A)
    d = abs(A.diagonal())
    d[d == 0] = np.sqrt(np.asarray((abs(A) ** 2).sum(axis=0)).ravel()[d == 0]) + (d[d == 0] == 0) * 1e-300
    D = sps.diags_array(1 / np.sqrt(np.where(d > 1e-200, d, 1)))
    return D @ A @ D


def dominant(n: int) -> Any:
    """Return a random unsymmetric matrix whose diagonal outweighs each row."""
    A = sps.random_array((n, n), density=8 / n, random_state=np.random.default_rng(11), format="csr")
    return A + sps.diags_array(np.asarray(abs(A).sum(axis=1)).ravel() * 1.05 + 0.1)


def file(name: str) -> Callable[[], Any]:
    """Return a function that reads the real matrix `name`."""

    def read() -> Any:
        folder = matrices_folder()
        assert folder is not None
        return sps.load_npz(folder / f"{name}.npz").astype(np.float64)

    return read


def _real(name: str, kind: Kind, change: Callable[[Any], Any] | None = None, dtype: str = "d") -> System:
    read = file(name)
    label = name if change is None else f"{name}, {change.__name__}"
    return System(label, kind, (lambda: change(read())) if change else read, dtype, is_real_file=True)


GENERATED: Final = (
    System("grid 40x40", "spd", lambda: grid(40, 40)),
    System("grid 12x12x12", "spd", lambda: grid(12, 12, 12)),
    System("grid 40x40, float32", "spd", lambda: grid(40, 40), "f"),
    System("grid 40x40, scaled", "spd", lambda: scaled(grid(40, 40), 0.5)),
    System("anisotropic grid", "spd", lambda: grid(40, 30, weights=(1.0, 0.01))),
    System("jumps", "spd", lambda: jumps(20)),
    System("magnetic grid", "spd", lambda: magnetic(24), "D"),
    System("magnetic grid, complex64", "spd", lambda: magnetic(24), "F"),
    System("Neumann grid", "spd", lambda: neumann(24), is_singular=True),
    System("shifted grid", "indefinite", lambda: grid(24, 24) - 0.3 * sps.eye_array(576)),
    System("shifted grid, float32", "indefinite", lambda: grid(12, 12) - 0.3 * sps.eye_array(144), "f"),
    System("shifted magnetic grid", "indefinite", lambda: magnetic(20) - 0.3 * sps.eye_array(400), "D"),
    System("saddle", "indefinite", lambda: saddle(20)),
    System("slow convection", "unsymmetric", lambda: convection(32, 10.0)),
    System("fast convection", "unsymmetric", lambda: convection(32, 300.0)),
    System("convection, float32", "unsymmetric", lambda: convection(32, 30.0), "f"),
    System("convection, scaled", "unsymmetric", lambda: scaled(convection(32, 30.0), 2.0)),
    System("damped waves", "unsymmetric", lambda: grid(24, 24) - (0.4 + 0.5j) * sps.eye_array(576), "D"),
    System("dominant", "unsymmetric", lambda: dominant(2000)),
)
"""Systems made here."""

REAL: Final = (
    _real("bcsstk14", "spd", equilibrated),
    _real("bcsstk16", "spd"),
    _real("mass_0", "spd"),
    _real("cotan_bump-domain", "spd"),
    _real("cotan_circle", "spd", dtype="f"),
    _real("elast_cube_sphere", "spd"),
    _real("lap2d_square", "spd"),
    _real("muelu_Evolution_Arot", "spd"),
    _real("muelu_maxwell_M1", "spd"),
    _real("tpetra_matrices_rapA", "spd"),
    _real("qp_CONT-050_KKT", "indefinite"),
    _real("qp_LASER_KKT", "indefinite", equilibrated),
    _real("qp_MOSARQP1_KKT", "indefinite"),
    _real("Q2Q1_9x9_BigA", "indefinite"),
    _real("cage10", "unsymmetric"),
    _real("memplus", "unsymmetric"),
    _real("fuego0", "unsymmetric"),
    _real("nsjac_1", "unsymmetric", equilibrated),
    _real("teko_small_dataset_F", "unsymmetric"),
    _real("stratimikos_example__P2", "unsymmetric"),
    _real("watt_2", "unsymmetric", equilibrated),
)
"""Systems of real matrices, in the folder of `tests.conftest.matrices_folder`."""

FURTHER: Final = (
    System("grid 40x40, scaled by 0.9 decades", "spd", lambda: scaled(grid(40, 40), 0.9)),
    System("grid 40x40, scaled by 2 decades", "spd", lambda: scaled(grid(40, 40), 2.0)),
    System("shifted grid, 0.8", "indefinite", lambda: grid(24, 24) - 0.8 * sps.eye_array(576)),
    System("shifted grid, 0.9", "indefinite", lambda: grid(24, 24) - 0.9 * sps.eye_array(576)),
    System("shifted grid 24x24, float32", "indefinite", lambda: grid(24, 24) - 0.3 * sps.eye_array(576), "f"),
    _real("lund_a", "spd"),
    _real("cotan_cheburashka", "spd"),
    _real("utm300", "unsymmetric"),
)
"""Systems beyond the forty. Solves of some differ from SciPy's: `DEVIATIONS`."""

DEVIATIONS: Final = {
    ("grid 40x40, scaled by 0.9 decades", "bicgstab", "M"): "85 iterations; 83 to 93 in forty orders",
    ("grid 40x40, scaled by 0.9 decades", "cgs", ""): "299 iterations; 290 to 300",
    ("grid 40x40, scaled by 2 decades", "bicgstab", ""): "residual 4.7e-2 at 300 iterations; 4.2e-2 to 5.4e-2",
    ("shifted grid, 0.8", "bicgstab", ""): "residual 1.4e-2 at 300 iterations; 2.0e-3 to 2.6e-2",
    ("shifted grid, 0.8", "bicgstab", "M"): "residual 6.9e-3 at 300 iterations; 1.9e-3 to 5.0e-3",
    ("shifted grid, 0.8", "cgs", "M"): "214 iterations; 210 to 233",
    ("shifted grid, 0.8", "qmr", ""): "200 iterations; 193 to 200",
    ("shifted grid, 0.9", "minres", "M"): "residual 1.03e-6 at 181 iterations; 0.91e-6 to 1.04e-6",
    ("shifted grid, 0.9", "bicgstab", ""): "residual 2.7e-2 at 300 iterations; 4.7e-5 to 6.7e-2",
    ("shifted grid, 0.9", "cgs", ""): "209 iterations; 210 to 225",
    ("shifted grid, 0.9", "cgs", "M"): "214 iterations; 214 to 221",
    ("shifted grid 24x24, float32", "bicgstab", "M"): "300 iterations; info -10 after 33, or 300",
    ("shifted grid 24x24, float32", "cgs", ""): "residual 13 at 300 iterations; 1e-3 to 24, or info -10",
    ("shifted grid 24x24, float32", "qmr", ""): "210 iterations; 170 to 300",
    ("lund_a", "cg", ""): "residual 3.4e-2 at 300 iterations; 0.8e-2 to 3.3e-2",
    ("lund_a", "bicgstab", ""): "residual .19 at 300 iterations; .16 to .22",
    ("lund_a", "bicgstab", "M"): "91 iterations; 85 to 94",
    ("lund_a", "qmr", ""): "residual 2.0e-3 at 300 iterations; 1.9e-3 to 3.3e-3",
    ("cotan_cheburashka", "cg", "M"): "residual 4.8 at 300 iterations; 3.4 to 5.1",
    ("cotan_cheburashka", "bicgstab", "M"): "residual .096 at 300 iterations; .052 to .15",
    ("cotan_cheburashka", "cgs", "M"): "residual 2.6e3 at 300 iterations; 3.3e2 to 1.3e4",
    (
        "utm300",
        "bicgstab",
        "M",
    ): "info -10 after 152 iterations: rho, rounding noise of 1e-13, is 0; info 300",
    ("utm300", "qmr", "M"): "residual 34 at 300 iterations; 30 to 35",
}
"""Solves of `FURTHER` that differ from SciPy's: ours, and the range of SciPy's over seven orders of the unknowns."""
BY_CHANCE: Final = frozenset({("utm300", "bicgstab", "M")})
"""Rows of `DEVIATIONS` outside of SciPy's range in sixty orders."""

SYSTEMS: Final = {system.name: system for system in (*GENERATED, *REAL, *FURTHER)}


@dataclass(frozen=True)
class Outcome:
    """Results of one solve."""

    iterations: int
    info: int  # `istop` of lsqr and lsmr
    residual: float  # |b - A x| / |b|
    x: Any

    @property
    def line(self) -> str:
        return f"{self.iterations:5d} {self.info:4d} {self.residual:9.2e}"


def solve(linalg: Any, solver: str, A: Any, b: Any, *, rtol: float, M: Any = None) -> Outcome:
    """Solve by `linalg.solver` with at most `MAX_ITERATIONS`; count iterations by the callback."""
    count = 0

    def callback(_: Any) -> None:
        nonlocal count
        count += 1

    function = getattr(linalg, solver)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        if solver == "lsqr":
            x, info, count = function(A, b, atol=rtol, btol=rtol, iter_lim=MAX_ITERATIONS)[:3]
        elif solver == "lsmr":
            x, info, count = function(A, b, atol=rtol, btol=rtol, maxiter=MAX_ITERATIONS)[:3]
        else:
            how: dict[str, Any] = {"rtol": rtol, "callback": callback, "maxiter": MAX_ITERATIONS}
            if solver == "gmres":
                how |= {"restart": 20, "maxiter": MAX_ITERATIONS // 20, "callback_type": "pr_norm"}
            if solver != "qmr":
                how["M"] = M
            elif M is not None:
                identity = sps.eye_array(b.size, dtype=A.dtype)
                how |= {"M1": aslinearoperator(M), "M2": aslinearoperator(identity)}
            x, info = function(A, b, **how)
    wide = np.result_type(x.dtype, np.float64)
    residual = np.linalg.norm(b - A.astype(wide) @ x.astype(wide)) / np.linalg.norm(b)
    return Outcome(count, int(info), float(residual), x)


def jacobi(A: Any) -> Any:
    """Return the inverse of the diagonal's absolute values, ones for zeros: a DIA array."""
    d = abs(A.diagonal())
    return sps.diags_array(1 / np.where(d > 0, d, 1)).astype(A.dtype)


def permuted(A: Any, b: Any, M: Any, seed: int) -> tuple[Any, Any, Any]:
    """Return the same system with its unknowns and equations in another order: sums round differently."""
    order = np.random.default_rng(seed).permutation(b.size)
    shuffled = A[order][:, order].tocsr()
    shuffled.sort_indices()
    return shuffled, b[order], None if M is None else sps.diags_array(M.diagonal()[order])


def _table(names: list[str]) -> None:
    import scipy.sparse.linalg

    import autosparse as asp

    folder = matrices_folder()
    for name in names or SYSTEMS:
        system = SYSTEMS[name]
        if system.is_real_file and folder is None:
            continue
        A = system.matrix()
        b = system.right_side(A)
        ours = asp.csr(A, copy=True)
        for solver in system.solvers:
            for M in (None, jacobi(A)) if not solver.startswith("ls") else (None,):
                theirs = solve(scipy.sparse.linalg, solver, A, b, rtol=system.rtol, M=M)
                mine = solve(asp.linalg, solver, ours, b, rtol=system.rtol, M=M)
                label = f"{name:32s} {solver:8s} {'M' if M is not None else ' '}"
                print(f"{label} SciPy {theirs.line}   ours {mine.line}")


if __name__ == "__main__":
    _table(sys.argv[1:])
