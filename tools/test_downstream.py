"""Run the tests of other packages with autosparse's matrices in place of SciPy's: `make test-downstream`.

    python tools/test_downstream.py [SUITE ...] [--processes N]

Each suite runs under `asp.install`, so that every csr and csc matrix that the package makes is one of autosparse's. A
test that fails is run again without `install`. If it fails there too, it is ignored. If it passes there, it must be
listed in DIFFERENCES with a reason; otherwise this program exits with status 1. The wheels of anndata and implicit
contain no tests; `tests/interop/test_neighbours.py` makes the calls of anndata.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

HERE: Final = Path(__file__).resolve().parent
PLUGIN: Final = "downstream_plugin"
DIFFERENCES: Final = HERE / "downstream_differences.txt"
"""Path of the allowed differences.

Each line is ``suite  test  reason``, separated by two or more spaces; a test name may end in ``*``.
"""


@dataclass(frozen=True)
class Suite:
    """Tests of a package that use sparse matrices, for the versions in `downstream_requirements.txt`."""

    package: str
    modules: tuple[str, ...]
    arguments: tuple[str, ...] = ()


SUITES: Final = {
    "scipy": Suite(
        "scipy",
        (
            *(f"scipy.sparse.tests.test_{name}" for name in ("base", "csr", "csc", "coo", "construct", "matrix_io")),
            *(f"scipy.sparse.tests.test_{name}" for name in ("common1d", "indexing1d", "arithmetic1d", "array_api")),
            *("scipy.sparse.csgraph", "scipy.sparse.linalg._dsolve", "scipy.sparse.linalg.tests.test_matfuncs"),
        ),
        ("-k", "not BSR and not DIA and not DOK and not LIL"),
    ),
    "pyamg": Suite("pyamg", ("pyamg",)),
    "networkx": Suite("networkx", ("networkx.linalg", "networkx.algorithms.link_analysis", "networkx.convert_matrix")),
    "networkx-conversion": Suite("networkx", ("networkx.tests.test_convert_scipy",)),
    "sklearn-text": Suite("sklearn", ("sklearn.feature_extraction",)),
    "sklearn-preprocessing": Suite("sklearn", ("sklearn.preprocessing",)),
    "sklearn-sparse": Suite("sklearn", ("sklearn.utils.tests.test_sparsefuncs", "sklearn.utils.tests.test_extmath")),
    "sklearn-linear": Suite(
        "sklearn", ("sklearn.linear_model.tests.test_ridge", "sklearn.linear_model.tests.test_base")
    ),
    "sklearn-cluster": Suite("sklearn", ("sklearn.cluster.tests.test_k_means", "sklearn.cluster.tests.test_spectral")),
    "sklearn-graphs": Suite("sklearn", ("sklearn.neighbors.tests.test_graph", "sklearn.manifold.tests.test_isomap")),
    "sklearn-decomposition": Suite("sklearn", ("sklearn.decomposition.tests.test_truncated_svd",)),
    "sparse": Suite("sparse", ("sparse.numba_backend.tests.test_conversion",)),
    "cvxpy": Suite(
        "cvxpy",
        tuple(
            f"cvxpy.tests.test_{name}"
            for name in ("lin_ops", "coeff_extractor", "quad_form", "constant", "linalg_utils", "python_backends")
        ),
    ),
    "qutip": Suite("qutip", ("qutip.tests.core.data.test_csr", "qutip.tests.core.data.test_scipy_sparse")),
    "qutip-solvers": Suite("qutip", ("qutip.tests.solver.test_steadystate", "qutip.tests.core.test_eigenstates")),
    "gensim": Suite(
        "gensim",
        tuple(f"gensim.test.test_{name}" for name in ("matutils", "lsimodel", "nmf", "similarities", "tfidfmodel")),
    ),
}


def failures_of(
    suite: Suite, processes: int, *, installed: bool, only: Sequence[str] = ()
) -> tuple[dict[str, str], int]:
    """Run a suite; return the failing tests with the first line of each message, and the number of tests that ran."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--rootdir", folder),
            *("--junitxml", str(report), "-o", "junit_family=xunit1", "-n", str(processes)),
            *(("-p", PLUGIN) if installed else ()), *suite.arguments, "--pyargs", *(only or suite.modules),
        ]  # fmt: skip
        paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": paths, "AUTOSPARSE_CACHE_DIR": str(Path(folder) / "cache")}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if not report.exists():
            return {f"{suite.modules[0]} (no report)": done.stdout[-500:] + done.stderr[-500:]}, 0
        root = ET.parse(report).getroot()
        n_run = sum(case.find("skipped") is None for case in root.iter("testcase"))
        return _failed(root), n_run


def _failed(root: ET.Element) -> dict[str, str]:
    found = {}
    for case in root.iter("testcase"):
        for kind in ("failure", "error"):
            node = case.find(kind)
            if node is not None:
                name = f"{case.get('classname')}::{case.get('name')}"
                found[name] = (node.get("message") or "").split("\n", 1)[0][:200]
    return found


def modules_of(names: Sequence[str], suite: Suite) -> list[str]:
    """Return the modules that hold the tests `names`, in the form that `--pyargs` takes."""
    found = set()
    for name in names:
        parts = name.split("::")[0].split(".")
        while parts and not _is_module(".".join(parts)):
            parts.pop()
        found.add(".".join(parts) or suite.modules[0])
    return sorted(found)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def known() -> list[tuple[str, str, str]]:
    """Return (suite, test, reason) of every allowed difference."""
    rows = []
    for line in DIFFERENCES.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            suite, test, reason = (part.strip() for part in line.split("  ") if part.strip())
            rows.append((suite, test, reason))
    return rows


def is_known(suite: str, test: str) -> bool:
    """Return whether this difference is listed in DIFFERENCES."""
    return any(
        one == suite and (test.startswith(name[:-1]) if name.endswith("*") else test == name)
        for one, name, _ in known()
    )


def run(name: str, processes: int) -> list[str]:
    """Run a suite and return the differences that are not listed."""
    suite = SUITES[name]
    if importlib.util.find_spec(suite.package) is None:
        print(f"{name:24} skipped: {suite.package} is not installed")
        return []
    start_s = time.monotonic()
    failed, n_run = failures_of(suite, processes, installed=True)
    if not n_run:
        return [f"{name}  no test ran  {failed}"]
    unlisted = [test for test in failed if not is_known(name, test)]
    if unlisted:
        plain, _ = failures_of(suite, processes, installed=False, only=modules_of(unlisted, suite))
        unlisted = [test for test in unlisted if test not in plain]
    took_s = time.monotonic() - start_s
    print(f"{name:24} {n_run} tests, {len(failed)} fail, {len(unlisted)} of them differ, {took_s:.0f} s", flush=True)
    return [f"{name}  {test}  {failed[test]}" for test in unlisted]


def main() -> int:
    """Run the named suites, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], help="default: all")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    differences = [one for name in arguments.suites or SUITES for one in run(name, arguments.processes)]
    print("\n".join(["", *differences]) if differences else "\nno difference that is not listed")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
