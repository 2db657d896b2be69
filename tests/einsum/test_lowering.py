"""Tests that every program of every frontier gives NumPy's values: interpreted, as emitted Python, by numba, as C.

The kernels are those of the paper's Figure 6, with all protocols and workspaces of any rank, and some sums.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse.contraction.assignments import TensorAssignment
from autosparse.contraction.cin.nodes import TensorAccess, reads
from autosparse.contraction.cin.parser import parse
from autosparse.contraction.lower import numba_kernel
from autosparse.contraction.lower.kernel import compiled, execute
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import Dense, Sparse
from autosparse.contraction.programs.protocols import open_reads
from autosparse.contraction.results import dense
from tests.einsum.figure6 import NAMED, full_frontier, programs, taco_frontier
from tests.einsum.interpreter import Interpreter

EXTENTS = {"i": 5, "j": 7, "k": 4, "l": 3}
SMALL = ("SpMV", "SpMV2", "SpGEMM", "SpGEMM2")
HEAVY = ("SpGEMMH", "SSpGEMM", "SpMTTKRP")
PATTERNS = ("random", "empty", "one dense row", "hypersparse", "full")
has_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
has_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")


@functools.cache
def members(name):
    """Return the distinct programs and protocols of the unrestricted frontier and of the TACO compiler's."""
    kernel = NAMED[name]
    both = [*full_frontier(kernel, keep_outer=True).members(), *taco_frontier(kernel).members()]
    distinct = {(one.program, frozenset(one.steps.items())): (one.program, one.steps) for one in both}
    return list(distinct.values())


def array(name, shape, seed):
    rng = np.random.default_rng(seed)
    filled = {"random": 0.4, "empty": 0.0, "one dense row": 0.1, "hypersparse": 0.05, "full": 1.1}[name]
    found = (rng.random(shape) < filled) * rng.integers(1, 5, shape).astype(float)
    if name == "one dense row":
        found[0] = 2.0
    return found


def operands(kernel, pattern, seed=0):
    found = {}
    for n, access in enumerate(dict.fromkeys(reads(kernel.statement))):
        values = array(pattern, tuple(EXTENTS[i] for i in access.indices), seed + n)
        indices = "".join(access.indices)
        if access.tensor in kernel.sparse:
            coords = np.stack(np.nonzero(values)).astype(np.int64)
            found[access.tensor] = Sparse(indices, coords, values[tuple(coords)], values.shape, sorted_by=indices)
        else:
            found[access.tensor] = Dense(indices, values)
    return found


def plan_of(kernel, program, steps):
    statement = kernel.statement
    inputs = dict.fromkeys(reads(statement))
    sparse = tuple(access.tensor for access in inputs if access.tensor in kernel.sparse)
    levels = frozenset(
        name for name in sparse[::2]
        if len(next(one for one in inputs if one.tensor == name).indices) > 1
        and (plan := EinsumPlan(program, steps, statement.lhs, False, sparse, (), "", frozenset()))
        and plan.protocol(name, plan.orders[name][0]) == "l"
    )  # fmt: skip
    return EinsumPlan(
        program, steps, statement.lhs, statement.lhs.tensor not in kernel.sparse, sparse,
        tuple(access for access in inputs if access.tensor not in sparse), "".join(kernel.indices), levels,
    )  # fmt: skip


def expected(kernel, given):
    """Return NumPy's result: products and sums of arrays broadcast over all indices."""
    letters = "".join(kernel.indices)

    def value(node):
        if isinstance(node, TensorAccess):
            one = given[node.tensor]
            whole = dense(one) if isinstance(one, Sparse) else one.array
            shape = [EXTENTS[i] if i in node.indices else 1 for i in letters]
            order = sorted(range(len(node.indices)), key=lambda m: letters.index(node.indices[m]))
            return whole.transpose(order).reshape(shape)
        parts = [value(arg) for arg in node.args]
        return functools.reduce(np.multiply if node.op == "*" else np.add, parts)

    whole = np.broadcast_to(value(kernel.statement.rhs), [EXTENTS[i] for i in letters])
    return np.einsum(whole, list(range(len(letters))), [letters.index(i) for i in kernel.statement.lhs.indices])


def as_array(result):
    return dense(result) if isinstance(result, Sparse) else result


def by_interpreter(plan, given):
    shape = tuple(EXTENTS[index] for index in plan.output.indices)
    entries = {
        name: {tuple(map(int, at)): value for at, value in zip(one.coords.T, one.values, strict=True)}
        for name, one in given.items() if isinstance(one, Sparse)
    }  # fmt: skip
    arrays = {name: one.array for name, one in given.items() if isinstance(one, Dense)}
    found = np.zeros(shape)
    for at, value in Interpreter(plan.steps, EXTENTS, entries, arrays).run(plan.program).items():
        found[at] = value
    return found


def by_python(plan, given):
    return as_array(numba_kernel.run(plan, given, EXTENTS, is_compiled=False))


def by_numba(plan, given):
    return as_array(numba_kernel.run(plan, given, EXTENTS, is_compiled=True))


def by_c(plan, given):
    return as_array(execute(compiled(plan, given, EXTENTS), given, EXTENTS))


def check(kernel, chosen, runners, patterns=PATTERNS, seed=0):
    arrays = [operands(kernel, pattern, seed) for pattern in patterns]
    cases = [(pattern, one, expected(kernel, one)) for pattern, one in zip(patterns, arrays, strict=True)]
    for program, steps in chosen:
        plan = plan_of(kernel, program, steps)
        for pattern, one, wanted in cases:
            for run in runners:
                np.testing.assert_allclose(
                    run(plan, one), wanted, err_msg=f"{run.__name__} {pattern} {program} {steps}"
                )


@pytest.mark.parametrize("name", SMALL)
def test_programs_of_the_frontier_run_interpreted_and_in_python(name):
    check(NAMED[name], members(name)[:: 4 if name == "SpGEMM2" else 1], (by_interpreter, by_python), PATTERNS[:3])


N_PARTS = {"SpGEMM2": 4, "SpGEMMH": 2, "SpMTTKRP": 2}
"""Number of parts into which a large frontier is split, so that several processes share it."""


@pytest.mark.full
@pytest.mark.parametrize(("name", "part"), [(name, n) for name in SMALL + HEAVY for n in range(N_PARTS.get(name, 1))])
def test_every_program_of_the_frontier_runs_everywhere(name, part):
    runners = (by_interpreter, by_python, *([by_c] if shutil.which("cc") else []))
    check(NAMED[name], members(name)[part :: N_PARTS.get(name, 1)], runners)


@has_compiler
@pytest.mark.parametrize("name", ["SpMV2", "SpGEMM2"])
def test_large_workspaces_run_as_c(name):
    chosen = [
        (program, steps) for program, steps in members(name)
        if any(len(one.indices) > 1 for one in plan_of(NAMED[name], program, steps).spaces.values())
    ] or members(name)  # fmt: skip
    check(NAMED[name], chosen[:: len(chosen) // 2 + 1], (by_c,))


@has_numba
@pytest.mark.parametrize("name", ["SpMV2", pytest.param("SpGEMM2", marks=pytest.mark.full)])
def test_numba_compiles_programs(name):
    check(NAMED[name], members(name)[:: 40 if name == "SpGEMM2" else 50], (by_numba,), PATTERNS[:3])


SUMS = (
    *(("A[i,j] += B[i,j] + C[i,j]", "ABC"), ("A[i,j] += B[i,j] * C[i,j] + D[i,j]", "ABCD")),
    *(("A[i,j] += B[i,j] + C[j]", "ABC"), ("A[i,j] += B[i,k] * (C[k,j] + D[k,j])", "ABCD")),
    *(("a[i] += B[i,j] + C[i,j] * d[j]", "BC"), ("A[i,j] += B[i,j] + c[j]", "AB")),
)


def programs_of_a_sum(text, sparse, n_most):
    """Return some programs of a sum, each with a random choice of protocols.

    A program that reads one tensor in two orders is left out.
    """
    kernel = TensorAssignment.of(text, sparse=sparse)
    rng = np.random.default_rng(0)
    nests = programs(kernel, keep_outer=False)
    found = []
    for program in nests[:: max(1, len(nests) // n_most)]:
        steps = {access: "".join(rng.choice(["s", "l"], len(access.indices))) for access in open_reads(kernel, program)}
        if plan_of(kernel, program, steps).fits(EXTENTS):
            found.append((program, steps))
    assert found
    return kernel, found


@pytest.mark.parametrize(("text", "sparse"), SUMS)
def test_sums_visit_the_union(text, sparse):
    check(*programs_of_a_sum(text, sparse, 12), (by_interpreter, by_python), PATTERNS[:3])


@has_compiler
@pytest.mark.parametrize(
    ("text", "sparse"), SUMS[1:2] + tuple(pytest.param(*one, marks=pytest.mark.full) for one in SUMS)
)
def test_sums_run_as_c(text, sparse):
    check(*programs_of_a_sum(text, sparse, 1), (by_c,))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    name=st.sampled_from(SMALL),
    seed=st.integers(0, 1000),
    which=st.integers(0, 10**6),
    pattern=st.sampled_from(PATTERNS),
)
def test_any_program_on_any_pattern(name, seed, which, pattern):
    found = members(name)
    check(NAMED[name], [found[which % len(found)]], (by_interpreter, by_python), (pattern,), seed)


def test_tasks_that_run_are_those_of_the_model():
    """Both Gustavson's product and the inner product must assign once per pair of entries that meet."""
    kernel = NAMED["SpGEMM"]
    given_ = operands(kernel, "random")
    B, C = (dense(given_[name]) != 0 for name in "BC")
    n_products = int((B.astype(int) @ C.T.astype(int)).sum())
    for text in ("∀ikj A[i,j] += B[i:l,k:s] * C[j:s,k:l]", "∀ijk A[i,j] += B[i:l,k:s] * C[j:l,k:s]"):
        marked = parse(text)
        steps = {TensorAccess(one.tensor, one.indices): one.protocols for one in reads(marked)}
        entries = {
            name: {tuple(map(int, at)): value for at, value in zip(one.coords.T, one.values, strict=True)}
            for name, one in given_.items()
        }  # fmt: skip
        run = Interpreter(steps, EXTENTS, entries)
        run.run(marked)
        assert run.n_assigned == n_products
