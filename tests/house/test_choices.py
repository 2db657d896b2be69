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


RACES = {
    "autosparse.tuner.research.collect.batches",
    "autosparse.tuner.search.search",
    "autosparse.tuner.search.selection",
    "autosparse.tuning.confirmation",
}
"""Modules that time entrants in the order of `Race`: searches in steps and in one go, checks in service, collection."""
SELECTING = {"autosparse.arrays.planning.sparse_products", "autosparse.contraction.race", "autosparse.cuda.choice"}
"""Planners of sparse products, einsum programs and products on GPUs, which race by one `Selector`."""
LISTING = {
    "autosparse.cuda.choice",
    "autosparse.explain.programs",
    "autosparse.explain.sections",
    "autosparse.explain.sparse_products",
}
"""Modules that explain a kind of product, whose candidates one function lists."""


def naming(pattern: str) -> set[str]:
    """Return the modules with a line that matches `pattern`."""
    return {one.name for one in sources() if re.search(pattern, one.text, re.MULTILINE)}


def test_all_planners_time_candidates_by_one_race() -> None:
    assert naming(r"\bRace\(\S") == RACES
    assert naming(r"(?<!class )\bSelector\(") == SELECTING


def test_one_function_lists_the_candidates_of_all_planners() -> None:
    assert naming(r"\bcandidates_section\(") - {"autosparse.explain.candidates"} == LISTING
    assert naming(r'title="Candidates') == {"autosparse.explain.candidates"}
