"""Tests that run the benchmark scripts on one small matrix: they check results, write records and resume."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

SCRIPTS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    m = scipy.sparse.random_array((300, 300), density=0.02, format="csr", random_state=np.random.default_rng(0))
    scipy.sparse.save_npz(tmp_path / "small.npz", m.astype(np.float32))
    return tmp_path


def run_script(name: str, *arguments: object) -> str:
    command = [sys.executable, str(SCRIPTS / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.full
def test_peers_measures_once_and_resumes(folder: Path) -> None:
    out = folder / "out.jsonl"
    given = ("--matrices", folder, "--min-nnz", 1, "--ops", "spmv,spmm3", "--peers", "scipy", "--rounds", 3)
    given += ("--footprint", 1 << 20)
    text = run_script("peers.py", *given, "--threads", 1, "--json", out)
    assert "geomean" in text
    assert "worst: small" in text
    cases = [record for record in records(out) if record["kind"] == "case"]
    assert [case["operation"] for case in cases] == ["spmv", "spmm3"]
    assert all(case["left_out"] == {} for case in cases)
    assert set(cases[0]["times"]) == {"autosparse", "autosparse-out", "scipy"}  # type: ignore[call-overload]
    assert all(case["roofline"]["least_s"] > 0 for case in cases)  # type: ignore[index]
    assert "| spmm3 |" in run_script("peers.py", "--paper", "--threads", 1, "--json", out)
    run_script("peers.py", *given, "--threads", 1, "--json", out)
    assert [record for record in records(out) if record["kind"] == "case"] == cases
    assert "geomean" in run_script("peers.py", "--report", "--threads", 1, "--json", out)


def test_amortisation_counts_every_product(folder: Path) -> None:
    out = folder / "out.jsonl"
    given = ("--matrices", folder, "--min-nnz", 1, "--ops", "spmv", "--calls", "1,30", "--repeats", 1)
    text = run_script("amortisation.py", *given, "--threads", 1, "--json", out)
    assert "spmv N=30" in text
    cases = [record for record in records(out) if record["kind"] == "case"]
    assert [case["n_measured"] for case in cases] == [1, 30]


@pytest.mark.full
def test_tiers_are_measured_side_by_side_and_reported_from_the_records(folder: Path) -> None:
    out = folder / "out.jsonl"
    given = ("--matrices", folder, "--min-nnz", 1, "--groups", "all", "--ops", "spmv,sddmm8", "--rounds", 3)
    given += ("--threads", 1, "--budget", 1, "--peers", "openmp,torch", "--json", out)
    text = run_script("tiers.py", *given)
    cases = [record for record in records(out) if record["kind"] == "case"]
    assert [case["operation"] for case in cases] == ["spmv", "sddmm8"]
    for case in cases:
        assert {"off", "estimate", "measure", "full"} <= set(case["times"])  # type: ignore[call-overload]
        facts, times = case["facts"], case["times"]
        chosen = facts["full"]["schedule"]  # type: ignore[index]
        alike = [tier for tier in ("off", "estimate", "measure") if facts[tier].get("schedule") == chosen]  # type: ignore[index]
        assert all(times[tier] == times["full"] for tier in alike)  # type: ignore[index]
    run_script("tiers.py", *given)
    assert [record for record in records(out) if record["kind"] == "case"] == cases
    again = run_script("tiers.py", "--report", "--threads", 1, "--json", out)
    assert again.strip() in text
    assert again.count("measure (top-10) of full") == 2


def test_busy_leaves_no_process_behind(folder: Path) -> None:
    anything = ("--min-nnz", 1, "--below", 3600)  # even if products take long on a busy machine
    text = run_script("busy.py", "--matrices", folder, *anything, "--seconds", 0.05, "--threads", 1)
    assert "small" in text
    assert "busy neighbours" in text
    busy = importlib.import_module("busy")

    started: list[subprocess.Popen[bytes]] = []

    def interrupted() -> None:
        with busy.busy_cores(2) as spinning:
            started.extend(spinning)
            assert [process.poll() for process in spinning] == [None, None]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_overhead_compares_calls_and_imports() -> None:
    text = run_script("overhead.py", "--rounds", 3, "--imports", 1, "--threads", 1)
    assert "A.T @ x" in text
    assert "import autosparse" in text


def test_a_sweep_measures_in_any_order_and_resumes(folder: Path) -> None:
    (folder / "index.csv").write_text("name,rows,cols,nnz,group,is_tensor\nsmall,300,300,1800,small,0\n")
    out = folder / "sweep.jsonl"
    given = ("--matrices", folder, "--min-nnz", 1, "--columns", "8", "--dtypes", "float32", "--budget", 0.5)
    given += ("--rounds", 3, "--isas", "avx2", "--tiers", "estimate,measure", "--json", out)
    assert "4 plans of 1 matrices" in run_script("sweep.py", *given)
    cases = [record for record in records(out) if record["kind"] == "case"]
    names = (f"small|float32|8|{threads}|avx2|{tier}" for threads in (1, 2) for tier in ("estimate", "measure"))
    assert {case["key"] for case in cases} == set(names)
    assert all("not trained " in case["why"] for case in cases if case["tier"] == "estimate")  # type: ignore[operator]
    run_script("sweep.py", *given)
    assert [record for record in records(out) if record["kind"] == "case"] == cases
    assert "below 0.95" in run_script("sweep.py", *given, "--report")


def test_any_beginning_of_a_sweep_is_a_sample_of_all_of_it() -> None:
    cases = importlib.import_module("sweeplib.cases")
    matrices = [{"name": f"m{at}", "rows": "9", "cols": "9"} for at in range(48)]
    axes = cases.Axes(dtypes=("float32", "float64"), columns=(1, 8, 32, 128, 256), threads=(1, 2), isas=("a", "b"))
    found = cases.in_order(matrices, axes, seed=3)
    assert found == cases.in_order(matrices, axes, seed=3) != cases.in_order(matrices, axes, seed=4)
    assert len(set(found)) == len(found) == 48 * len(axes) == 1920
    for begin in range(0, len(found), 48):  # one pass: every matrix once, every combination once or twice
        part = found[begin : begin + 48]
        assert len({case.matrix for case in part}) == 48
        assert len({(case.dtype, case.columns, case.threads, case.isa) for case in part}) == len(axes)


def test_ratios_need_rounds_until_clear_of_the_limit_and_low_ones_are_remeasured() -> None:
    comparison, worker = (importlib.import_module(f"sweeplib.{name}") for name in ("comparison", "worker"))
    rounds = comparison.Rounds(least=8, most=31, clear_of=0.95)
    assert comparison.is_clear([1.0] * 8, rounds)
    assert not comparison.is_clear([1.0] * 7, rounds)
    assert not comparison.is_clear([1.0] * 7 + [0.9], rounds)  # of eight values the smallest may be the median
    assert comparison.is_clear([1.0] * 20 + [0.9] * 2, rounds)
    assert not comparison.is_clear([0.94] * 31, rounds)
    assert worker.counted([{"new": 1.0, "out": 1.1}]) == {"new": 1.0, "out": 1.1}
    low = [{"new": 0.5, "out": 1.0}, {"new": 0.98, "out": 1.0}, {"new": 0.98, "out": 1.0}]
    assert worker.counted(low)["new"] == pytest.approx(0.98)


def test_transposed_products_are_timed_in_every_way(folder: Path) -> None:
    out = folder / "transposed.jsonl"
    given = ("--rows", 2000, "--cols", "10", "--columns", "16", "--dtypes", "float64", "--rounds", 2, "--json", out)
    assert "times SciPy's speed" in run_script("transposed.py", *given)
    assert set(records(out)[0]["times"]) == {"scipy", "csr.T", "csr.T out=", "csc"}  # type: ignore[call-overload]


def test_products_of_all_patterns_are_timed() -> None:
    assert "of 128 cases are slower than SciPy" in run_script("patterns.py", "--quick", "--threads", 1)


def test_numbered_values_are_measured_beside_plain_ones(folder: Path) -> None:
    out = folder / "out.jsonl"
    text = run_script("numbered.py", "--matrices", folder, "--only", "small", "--budget-s", 0.2, "--json", out)
    assert "| small | 1,800 |" in text
    assert set(records(out)[0]["seconds"]) == {"scipy", "default", "numbered", "plain"}  # type: ignore[call-overload]


@pytest.mark.full
def test_pauses_are_measured_in_fresh_processes(tmp_path: Path) -> None:
    out = tmp_path / "pauses.jsonl"
    text = run_script("pauses.py", "--quick", "--json", out)
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["between"] for one in found] == ["80", "dot"]
    assert all(one["tight_us"] > 0 and one["paused_us"] > 0 and one["n"] > 0 for one in found)
    assert text.count("\n| ") == 3


@pytest.mark.full
def test_products_between_calls_of_other_libraries_are_measured_in_fresh_processes(tmp_path: Path) -> None:
    out = tmp_path / "neighbours.jsonl"
    text = run_script("neighbours.py", "--quick", "--json", out)
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert {one["neighbour"] for one in found} == {"nothing", "numpy"}
    assert {one["contender"] for one in found} == {"autosparse", "openmp", "scipy"}
    assert all(0 < one["product_us"] <= one["cycle_us"] for one in found)
    assert text.count("\n| small |") == 4


@pytest.mark.full
def test_rates_are_measured_in_fresh_processes(tmp_path: Path) -> None:
    out = tmp_path / "rates.jsonl"
    run_script("rates.py", "--measure", out, "--processes", 2)
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(found) == 2
    assert all(one["memory"] > 0 and one["took_ms"] > 0 for one in found)


@pytest.mark.full
def test_threads_are_measured_one_number_after_the_other(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    text = run_script("many_cores.py", "--quick", "--smallest", "--threads", "1,2", "--json", out)
    assert text.startswith("| matrix | operation | threads |")
    found = json.loads(out.read_text())
    assert {one["threads"] for one in found} == {1, 2}
    assert all(one["median_s"]["autosparse-out"] > 0 for one in found)


@pytest.mark.full
def test_networks_of_waco_are_compared_with_trees_and_statistics(tmp_path: Path) -> None:
    out = tmp_path / "found.jsonl"
    text = run_script("waco_network.py", "--quick", "--ops", "spmv", "--out", out)
    found = records(out)
    if not any(one["op"] == "spmv" for one in found):
        pytest.skip("no model is shipped for this machine")
    assert {"statistics", "boosted", "waco"} == set(found[0]["costs"])  # type: ignore[call-overload]
    for title in ("statistics model", "boosted trees", "WACO's network and graph"):
        assert f"| quick | spmv | 1 | {title} |" in text
    assert out.with_suffix(".md").read_text().strip() == text.strip()
    assert records(out) == found
    assert run_script("waco_network.py", "--report", "--out", out) == text
