"""Tests that imports point down, and that each mapped folder is imported under one name only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.house.sources import REPOSITORY, Source, library

LAYERS = (
    {"errors", "notices", "config", "configured", "containment", "_version", "log", "forking", "isa", "scalar"},
    {"core"},
    {"targets"},
    {"ops"},
    {"gpu"},
    {"_native", "tuner", "cache"},
    {"operands"},
    {"dispatch"},
    {"tuning"},
    {"calibration", "accelerators"},
    {
        "arrays",
        "contraction",
        "cuda",
        "dask",
        "explain",
        "interop",
        "ours",
        "reading",
        "scipy_compat",
        "torch",
        "light",
        "linalg",
        "csgraph",
        "cli",
    }
    | {"__main__", "__init__", "_names", "_pyinstaller"},
)
"""Layers of the library, from the bottom up.

A module may import its own layer and the rows above it in this table. A new module needs a row.
"""

SIDEWAYS = {
    ("autosparse._native.c.build", "cache"),  # kernels are stored by the cache
    ("autosparse._native.kernels.dumping", "cache"),  # the cache decides which sources on disk are trusted
    ("autosparse.tuner.features.statistics", "_native"),  # the runtime counts features of patterns
    ("autosparse.tuner.learned.trees", "_native"),  # the runtime evaluates models
    ("autosparse.tuner.research.inference.embeddings", "_native"),
    ("autosparse.tuner.research.hybrid.gpu_plan", "_native"),  # the runtime chooses tiles
}
"""The only imports between the three engines. They form no cycle."""

UPWARDS = {
    ("autosparse.core.pattern", "_native"),  # the runtime computes the hash of a pattern on first use
    ("autosparse.core.target", "_native"),  # the runtime detects the instruction set
    ("autosparse.ops.sddmm", "_native"),  # a row of an operation names its implementation
    ("autosparse.ops.sddmm", "operands"),
    ("autosparse.dispatch.executor", "tuning"),  # imported once products have paid for tuning, or when a user calls it
    ("autosparse.dispatch.first_look", "tuning"),  # imported where an earlier process has left a plan
    ("autosparse.dispatch.state", "tuning"),
}
"""The only imports from a higher layer, each inside a function."""

ENGINES = {"_native", "tuner", "cache"}
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
BARE = ("tuner", "cache", "_native")


def imported(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Return every absolute module name that `source` imports, also inside functions, without type-checking imports."""
    typing_only = {
        child
        for node in source.nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for child in ast.walk(statement)
    }
    for node in source.nodes:
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source.where(node)}: relative import"
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def ours(name: str) -> str | None:
    """Return the part of autosparse that contains the imported name."""
    parts = name.split(".")
    return parts[1] if parts[0] == "autosparse" and len(parts) > 1 else None


def test_every_module_has_a_layer():
    assert {source.part for source in library()} <= set(LEVEL), "add the new module to LAYERS"


def reason_against(source: Source, node: ast.AST, name: str) -> str | None:
    """Return why `source` may not import `name`, or None."""
    target = ours(name)
    if target not in LEVEL:  # another library, or a name of the lazy package itself
        is_fine = target is None or source.part in LAYERS[-1]
        return None if is_fine else f"{source.where(node)} imports {name} of the surface"
    if LEVEL[target] > LEVEL[source.part] and (source.name, target) not in UPWARDS:
        return f"{source.where(node)} imports {name}, which lies above it"
    if {source.part, target} <= ENGINES and source.part != target and (source.name, target) not in SIDEWAYS:
        return f"{source.where(node)} imports {name} sideways"
    return None


def test_imports_point_down():
    every = [(source, node, name) for source in library() for node, name in imported(source)]
    reasons = [reason for one in every if (reason := reason_against(*one)) is not None]
    assert not reasons, reasons


def test_no_bare_import_of_mapped_folders():
    every = [(source, node, name) for source in library() for node, name in imported(source)]
    bare = [source.where(node) for source, node, name in every if name.split(".")[0] in BARE]
    assert not bare, f"write autosparse.<folder>: {bare}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("autosparse.core.pattern", "import autosparse.tuning.planner"),
        ("autosparse.tuner.search.search", "from autosparse.cache import store"),
        ("autosparse.core.pattern", "from autosparse import csr"),
    ],
)
def test_upward_imports_are_detected(name, text):
    node = ast.parse(text).body[0]
    (wanted,) = [alias.name for alias in node.names]
    wanted = wanted if isinstance(node, ast.Import) else f"{node.module}.{wanted}"
    source = next(one for one in library() if one.name == name)
    assert reason_against(source, node, wanted) is not None


USE_EVERYTHING = """
import importlib, sys
import numpy as np
import autosparse
from autosparse.errors import MissingExtraError
for name in {names}:
    try:
        importlib.import_module(name)
    except (MissingExtraError, ModuleNotFoundError) as error:
        assert not str(getattr(error, "name", "")).startswith("autosparse"), error
A = autosparse.csr_array(np.eye(50, dtype=np.float32))
A @ np.ones(50, np.float32)
A.tune("matmul", columns=4, runs=10, effort="estimate")
str(A.explain(np.ones((50, 4), np.float32)))
second = [name for name in {bare} if name in sys.modules]
assert not second, second
"""


def test_mapped_folders_are_imported_once():
    """Run in the repository root, where a bare `import tuner` would find a second copy of the package."""
    names = [source.name for source in library() if not source.name.endswith("__main__")]
    script = USE_EVERYTHING.format(names=names, bare=BARE)
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
