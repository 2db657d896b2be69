"""Quick runs of every benchmark that docs/papers.md names, so that its commands keep working."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import scipy.sparse

SCRIPTS: Final = Path(__file__).parents[2] / "benchmarks"
QUICK: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "ablation.py": (("--report", "--json", "{out}/none.jsonl"),),
    "dense_rows.py": (("--quick", "--table", "{out}/page.md"),),
    "einsum.py": (("figure6", "--only", "SpMV"), ("figure7", "--only", "SpMV"), ("figure8", "--only", "SpMV")),
    "gpu.py": (("--help",),),
    "hybrid.py": (("--report", "--json", "{results}/hybrid.jsonl"),),
    "hybrid_figures.py": (("--quick", "--table", "{out}/page.md"),),
    "hybrid_gpu.py": (("--quick", "--columns", "64", "--table", "{out}/page.md"), ("--fit",)),
    "hybrid_tables.py": (("--cases", "structured", "--rounds", "1", "--most-s", "0.1", "--table", "{out}/page.md"),),
    "peers.py": (("--paper", "--effort", "full", "--json", "{results}/epyc/full.jsonl"),),
    "search_compare.py": (("--patterns", "1", "--trials", "20", "--out", "{out}/searches.jsonl"),),
    "totals.py": (("--report", "--json", "{results}/totals.jsonl", "--table", "{out}/page.md"),),
    "transfer.py": (
        ("--quick", "--only", "spade-spmm", "--json", "{out}/transfer.jsonl", "--kept", "{out}"),
        ("--gpu", "--quick", "--only", "spmm", "--json", "{out}/quick-gpu.jsonl"),
    ),
    "waco_figures.py": (("--out", "{out}"),),
    "waco_network.py": (("--quick", "--ops", "spmv", "--out", "{out}/network.jsonl"),),
}  # fmt: skip
"""Script -> options of its quick runs; where measuring takes long, the page is written from the archives."""
RUNS: Final = [pytest.param(name, given, id=f"{name} {' '.join(given[:2])}") for name in QUICK for given in QUICK[name]]


@pytest.mark.full
@pytest.mark.parametrize(("name", "given"), RUNS)
def test_commands_of_the_page_on_the_papers_run(name: str, given: tuple[str, ...], tmp_path: Path) -> None:
    from peerlib.environment import matrices_folder  # the page's test imports QUICK without this folder's paths

    if name == "transfer.py" and "--gpu" not in given and matrices_folder() is None:
        pytest.skip("no real matrices")
    options = [one.format(out=tmp_path, results=SCRIPTS / "results") for one in given]
    command = [sys.executable, "-W", "ignore", str(SCRIPTS / name), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", ["SpMV", "SpMV2", "SpGEMM", "SpGEMM2", "SpGEMMH", "SpMTTKRP"])
def test_the_fastest_programs_of_figure_8_have_the_lowest_estimated_cost(name: str) -> None:
    from einsumlib import figure8

    assert set(figure8.FIGURE_8) == {"SpMV", "SpMV2", "SpGEMM", "SpGEMM2", "SpGEMMH", "SpMTTKRP"}
    assert figure8.row_of(name)["rank"] == 1


def test_bytes_of_layouts_are_those_of_their_arrays() -> None:
    from hybrid_figures import INDEX, ITEM, stored_bytes

    A = scipy.sparse.csr_array(np.kron(np.eye(3), np.ones((16, 16))).astype(np.float32))
    part = {"rows": 16, "step": 16, "at_most": 0, "at_least": 1, "split": 0}
    rows = stored_bytes(A, {"parts": [{**part, "layout": "unrolled"}, {**part, "layout": "fill"}]})
    assert rows == A.nnz * (ITEM + INDEX) + 48 * INDEX
    assert stored_bytes(A, {"parts": [{**part, "layout": "blocks"}]}) == 3 * (256 * ITEM + INDEX)
    assert stored_bytes(A, {"parts": [{**part, "layout": "windows"}]}) == 48 * (16 * ITEM + INDEX)
    short = [{**part, "layout": "ell", "at_most": 8}, {**part, "layout": "ell", "at_most": 16}]
    assert stored_bytes(A, {"parts": short}) == 48 * (16 * (ITEM + INDEX) + INDEX)
