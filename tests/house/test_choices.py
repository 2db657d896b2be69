"""House tests of decision code: candidates are identified by choice, and numbers are data."""

from __future__ import annotations

import ast
import json
import re

import pytest

from autosparse.targets import priors
from tests.house.sources import sources

DECIDING = ("autosparse.tuning", "autosparse.tuner.search")
"""Packages that choose among candidates."""
EINSUM = ("candidates", "choice", "cost", "race", "remembered")
CHOOSING = (*DECIDING, "autosparse.cuda", *(f"autosparse.contraction.{name}" for name in EINSUM))
"""Packages and prefixes of modules of all planners: CPU, GPU and einsum (candidates, choice, cost)."""
PLANNERS = (*DECIDING, "autosparse.contraction", "autosparse.cuda")
"""Packages that choose among candidates, and those of einsum programs and of products on GPUs."""


@pytest.mark.parametrize("pattern", [r"(?<![\w.])id\(", r"\bschedule is (not )?None\b", r"\bschedule=None\b"])
def test_candidates_are_identified_by_choice(pattern: str) -> None:
    """Neither the address of an object nor the absence of a schedule names a candidate: its `Choice` does."""
    deciding = [one for one in sources() if one.name.startswith(CHOOSING)]
    assert len(deciding) > 80
    found = [
        f"{one.name}:{at}"
        for one in deciding
        for at, line in enumerate(one.text.splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert not found, found


PLAIN = (0.0, 0.5, 1.0, 2.0)


def test_numbers_of_decisions_are_data() -> None:
    found = [
        f"{one.where(node)} {constant.value}"
        for one in sources()
        if one.name.startswith(PLANNERS)
        for body in (one.tree, *(node for node in ast.walk(one.tree) if isinstance(node, ast.ClassDef)))
        for node in body.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, float) and constant.value not in PLAIN
    ]
    assert not found, f"write it to autosparse/targets/*.json, with its origin: {found}"


def test_every_value_is_read() -> None:
    text = "".join(one.text for one in sources())
    files = [json.loads(file.read_text(encoding="utf-8"))["values"] for file in (priors.PRIORS, priors.POLICY)]
    rows = {
        row
        for name, found in (files[0] | files[1]).items()
        for row in found
        if f'numbers("{name}")' not in text and not row.startswith("error of ")
    }
    assert len(rows) > 60, "the search finds nothing any more"
    assert not {row for row in rows if f'"{row}"' not in text}


def test_there_is_one_choice_and_one_key_of_plans() -> None:
    found = [
        (match[1], one.name, "(Protocol)" in match[0])
        for one in sources()
        if one.name.startswith("autosparse.")
        for match in re.finditer(r"^class (\w*(?:Bound|Choice|PlanKey))\b.*", one.text, re.MULTILINE)
    ]
    classes = [(name, module) for name, module, is_protocol in found if not is_protocol]
    assert sorted(classes) == [("Choice", "autosparse.core.solver"), ("PlanKey", "autosparse.cache.keys")]
    assert {name for name, _, is_protocol in found if is_protocol} == {"Bound"}
