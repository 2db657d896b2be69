"""Tests of the asv suite: classes are found, methods take the declared parameters, the smallest benchmark runs."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
from pathlib import Path

import pytest

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


def test_the_smallest_runs():
    from suite.bench_overhead import TinyProduct

    for n, by in itertools.product(*TinyProduct.params):
        benchmark = TinyProduct()
        benchmark.setup(n, by)
        for name in measured(TinyProduct):
            getattr(benchmark, name)(n, by)
        assert (benchmark.A @ benchmark.x)[1] == 4.0
