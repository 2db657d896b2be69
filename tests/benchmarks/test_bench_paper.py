"""Tests of the tables that compare results with Tables 4 and 5 of the WACO paper."""

from __future__ import annotations

from typing import Any

from peerlib.paper import paper_table

OURS = {False: "autosparse", True: "autosparse-out"}


def record(matrix: str, operation: str, **times_s: float) -> dict[str, Any]:
    fills = {name: name not in ("autosparse", "scipy") for name in times_s}
    fills |= {name.replace("_", "-"): True for name in times_s if name not in ("autosparse", "scipy")}
    times = {name.replace("_", "-"): {"median_s": time_s} for name, time_s in times_s.items()}
    return {"matrix": matrix, "operation": operation, "times": times, "fills": fills}


def rows_of(*records: dict[str, Any]) -> list[list[str]]:
    lines = paper_table(records, OURS).split("\n")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in [lines[0], *lines[2:]]]


def test_rows_stand_in_the_papers_order_beside_its_figures() -> None:
    times = {"autosparse": 1.0, "autosparse_out": 1.0, "openmp": 2.0}
    operations = ("mttkrp16", "spmm32", "spgemm", "sddmm256", "spmm256", "spmv")
    header, *rows = rows_of(*(record("m", operation, **times) for operation in operations))
    assert [row[0] for row in rows] == ["spmv", "spmm256", "spmm32", "sddmm256", "mttkrp16"]
    assert header.count("WACO") == 2
    assert [row[4] for row in rows] == ["1.54", "1.26", "-", "1.29", "1.35"]  # Table 5, Fixed CSR
    assert [row[8] for row in rows] == ["2.32", "1.68", "-", "-", "-"]  # Table 4, MKL
    assert rows[0][1:4] == ["2.00", "2.00", "1"]
    assert rows[0][5:8] == ["-", "-", "0"]  # MKL did not run


def test_taco_itself_comes_before_its_loop_and_the_faster_mkl_counts() -> None:
    ours = {"autosparse": 3.0, "autosparse_out": 1.0}
    a = record("a", "spmv", **ours, taco=4.0, openmp=2.0, mkl=8.0, mkl_hint=2.0)
    b = record("b", "spmv", **ours, openmp=1.0, mkl=8.0)
    row = rows_of(a, b)[1]
    assert row[1] == "2.00"  # sqrt(4 * 1), against out=, because these peers fill an array
    assert row[5] == "4.00"  # sqrt(2 * 8)
    assert row[3] == row[7] == "2"
