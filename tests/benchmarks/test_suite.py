"""Tests of the asv suite: classes are found, methods take the declared parameters, the smallest benchmark runs."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import autosparse

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
CONFIGURATION = json.loads((FOLDER / "asv.conf.json").read_text(encoding="utf-8"))
SUITE = FOLDER / CONFIGURATION["benchmark_dir"]
KINDS = ("time_", "track_", "mem_", "peakmem_")
"""Prefixes of the methods that asv runs."""


def classes() -> list[type]:
    found = []
    for path in sorted(SUITE.glob("bench_*.py")):
        module = importlib.import_module(f"{SUITE.name}.{path.stem}")
        found += [one for _, one in inspect.getmembers(module, inspect.isclass) if one.__module__ == module.__name__]
    return found


def measured(one: type) -> list[str]:
    return [name for name in dir(one) if name.startswith(KINDS)]


@pytest.mark.parametrize("one", classes(), ids=lambda one: one.__name__)
def test_methods_take_the_parameters(one):
    names = list(getattr(one, "param_names", ()))
    params = getattr(one, "params", ())
    axes = params if params and isinstance(params[0], tuple | list) else [params] * bool(params)
    assert len(axes) == len(names)
    assert all(axes)
    assert measured(one) != []
    for method in ("setup", "teardown", *measured(one)):
        if hasattr(one, method):
            assert list(inspect.signature(getattr(one, method)).parameters) == ["self", *names], method


def test_every_benchmark_has_a_recorded_history():
    recorded = set()
    for path in (FOLDER / "results" / "asv").glob("*/*.json"):
        recorded |= set(json.loads(path.read_text(encoding="utf-8")).get("results", ()))
    wanted = {
        f"{one.__module__.partition('.')[2]}.{one.__name__}.{name}" for one in classes() for name in measured(one)
    }
    assert wanted
    assert sorted(wanted - recorded) == []


def test_the_smallest_runs():
    from suite.bench_overhead import TinyProduct

    for n, by in itertools.product(*TinyProduct.params):
        benchmark = TinyProduct()
        benchmark.setup(n, by)
        for name in measured(TinyProduct):
            getattr(benchmark, name)(n, by)
        assert (benchmark.A @ benchmark.x)[1] == 4.0


@pytest.mark.parametrize("operation", ["sddmm", "mttkrp", "spgemm", "transposed", "triangular"])
def test_operations_agree_with_the_usual_way(operation):
    from suite.bench_operations import OPERATIONS

    m = scipy.sparse.random_array(
        (60, 60), density=0.1, format="csr", dtype=np.float32, random_state=np.random.default_rng(0)
    )
    results = [OPERATIONS[operation](m, by)() for by in ("scipy", "off")]
    if operation == "spgemm":
        results = [one.toarray() for one in results]
    elif operation == "sddmm":
        results[1] = results[1].data
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


def test_surfaces_run(monkeypatch):
    from suite import bench_surfaces, cases

    monkeypatch.setattr(cases, "matrix", lambda name: scipy.sparse.eye_array(40, dtype=np.float32, format="csr"))
    for surface, package in ((bench_surfaces.Torch, "torch"), (bench_surfaces.Dask, "dask")):
        pytest.importorskip(package, reason=f"{package} is not installed")
        for by in surface.params[1]:
            benchmark = surface()
            benchmark.setup("poisson", by)
            for name in measured(surface):
                getattr(benchmark, name)("poisson", by)
            benchmark.teardown("poisson", by)


def test_blocks_of_dask_give_the_same_product_by_every_way(monkeypatch):
    from suite import bench_surfaces, cases

    pytest.importorskip("dask", reason="dask is not installed")
    m = scipy.sparse.random_array(
        (40, 30), density=0.3, format="csr", dtype=np.float32, random_state=np.random.default_rng(0)
    )
    monkeypatch.setattr(cases, "matrix", lambda name: m)
    for by in bench_surfaces.Dask.params[1]:
        benchmark = bench_surfaces.Dask()
        benchmark.setup("poisson", by)
        found = np.concatenate(benchmark.run()) if by == "scipy pieces" else benchmark.run()
        np.testing.assert_allclose(found, m @ benchmark.x, rtol=1e-5, atol=1e-6)
        benchmark.teardown("poisson", by)


def test_every_solver_that_scipy_has_is_measured():
    from suite.bench_linalg import SOLVERS
    from suite.bench_operations import OPERATIONS

    ours = {name for name in autosparse.linalg.OURS if hasattr(scipy.sparse.linalg, name)}
    assert "triangular" in OPERATIONS
    assert ours - {"spsolve_triangular"} == set(SOLVERS)


@pytest.mark.parametrize("by", ["scipy", "ours"])
def test_solvers_run(by, monkeypatch):
    from suite import bench_linalg

    line = scipy.sparse.diags_array([-1.0, 3.0, -1.0], offsets=[-1, 0, 1], shape=(30, 30), format="csr")
    monkeypatch.setattr(bench_linalg, "system", lambda: line)
    for solver in bench_linalg.SOLVERS:
        benchmark = bench_linalg.Solver()
        benchmark.setup(solver, by)
        benchmark.time_solve(solver, by)
        benchmark.teardown(solver, by)


@pytest.mark.parametrize("by", ["scipy", "ours"])
@pytest.mark.parametrize("program", ["first product", "twenty products", "slices"])
def test_programs_of_new_processes_run(program, by, monkeypatch):
    from suite import bench_call, cases

    m = scipy.sparse.eye_array(1100, dtype=np.float32, format="csr")
    monkeypatch.setattr(cases, "matrix", lambda name: m)
    benchmark = bench_call.NewProcess()
    benchmark.setup(program, by)
    assert benchmark._seconds(program, by) > 0.0
    benchmark.teardown(program, by)


@pytest.mark.parametrize("semiring", ["min_plus", "max_times", "or_and"])
def test_semirings_run(semiring, monkeypatch):
    from suite import bench_einsum, cases

    monkeypatch.setattr(cases, "matrix", lambda name: -scipy.sparse.eye_array(40, dtype=np.float32, format="csr"))
    benchmark = bench_einsum.Semiring()
    benchmark.setup("poisson", semiring)
    benchmark.time_product("poisson", semiring)
    benchmark.teardown("poisson", semiring)
