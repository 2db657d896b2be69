"""Test that imports form no cycle, whether they stand at the top, inside functions or for type checkers.

An import holds the locks of the modules that it is executing. Two threads that import at the same time must take these
locks in one order, or one of them fails with `_DeadlockError`. A package counts as imported by each of its modules.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from types import ModuleType

import pytest

from autosparse import forking
from tests.house.sources import library

EAGER = {"autosparse.torch", "autosparse.dask", "autosparse.tuner.research.collect", "autosparse.tuner.research.graph"}
"""Packages that import their own modules: two that register with other libraries, and two of the laboratory."""


def graph() -> dict[str, set[str]]:
    modules = {source.name: source for source in library()}
    found: dict[str, set[str]] = {}
    for name, source in modules.items():
        wanted = set()
        for node in source.nodes:
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                members = {f"{node.module}.{alias.name}" for alias in node.names}
                wanted |= (members & set(modules)) or {node.module or ""}
        found[name] = (wanted & set(modules)) - {name}
    return found


def imported_at_once(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run when a module is imported."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt | ast.ExceptHandler))


def lock_order() -> dict[str, set[str]]:
    """Return module -> modules whose locks a thread takes while it holds that module's."""
    modules = {source.name: source.tree for source in library()}
    found: dict[str, set[str]] = {}
    for name, tree in modules.items():
        wanted = {name.rpartition(".")[0]}
        for node in imported_at_once(tree):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            else:
                wanted |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        found[name] = (wanted & set(modules)) - {name, "autosparse"}
    return found


def reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in edges[waiting.pop()] - seen:
            seen.add(name)
            waiting.append(name)
    return seen


def cycles(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    after = {name: reachable(name, edges) for name in edges}
    return {frozenset(other for other in after[name] if name in after[other]) for name in edges if name in after[name]}


def test_no_import_cycles() -> None:
    found = cycles(graph())
    assert not found, f"modules that import each other: {[sorted(one) for one in found]}"


def test_threads_take_the_locks_of_imports_in_one_order() -> None:
    found = [sorted(one) for one in cycles(lock_order()) if not one & EAGER]
    assert not found, f"packages that import their own modules, and these: {found}. Hint: forking.lazy_names"


def test_names_of_a_package_are_imported_at_their_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("imported_lazily")
    monkeypatch.setitem(forking.sys.modules, package.__name__, package)
    package.__getattr__ = forking.lazy_names(package.__name__, {"Lock": "threading"})  # type: ignore[method-assign]
    assert package.Lock is threading.Lock
    assert vars(package)["Lock"] is threading.Lock, "the next look-up finds it at once"
    with pytest.raises(AttributeError, match="module 'imported_lazily' has no attribute 'Other'"):
        package.Other  # noqa: B018


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
