"""Tests of concrete index notation: printed programs can be read again, and malformed ones are refused."""

from __future__ import annotations

import pytest

from autosparse.contraction.assignments import TensorAssignment
from autosparse.contraction.cin.nodes import OperatorCall, TensorAccess, depth
from autosparse.contraction.cin.parser import parse
from autosparse.contraction.cost.model import ContractionCostModel
from autosparse.contraction.programs.bodies import bodies, rewrites
from autosparse.contraction.programs.nests import orders
from autosparse.contraction.programs.protocols import with_protocols
from autosparse.errors import EinsumError
from tests.einsum.figure6 import NAMED, full_frontier


@pytest.mark.parametrize("name", ["SpMV", "SpMV2", "SpGEMM"])
def test_printed_programs_are_read_again(name):
    for member in full_frontier(NAMED[name], keep_outer=False).members():
        program = with_protocols(member.program, member.steps)
        assert parse(str(program)) == program


@pytest.mark.parametrize("text", ["A[i", "A[i] += ", "A[i] = B[i] where", "∀i", "A[i] = B[i] ; C", "3 = A", "A B"])
def test_invalid_program_texts_are_refused(text):
    with pytest.raises(EinsumError, match="not a program"):
        parse(text)


def test_products_have_every_tree_once():
    letters = [TensorAccess(name, ("i",)) for name in "BCDE"]
    assert [len(rewrites(OperatorCall("*", tuple(letters[:n])))) for n in (2, 3, 4)] == [1, 3, 15]


def test_sums_are_distributed_over():
    tree = parse("A[i] += B[i] * (C[i] + D[i])").rhs
    assert {str(found) for found in rewrites(tree)} == {"(C[i] + D[i]) * B[i]", "B[i] * C[i] + B[i] * D[i]"} or {
        str(found) for found in rewrites(tree)
    } == {"B[i] * (C[i] + D[i])", "B[i] * C[i] + B[i] * D[i]"}


def test_three_factors_have_seven_bodies():
    statement = NAMED["SpGEMM2"].statement
    found = bodies(statement.lhs, statement.op, statement.rhs)
    assert len(found) == 7
    assert {depth(body) for body in found} == {0}


def test_orders_of_a_group_of_loops():
    assert {str(order) for order in orders(parse("∀ij A[i,j] = B[j,i]"))} == {
        "∀ij A[i,j] = B[j,i]",
        "∀ji A[i,j] = B[j,i]",
    }


def cost_of(text, sparse):
    program = parse(text)
    kernel = TensorAssignment.of("A[i,j] += B[i,j] + C[i,j]", sparse=sparse)
    model = ContractionCostModel(kernel)
    (cost,) = model.costs(program, steps={TensorAccess("B", ("i", "j")): "ss", TensorAccess("C", ("i", "j")): "ss"})
    return model.sets.show(cost, model.indices)


def test_a_sum_visits_the_union():
    shown = cost_of("∀ij A[i,j] += B[i,j] + C[i,j]", "ABC")
    assert "{[i,j] | B[i,j] ∧ C[_1,_2]}" in shown
    assert "{[i,j] | B[_1,_2] ∧ C[i,j]}" in shown
    assert "B[i,j] ∧ C[i,j]" not in shown
