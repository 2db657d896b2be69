"""Tests that the examples in docstrings of public objects run, and that no public object lacks one."""

from __future__ import annotations

import ast
import doctest
import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.config import reload_options, set_options

NEEDS = {"torch": "torch", "dask": "distributed"}
"""Sub-package -> the modules that its examples import besides NumPy (np), SciPy (sps) and autosparse (asp)."""
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


README = Path(asp.__file__).resolve().parent.parent / "README.md"


@pytest.mark.skipif(not README.is_file(), reason="needs the sources: README.md")
def test_the_first_example_of_the_readme_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    code = README.read_text(encoding="utf-8").split("```python\n", 1)[1].split("```", 1)[0]
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("matmul: A @ B")


def exported(package: str) -> Iterator[str]:
    """Return the names that a sub-package re-exports.

    Its source is parsed and not imported, because its dependencies may be missing.
    """
    text = (Path(asp.__file__).parent / package / "__init__.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{package}.{one.name}" for one in node.names if one.asname == one.name)


def public_names() -> list[str]:
    from autosparse import _HOME_OF, light

    light.complete()  # the methods of light matrices have no examples
    methods = {name for name in dir(asp.csr_array) if not name.startswith("_")} - set(dir(sps.csr_array))
    return sorted([*_HOME_OF, *(f"csr_array.{name}" for name in methods), *exported("torch"), *exported("dask")])


def public_object(name: str) -> Any:
    head, _, tail = name.rpartition(".")
    if head in NEEDS:
        pytest.importorskip(NEEDS[head], reason=f"{NEEDS[head]} is not installed")
    return inspect.getattr_static(getattr(asp, head), tail) if head else getattr(asp, tail)


def example(name: str) -> str | None:
    text = public_object(name).__doc__ or ""
    return text if ">>>" in text else None


@pytest.fixture
def space(tmp_path, monkeypatch):
    """Return the names that an example may use; restore options, warnings, folder and cache afterwards."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        set_options(cache_dir=tmp_path / "cache")
        yield {"asp": asp, "np": np, "sps": sps, "warnings": warnings}
    reload_options()


@pytest.mark.parametrize("name", public_names())
def test_example_of_a_public_object_runs(name, space):
    if (text := example(name)) is None:
        return
    if (package := name.rpartition(".")[0]) in NEEDS:
        space[NEEDS[package]] = pytest.importorskip(NEEDS[package])
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), space, name, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.append, clear_globs=False)
    assert result.failed == 0, "".join(said)
    assert result.attempted > 0


def test_no_public_object_is_without_an_example():
    without = [name for name in public_names() if example(name) is None]
    assert not without, without
