"""Tests of `report` and of the filters of `cache clear`."""

from __future__ import annotations

import autosparse as asp
from autosparse import cache
from autosparse.cli import main
from autosparse.core.plan import Candidate, Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT, Choice, choice_of
from autosparse.explain.cache_report import CacheReport


def remembered(folder):
    """Fill a cache with three plans: a gain, a default kernel that stays, and another operation."""
    asp.set_options(cache_dir=folder)
    faster = Plan(
        choice=choice_of(SuperSchedule()), why="", effort="measure", default_s=3e-3, measured_s=1e-3, tune_s=0.5
    )
    stays = Plan(choice=DEFAULT, why="", effort="measure", default_s=1e-3, measured_s=1e-3, tune_s=0.25)
    store = cache.open_store()
    for n, (plan, operation, columns) in enumerate(((faster, "matmul", 8), (stays, "matmul", 1), (stays, "sddmm", 8))):
        key = {"operation": operation, "columns_bucket": columns, "dtype": "float64", "transposed": False}
        store.save("plan", f"{n:032x}", cache.plan_to_record(plan) | {"key": key})


def test_report_and_filtered_clear(tmp_path, capsys):
    remembered(tmp_path / "cache")
    report = CacheReport.of_cache()
    assert sorted(one.what for one in report.plans) == [
        "matmul, 8 columns, float64",
        "matmul, float64",
        "sddmm, 8 columns, float64",
    ]
    page = tmp_path / "page.html"
    assert main(["report", str(page), "--no-pictures"]) == 0
    assert "3, of which 1 are faster" in capsys.readouterr().out
    text = page.read_text()
    assert "matmul, 8 columns, float64" in text
    assert "tuning that kept the default kernel" in text

    assert main(["cache", "ls"]) == 0
    listed = capsys.readouterr().out
    assert "matmul, 8 columns, float64: 3.00 times the default kernel's speed" in listed
    assert "sddmm, 8 columns, float64: the default kernel stays" in listed
    assert main(["cache", "clear", "--operation", "sddmm"]) == 0
    assert "removed 1 entries" in capsys.readouterr().out
    assert {one.key["operation"] for one in CacheReport.of_cache().plans} == {"matmul"}
    assert main(["cache", "clear", "--unused-days", "1"]) == 0
    assert len(CacheReport.of_cache().plans) == 2
    assert main(["cache", "clear", "--kind", "plan"]) == 0
    assert not CacheReport.of_cache().plans


def test_plans_of_programs_and_of_solvers_are_listed_with_their_gain(tmp_path, capsys):
    asp.set_options(cache_dir=tmp_path)
    program = Candidate(choice=Choice("program", "R += T0 * T1"), name="R += T0 * T1")
    gains = Plan(
        choice=program.choice, why="", effort="measure", default_s=2e-3, measured_s=1e-3, candidates=(program,)
    )
    guess = Plan(choice=Choice("program", "R += T0"), why="", effort="estimate")
    for n, (plan, dtype) in enumerate(((gains, "float32"), (guess, ""))):
        key = {"operation": "einsum", "columns_bucket": 1, "dtype": dtype, "transposed": False}
        cache.open_store().save("plan", f"{n:032x}", cache.plan_to_record(plan) | {"key": key})
    assert main(["cache", "ls"]) == 0
    listed = capsys.readouterr().out
    assert "einsum, float32: 2.00 times the default kernel's speed" in listed
    assert "einsum: estimated" in listed
    names = [one.name for one in CacheReport.of_cache().plans]
    assert names == ["R += T0 * T1", "solver program (R += T0)"]
