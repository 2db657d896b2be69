"""Tests that the page on explanations names every section and line of an explanation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse

import autosparse
from autosparse.explain import explain_einsum
from autosparse.explain.sections import sections
from autosparse.explain.sparse_products import WAYS
from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "howto" / "explain.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="needs the sources: this is an installed copy")


@pytest.mark.parametrize("is_tuned", [False, True], ids=["untuned", "tuned"])
@pytest.mark.parametrize("copy", [None, False], ids=["owned", "shared"])
def test_every_line_of_an_explanation_is_on_the_page(is_tuned, copy):
    m = scipy.sparse.random_array((400, 300), density=0.05, format="csr", random_state=np.random.default_rng(0))
    A = autosparse.csr(m, copy=copy)
    if is_tuned:
        A.tune("matmul", columns=4, runs=10_000, effort="measure", budget_s=0.2)
    A @ np.ones((300, 4))
    assert n_lines(sections(A.explain(4).report)) > 15


def n_lines(found):
    """Return the number of lines in the sections `found`, all of which must be on the page."""
    text = PAGE.read_text(encoding="utf-8")
    labels = {label for one in found for label, _ in one.facts if label}
    assert sorted(label for label in labels if f"`{label}`" not in text) == []
    titles = {one.title for one in found[1:] if not one.title.startswith("einsum: ")}  # terms of a sum
    assert sorted(title for title in titles if title not in text) == []
    return len(labels)


def test_every_line_on_other_products_is_on_the_page():
    rng = np.random.default_rng(0)
    A = autosparse.csr(scipy.sparse.random_array((60, 60), density=0.1, format="csr", random_state=rng))
    T = autosparse.tensor(np.array([[0, 1, 2], [2, 1, 0], [0, 0, 1]]), np.ones(3), shape=(3, 3, 3))
    ones = np.ones(60)
    assert n_lines(sections(T.explain(4).report))
    explained = [A.explain(A), explain_einsum("ij,jk->ik", A, A)]
    explained += [explain_einsum("ij,jk,ik->", A, A, A), explain_einsum("ij + ij -> ij", A, A)]
    explained += [explain_einsum("ij,j->i", A, ones, semiring="min_plus"), explain_einsum("ij,jk,k->i", A, A, ones)]
    assert all(n_lines(one.sections) for one in explained)


def test_every_solver_of_sparse_products_is_in_the_reference():
    text = (REPOSITORY / "docs" / "reference" / "products.md").read_text(encoding="utf-8")
    section = text.partition("## Products of sparse matrices")[2]
    named = [line.split("|")[1].strip(" `") for line in section.splitlines() if line.startswith("| `")]
    assert named == [name for name in WAYS if name != "by class"]


def test_advice_on_neighbours_is_on_the_page():
    A = autosparse.csr(np.eye(30))
    report = dataclasses.replace(A.explain().report, cores_are_contended=True)
    found = [one for one in sections(report) if one.title == "Neighbours"]
    assert n_lines(found) == 3
