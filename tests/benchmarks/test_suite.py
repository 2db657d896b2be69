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

    m = scipy.sparse.random_array((60, 60), density=0.1, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    results = [OPERATIONS[operation](m, by)() for by in ("scipy", "off")]
    if operation == "spgemm":
        results = [one.toarray() for one in results]
    elif operation == "sddmm":
        results[1] = results[1].data
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


def test_surfaces_run(monkeypatch):
    from suite import bench_surfaces, cases

    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(cases, "matrix", lambda name: scipy.sparse.eye_array(40, dtype=np.float32, format="csr"))
    for benchmark, by in itertools.product((bench_surfaces.Torch(), bench_surfaces.Dask()), ("torch", "override")):
        if isinstance(benchmark, bench_surfaces.Dask):
            pytest.importorskip("dask", reason="dask is not installed")
            by = {"torch": "scipy", "override": "ours"}[by]
        benchmark.setup("poisson", by)
        for name in measured(type(benchmark)):
            getattr(benchmark, name)("poisson", by)
        benchmark.teardown("poisson", by)
