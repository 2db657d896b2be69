"""Tests that a product imports nothing of the laboratory, which one registry and four commands lead to.

`tests/triton/surfaces.py` checks the same of products on a GPU, in the process that runs them.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest
from autosparse._native import runtime_api
from autosparse.tuner import registry
from autosparse.tuner.learned.safetensors import read_metadata

from autosparse.config import get_options, options
from autosparse.core.target import Target
from autosparse.tuning.learned import weights_in_use
from tests.house.sources import REPOSITORY, library
from tests.house.test_layering import imported

LABORATORY = re.compile(
    r"autosparse\.(tuner\.research|calibration|accelerators|dask\.collecting|cli\.(collect|train|transfer|calibrate))"
    r"(\.\w+)*$"
)
"""Modules of the laboratory: `tuner/research`, and what measures, fits and simulates with it above the engines."""
SOME_NAME = re.compile(r"\b(research|calibration|accelerators|collecting|cli)\b")
"""Words of the laboratory's names: a source without any of them is not searched further."""
DOOR = "autosparse.tuner.registry"
TUNING = ("autosparse.tuning", "autosparse.tuner")


def test_only_the_laboratory_imports_the_laboratory() -> None:
    """Check import statements, also inside functions; `autosparse.cli` imports its commands by name from a table."""
    found = [
        f"{source.where(node)} imports {name}"
        for source in library()
        if not LABORATORY.match(source.name) and SOME_NAME.search(source.text)
        for node, name in imported(source)
        if LABORATORY.match(name)
    ]
    assert not found, f"name it in {DOOR} and load it where an option asks for it: {found}"


def named(tree: ast.AST) -> set[str]:
    """Return the texts of a module such as ``"package.module:object"`` that name a module of the laboratory."""
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if LABORATORY.match(text.partition(":")[0])}


def test_only_the_registry_names_the_laboratory() -> None:
    searched = [source for source in library() if SOME_NAME.search(source.text)]
    found = {source.name: texts for source in searched if (texts := named(source.tree))}
    assert [name for name in found if not LABORATORY.match(name)] == [DOOR]
    assert found[DOOR] == {text for entries in registry.ENTRIES.values() for text in entries.values()}


def test_names_of_the_laboratory_are_recognised() -> None:
    for name in ("tuner.research.graph.search.best_first", "accelerators", "calibration.finishing", "dask.collecting"):
        assert LABORATORY.match(f"autosparse.{name}")
        assert SOME_NAME.search(name)
    assert not LABORATORY.match("autosparse.tuner.learned.scorers")
    assert named(ast.parse('load("autosparse.tuner.research.space.waco:waco_space")'))


@pytest.mark.parametrize("entry", [f"{kind} {name}" for kind, names in registry.ENTRIES.items() for name in names])
def test_every_entry_of_the_registry_is_there(entry: str) -> None:
    try:
        assert callable(registry.load(*entry.split()))
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        pytest.skip("torch is not installed")


def test_a_name_without_an_entry_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        registry.load("scorer", "oracle")


def test_the_network_that_an_option_names_is_registered() -> None:
    """Check that the extractor of a file that ``model="waco"`` selects has a scorer."""
    with options(model="waco"):
        path = weights_in_use(get_options(), Target.host().held_to(get_options().isa), "spmm32")
    if path is None:
        pytest.skip("no model is shipped for this machine")
    assert read_metadata(path)["extractor"] in registry.ENTRIES["scorer"]


# -- what a process has imported


START = """
import importlib.util, sys
import numpy as np, scipy.sparse
import autosparse as asp
A = asp.csr_array(scipy.sparse.random(2000, 2000, 0.01, 'csr', np.float32, random_state=0))
B = np.ones((2000, 32), np.float32)
"""
PRODUCTS = """
for _ in range(100):
    A @ B
A @ B[:, 0]
A.T @ B
asp.einsum("ij,jk->ik", A, B)
asp.einsum("ij,ij->i", A, A)
if importlib.util.find_spec("torch") is not None:
    import torch, autosparse.torch
    T = torch.sparse_csr_tensor(A.indptr, A.indices, A.data, A.shape)
    with autosparse.torch.override():
        for _ in range(20):
            T @ torch.ones(2000, 32)
"""
TUNED = """
with asp.options(runs=10**12, overhead=1.0):
    for _ in range(200):
        A @ B
assert "autosparse.tuning.live" in sys.modules, "products did not pay for tuning"
A.tune("matmul", columns=32, effort="full", budget_s=2)
A.tune("sddmm", columns=32, effort="full", budget_s=1)
"""


def loaded_by(script: str, cache: str, **extra: str) -> set[str]:
    """Return the modules of autosparse that a fresh process with an empty cache has imported after `script`."""
    ending = "\nprint(*[name for name in sys.modules if name.startswith('autosparse')])\n"
    environment = {**os.environ, "AUTOSPARSE_CACHE_DIR": cache, "OMP_NUM_THREADS": "2", **extra}
    command = [sys.executable, "-W", "ignore", "-c", START + script + ending]
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
def test_products_and_tuning_import_nothing_of_the_laboratory(tmp_path) -> None:
    found = loaded_by(TUNED + PRODUCTS, str(tmp_path))
    assert {"autosparse.tuner.learned.predict", "autosparse.tuner.search.search"} <= found, "nothing was tuned"
    assert not sorted(filter(LABORATORY.match, found))


@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
def test_a_network_is_loaded_where_an_option_names_it(tmp_path) -> None:
    script = "A.tune('matmul', columns=32, effort='measure', budget_s=1)"
    found = loaded_by(script, str(tmp_path), AUTOSPARSE_MODEL="waco")
    assert "autosparse.tuner.research.inference.network_scorer" in found
    assert "autosparse.tuner.research.graph.search" in found
    assert not [name for name in found if name.startswith("autosparse.tuner.research.graph.build")]


def test_without_effort_no_module_of_tuning_is_imported(tmp_path) -> None:
    found = loaded_by(PRODUCTS, str(tmp_path), AUTOSPARSE_EFFORT="off")
    assert not sorted(name for name in found if name.startswith(TUNING))
