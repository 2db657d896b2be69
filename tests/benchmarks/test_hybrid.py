"""Tests of the benchmark of hybrid formats: ratios, order of the matrices, end-to-end runs that resume."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import hybrid
import numpy as np
import pytest
import scipy.sparse
from peerlib import hybrid_case
from peerlib.hybrid_case import DEFAULT
from peerlib.hybrid_cases import power_law, with_dense_rows
from peerlib.hybrid_table import ratio, report
from peerlib.matrices import MatrixFile
from peerlib.records import ResultFile


def line(off: str, on: str, times_s: dict[str, dict[str, float]]) -> dict[str, object]:
    fastest = {kind: {"schedule": name, **times_s[name]} for kind, name in (("off", off), ("on", on))}
    facts = {"name": "M", "operation": "matmul", "columns": 32, "key": "M matmul 32", "nnz": 1}
    return {"kind": "case", **facts, "fastest": fastest}


def test_ratios_are_of_the_mean_of_both_ways_and_one_for_equal_plans() -> None:
    times_s = {"x": {"fresh": 2.0, "again": 2.0}, "y": {"fresh": 1.0, "again": 4.0}, "z": {"fresh": 1.0, "again": 1.0}}
    assert ratio(line("x", "y", times_s), "on", "off") == pytest.approx(1.0)
    assert ratio(line("x", "z", times_s), "on", "off") == pytest.approx(2.0)
    assert ratio(line(DEFAULT, DEFAULT, {DEFAULT: {}}), "on", "off") == 1.0
    lost = line("z", "x", times_s)
    assert "Below 0.97: M matmul 32 0.50" in report([lost])
    assert "variation between equal searches" not in report([lost])
    lost["fastest"]["again"] = {"schedule": "y", **times_s["y"]}
    assert (
        "| matmul 32 | 1 | 0.500 | 0.500 | 0.500 |" in report([lost]).partition("variation between equal searches")[2]
    )


def test_the_papers_figures_are_over_scipy() -> None:
    times_s = {DEFAULT: {"fresh": 2.0, "again": 1.0}, "scipy": {"fresh": 6.0}, "y": {"fresh": 1.0, "again": 9.0}}
    one = {**line(DEFAULT, "y", times_s), "name": "cora", "times_s": times_s}
    one["fastest"]["single"] = one["fastest"]["off"]
    table = report([one]).partition("Figures 7 and 9")[2]
    assert "| cora | matmul 32 | 3.00 | 3.00 | - | 6.00 | 2.4 (.9) |" in table


@pytest.mark.parametrize("name", ["default", "blocks", "CSR"])
def test_plans_are_timed_as_products(name: str) -> None:
    """A plan's first operator must overwrite the result, and the others must add to it."""
    import hybrid_tables
    from peerlib.tile_times import layers, product

    rng = np.random.default_rng(0)
    cells = np.kron(rng.random((30, 30)) < 0.1, np.ones((4, 4))) + (rng.random((120, 120)) < 0.04)
    A = scipy.sparse.csr_array(cells.astype(np.float32))
    plan = hybrid_tables.plans(A, 32)[0][name]
    shapes = list(layers(plan))
    assert shapes == [(1, 1)] if name == "CSR" else (4, 4) in shapes
    run, B, C = product(A, plan, 32)
    C[:] = np.nan
    run()
    np.testing.assert_allclose(C, A @ B, rtol=1e-4, atol=1e-4)


def test_groups_take_turns_and_the_order_is_fixed(tmp_path: Path) -> None:
    files = []
    for name in "abcd":
        path = tmp_path / f"{name}.npz"
        scipy.sparse.save_npz(path, scipy.sparse.csr_array(np.eye(2)))
        files.append(MatrixFile(name, path, 2))
    index = "name,rows,cols,nnz,is_tensor,group\n" + "".join(f"{name},2,2,2,0,{name in 'abc'}\n" for name in "abcd")
    (tmp_path / "index.csv").write_text(index)
    first = hybrid.drawn(files, tmp_path, None)
    assert hybrid.drawn(files, tmp_path, None) == first
    assert hybrid.drawn(files, tmp_path, 2) == first[:2]
    assert sorted(file.name for file in first) == list("abcd")
    assert "d" in {file.name for file in first[:2]}  # the only one of its group


@pytest.mark.full
def test_a_case_end_to_end_and_again(tmp_path: Path) -> None:
    given = ["--cases", "case study", "--budget-s", "2", "--rounds", "3", "--race-s", "0.1"]
    args = hybrid.arguments([*given, "--cache", str(tmp_path / "cache")])
    out = tmp_path / "out.jsonl"
    hybrid.run(args, ResultFile(out))
    text = out.read_text()
    hybrid.run(args, ResultFile(out))
    assert out.read_text() == text  # nothing is measured twice
    (case,) = ResultFile(out).cases()
    assert {"off", "on", "single"} <= set(case["fastest"])
    assert {way for times in case["times_s"].values() for way in times} == {"fresh", "again"}
    assert "case study" in report([case])


def test_looking_for_composites_is_timed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measured time must include partitions and the composites of the runtime's own loops."""
    small = partial(with_dense_rows, power_law(n=3000, exponent=2.0), 30)
    monkeypatch.setattr(hybrid_case, "MILLION", {"30 dense rows": small})
    n_entries, n_found, seconds = hybrid_case.proposing_s("30 dense rows", rounds=3)
    assert n_entries == small().nnz
    assert n_found > 0
    assert len(seconds) == 3


@pytest.mark.parametrize("name", ["ppi", "arxiv", "proteins"])
def test_generated_graphs_have_the_published_number_of_edges(name: str) -> None:
    from hybrid_gpu import GRAPHS, TOLERANCE, graph

    nodes, edges = GRAPHS[name]
    A = graph(nodes, edges, divisor=32)
    assert A.shape == (nodes // 32, nodes // 32)
    wanted = min(A.shape[0] / 8, edges / nodes) * A.shape[0]
    assert abs(A.nnz - wanted) <= TOLERANCE * wanted
    assert A.has_canonical_format


def test_duplicates_are_merged_and_columns_sorted() -> None:
    from peerlib.hybrid_cases import from_entries

    A = from_entries([2, 0, 2, 0, 2], np.array([3, 1, 0, 1, 3]), (4, 5))
    assert A.has_canonical_format
    np.testing.assert_array_equal(A.indptr, [0, 1, 1, 3, 3])
    np.testing.assert_array_equal(A.indices, [1, 0, 3])
