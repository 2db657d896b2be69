"""Tests of the counts in the paper's Figure 6, of its unpublished kernel, and of the classes of equal cost."""

from __future__ import annotations

import pytest

from tests.einsum.figure6 import NAMED, Rules, full_frontier, taco_frontier

FULL = {  # numbers of programs, of programs in the frontier, of classes in the frontier
    "SpMV": (8, 4, 1),
    "SpMV2": (144, 28, 1),
    "SpGEMM": (96, 12, 1),
    "SpGEMM2": (20736, 292, 4),
    "SpGEMMH": (102272, 204, 1),
    "SSpGEMM": (119296, 20, 6),
    "SpMTTKRP": (3631104, 30, 10),
}
TACO = {
    "SpMV": (4, 4, 1),
    "SpMV2": (24, 24, 1),
    "SpGEMM": (16, 4, 1),
    "SpGEMM2": (32, 4, 2),
    "SpGEMMH": (144, 4, 1),
    "SpMTTKRP": (384, 20, 13),
}
OF_NOVEMBER = {"SpGEMMH": (336, 4), "SpMTTKRP": (768, 20), "SSpGEMM": (368, 22)}
HEAVY = {"SpGEMMH", "SSpGEMM", "SpMTTKRP"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] if name in HEAVY else []) for name in FULL]
)
def test_unrestricted_counts(name):
    """A `where` may keep all loops outside it, as in the version of the authors' code that produced these counts."""
    found = full_frontier(NAMED[name], keep_outer=True)
    assert (found.n_programs, found.n_frontier, len(found.classes)) == FULL[name]
    assert sum(1 for _ in found.members()) == found.n_frontier


@pytest.mark.parametrize("name", TACO)
def test_counts_of_the_taco_subset(name):
    found = taco_frontier(NAMED[name])
    assert (found.n_programs, found.n_frontier, len(found.classes)) == TACO[name]


def test_the_published_frontier_of_spmttkrp_has_its_permutation_bug():
    found = taco_frontier(NAMED["SpMTTKRP"], rules=Rules(has_permutation_bug=True))
    assert (found.n_programs, found.n_frontier) == (384, 23)


@pytest.mark.parametrize("name", OF_NOVEMBER)
def test_the_taco_subset_with_loops_kept_outside(name):
    found = taco_frontier(NAMED[name], keep_outer=True)
    assert (found.n_programs, found.n_frontier) == OF_NOVEMBER[name]


@pytest.mark.parametrize("name", ["SpMV", "SpMV2", "SpGEMM", "SpGEMM2"])
def test_the_variant_of_the_rule_changes_nothing_for_small_kernels(name):
    found = full_frontier(NAMED[name], keep_outer=False)
    assert (found.n_programs, found.n_frontier, len(found.classes)) == FULL[name]


@pytest.mark.parametrize(
    ("rules", "counts"),
    [
        (Rules(has_dimension_costs=False, has_read_costs=False), (2, 3, 2)),
        (Rules(has_dimension_costs=False), (2, 11, 8)),
        (Rules(has_read_costs=False), (4, 10, 4)),
    ],
    ids=["no sunk costs", "no dimensions", "no reads"],
)
def test_sunk_costs_decide(rules, counts):
    found = [
        full_frontier(NAMED[name], keep_outer=False, rules=rules).n_frontier for name in ("SpMV", "SpMV2", "SpGEMM")
    ]
    assert tuple(found) == counts
