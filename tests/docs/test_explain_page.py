"""Tests that the page on explanations names every section and line of an explanation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import autosparse
from autosparse.explain.sections import sections
from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "howto" / "explain.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="needs the sources: this is an installed copy")


@pytest.mark.parametrize("is_tuned", [False, True], ids=["untuned", "tuned"])
@pytest.mark.parametrize("copy", [None, False], ids=["owned", "shared"])
def test_every_line_of_an_explanation_is_on_the_page(is_tuned, copy):
    m = scipy.sparse.random_array((400, 300), density=0.05, format="csr", rng=np.random.default_rng(0))
    A = autosparse.csr(m, copy=copy)
    if is_tuned:
        A.tune("matmul", columns=4, runs=10_000, effort="measure", budget_s=0.2)
    A @ np.ones((300, 4))
    text = PAGE.read_text(encoding="utf-8")
    found = sections(A.explain(4).report)
    labels = {label for one in found for label, _ in one.facts if label and one.title != "Neighbours"}
    assert len(labels) > 15
    assert sorted(label for label in labels if f"`{label}`" not in text) == []
    assert sorted(one.title for one in found[1:] if one.title not in text) == []
