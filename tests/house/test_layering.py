"""Imports point down, and the mapped folders exist once."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.house.sources import REPOSITORY, Source, library

LAYERS = (
    {"errors", "notices", "config", "_version", "log", "forking"},
    {"core"},
    {"ops"},
    {"gpu"},
    {"_native", "tuner", "cache"},
    {"operands"},
    {"dispatch"},
    {"tuning"},
    {"calibration", "accelerators"},
    {"arrays", "asymptotic", "cuda", "dask", "explain", "ours", "torch", "linalg", "csgraph", "cli"}
    | {"__main__", "__init__", "_names"},
)
"""A module may import its own layer and those above it in this table. A new module needs a place here."""

SIDEWAYS = {("autosparse._native.c.build", "cache")}
"""The only import between the three engines (DESIGN: kernels are kept by the cache)."""

UPWARDS = {
    ("autosparse.core.pattern", "_native"),  # a pattern's hash is computed by the runtime, on first use
    ("autosparse.ops.sddmm", "_native"),  # rows of operations name what computes them
    ("autosparse.ops.sddmm", "operands"),
    ("autosparse.dispatch.executor", "tuning"),  # imported when products have paid for it, or when a user asks
    ("autosparse.dispatch.state", "tuning"),
}
"""The only imports from a lower layer, each inside a function."""

ENGINES = LAYERS[3]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
BARE = ("tuner", "cache", "_native")


def imported(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Every absolute module name that `source` imports, inside functions too; names for type checkers aside."""
    typing_only = {
        child
        for node in ast.walk(source.tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for child in ast.walk(statement)
    }
    for node in ast.walk(source.tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source.where(node)}: relative import"
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def ours(name: str) -> str | None:
    """The part of autosparse that the imported name lives in."""
    parts = name.split(".")
    return parts[1] if parts[0] == "autosparse" and len(parts) > 1 else None


def test_every_module_has_a_layer():
    assert {source.part for source in library()} <= set(LEVEL), "add the new module to LAYERS"


@pytest.mark.parametrize("source", library(), ids=lambda source: source.name)
def test_imports_point_down(source):
    for node, name in imported(source):
        target = ours(name)
        if target not in LEVEL:  # not ours, or a name of the lazy package itself
            assert target is None or source.part in LAYERS[-1], f"{source.where(node)} imports {name} of the surface"
            continue
        down = LEVEL[target] <= LEVEL[source.part] or (source.name, target) in UPWARDS
        assert down, f"{source.where(node)} imports {name}, which lies above it"
        if {source.part, target} <= ENGINES and source.part != target:
            assert (source.name, target) in SIDEWAYS, f"{source.where(node)} imports {name} sideways"


@pytest.mark.parametrize("source", library(), ids=lambda source: source.name)
def test_no_bare_import_of_mapped_folders(source):
    for node, name in imported(source):
        assert name.split(".")[0] not in BARE, f"{source.where(node)}: write autosparse.{name}"


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
    """From the repository root, where a bare `import tuner` would find a second copy."""
    names = [source.name for source in library() if not source.name.endswith("__main__")]
    script = USE_EVERYTHING.format(names=names, bare=BARE)
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
