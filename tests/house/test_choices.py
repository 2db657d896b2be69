"""House tests of decision code: candidates are identified by choice, and numbers are data."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.sources import sources

DECIDING = ("autosparse.tuning", "autosparse.tuner.search")
"""Packages that choose among candidates."""
EINSUM = ("candidates", "choice", "cost", "race", "remembered")
PLANNERS = (*DECIDING, "autosparse.cuda", *(f"autosparse.contraction.{name}" for name in EINSUM))
"""Packages and prefixes of modules of all planners: CPU, GPU and einsum (candidates, choice, cost)."""


@pytest.mark.parametrize("pattern", [r"(?<![\w.])id\(", r"\bschedule is (not )?None\b", r"\bschedule=None\b"])
def test_candidates_are_identified_by_choice(pattern: str) -> None:
    """Neither the address of an object nor the absence of a schedule names a candidate: its `Choice` does."""
    deciding = [one for one in sources() if one.name.startswith(PLANNERS)]
    assert len(deciding) > 80
    found = [
        f"{one.name}:{at}"
        for one in deciding
        for at, line in enumerate(one.text.splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert not found, found


PLAIN = (0.0, 0.5, 1.0, 2.0)
MAX_NUMBERS = 49
"""Maximum number of other float literals at module level in decision code; lower it when one becomes data."""


def test_numbers_of_decisions_are_data() -> None:
    found = [
        f"{one.where(node)} {constant.value}"
        for one in sources()
        if one.name.startswith(DECIDING)
        for node in one.tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, float) and constant.value not in PLAIN
    ]
    assert len(found) <= MAX_NUMBERS, f"write it to autosparse/targets/*.json, with its origin: {found}"
