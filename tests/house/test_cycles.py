"""Test that imports form no cycle, whether they stand at the top, inside functions or for type checkers."""

from __future__ import annotations

import ast

from tests.house.sources import library


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


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
