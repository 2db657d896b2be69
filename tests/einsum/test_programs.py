"""Tests that compiled programs give NumPy's einsum: every member of a frontier, and the chosen one."""

from __future__ import annotations

import itertools
import random
import shutil

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse.cache.records import plan_to_record
from autosparse.cache.stores import open_store
from hypothesis import given, settings
from hypothesis import strategies as st

import autosparse as asp
from autosparse.contraction import remembered
from autosparse.contraction.candidates import assignment_of, candidates, enumerated, name_of
from autosparse.contraction.choice import choose, is_computable
from autosparse.contraction.cost.estimate import Estimator
from autosparse.contraction.cost.queries import canonical
from autosparse.contraction.cost.tasks import bits
from autosparse.contraction.execution import execute as execute_prepared
from autosparse.contraction.lower import numba_kernel
from autosparse.contraction.lower.kernel import compiled, execute
from autosparse.contraction.operands import Sparse, prepare
from autosparse.contraction.path import is_short
from autosparse.contraction.race import PROGRAM
from autosparse.contraction.results import dense
from autosparse.contraction.subscripts import read
from autosparse.core.plan import Plan
from autosparse.core.solver import Choice
from tests.einsum.test_semantics import array, as_dense, sparse

NO_COMPILER = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
pytestmark = [NO_COMPILER, pytest.mark.usefixtures("kernels_at_once")]
NAMED = ("ij,jk->ik", "ij,jk,kl->il", "ij,ik,kj->ij", "ij,jk,ik->", "ij,jk,kl,il->", "ikl,kj,lj->ij", "ij,j->i")
PATTERNS = ("random", "empty", "one dense row", "hypersparse", "full")


def pattern(name, seed, shape):
    if name == "empty":
        return np.zeros(shape)
    if name == "full":
        return array(seed, shape, density=1.1)
    found = array(seed, shape, density=0.3 if name == "random" else 0.03)
    if name == "one dense row":
        found[1] = 2.0
    return found


def problem(expression, operands, dense_mask=()):
    mixed = [one if n in dense_mask else sparse(one) for n, one in enumerate(operands)]
    subscripts = read(expression, [one.shape for one in operands])
    return prepare(mixed, subscripts, np.result_type(*operands)), subscripts


def entries_or_array(result):
    return dense(result) if isinstance(result, Sparse) else result


def run_all(expression, operands, n_most, dense_mask=(), n_compiled=1):
    prepared, subscripts = problem(expression, operands, dense_mask)
    wanted = np.einsum(expression, *operands)
    found = choose(prepared, subscripts, is_dense_output=False).plans
    for n, (_, plan, candidate) in enumerate(found[:: max(1, len(found) // n_most)]):
        named = {name_of(n): one for n, one in enumerate(prepared)}
        results = [numba_kernel.run(plan, named, subscripts.extents, is_compiled=False)]
        if n < n_compiled:
            results.append(execute(compiled(plan, named, subscripts.extents), named, subscripts.extents))
        for result in results:
            np.testing.assert_allclose(entries_or_array(result), wanted, err_msg=str(candidate))


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("expression", NAMED)
def test_members_of_the_frontier_agree(expression, name):
    sizes = {"i": 9, "j": 70, "k": 8, "l": 7}
    shapes = [tuple(sizes[i] for i in letters) for letters in expression.split("->")[0].split(",")]
    operands = [pattern(name, n, shape) for n, shape in enumerate(shapes)]
    run_all(expression, operands, 3)


@pytest.mark.full
@pytest.mark.parametrize("expression", NAMED)
def test_every_member_of_the_frontier_agrees(expression):
    sizes = {"i": 9, "j": 70, "k": 8, "l": 7}
    shapes = [tuple(sizes[i] for i in letters) for letters in expression.split("->")[0].split(",")]
    for name in PATTERNS:
        run_all(expression, [pattern(name, n, shape) for n, shape in enumerate(shapes)], 10**6, n_compiled=10**6)


@pytest.mark.parametrize("mask", [(0,), (1,), (2,), (1, 2)])
def test_dense_operands(mask):
    run_all("ij,ik,kj->ij", [array(n, shape) for n, shape in enumerate([(6, 7), (6, 5), (5, 7)])], 4, mask)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex128, np.uint8])
def test_types(dtype):
    A = array(1, (9, 9), dtype)
    found = asp.einsum("ij,jk,kl->il", *[sps.csr_array(A)] * 3)
    assert found.dtype == dtype
    np.testing.assert_allclose(as_dense(found), np.einsum("ij,jk,kl->il", A, A, A), rtol=1e-5)


def expressions(max_operands):
    """Return a strategy for products of operands of rank 1 to 3 over four indices, with any output."""
    letters = st.lists(st.sampled_from("ijkl"), min_size=1, max_size=3, unique=True).map("".join)

    @st.composite
    def draw(draw):
        inputs = draw(st.lists(letters, min_size=2, max_size=max_operands))
        used = sorted(set("".join(inputs)))
        output = draw(st.lists(st.sampled_from(used), max_size=3, unique=True))
        return ",".join(inputs) + "->" + "".join(output)

    return draw()


def check_random(expression, seed):
    sizes = {"i": 4, "j": 5, "k": 3, "l": 2}
    operands = [
        array(seed + n, tuple(sizes[i] for i in letters))
        for n, letters in enumerate(expression.split("->")[0].split(","))
    ]
    mixed = [sparse(one) if one.ndim > 1 or (seed + n) % 2 else one for n, one in enumerate(operands)]
    np.testing.assert_allclose(as_dense(asp.einsum(expression, *mixed)), np.einsum(expression, *operands))


@settings(max_examples=5, deadline=None, derandomize=True)
@given(expression=expressions(3), seed=st.integers(0, 1000))
def test_random_expressions(expression, seed):
    check_random(expression, seed)


def random_expression(rng):
    """Return a product of two to four operands of rank 1 to 3 (or a chain of matrices), with any output."""
    n_operands = rng.choice([2, 3, 3, 4])
    if rng.random() < 0.2:
        inputs = ["".join(pair) for pair in itertools.pairwise("ijklm"[: n_operands + 1])]
    else:
        inputs = ["".join(rng.sample("ijkl", rng.randint(1, 3))) for _ in range(n_operands)]
    used = sorted(set("".join(inputs)))
    return ",".join(inputs) + "->" + "".join(rng.sample(used, rng.randint(0, min(3, len(used)))))


@pytest.mark.full
@pytest.mark.parametrize("block", range(24))
def test_many_random_expressions(block):
    """Run 100 expressions by two programs of the frontier as emitted Python, and every eighth also by `einsum`."""
    rng = random.Random(block)
    for n in range(100):
        expression, name, seed = random_expression(rng), rng.choice(PATTERNS), rng.randrange(10**6)
        sizes = {"i": 4, "j": 5, "k": 3, "l": 2, "m": 3}
        shapes = [tuple(sizes[i] for i in letters) for letters in expression.split("->")[0].split(",")]
        operands = [pattern(name, seed + m, shape) for m, shape in enumerate(shapes)]
        dense_mask = tuple(m for m, one in enumerate(operands) if rng.random() < 0.25 or one.ndim < 2)[:-1]
        prepared, subscripts = problem(expression, operands, dense_mask)
        wanted = np.einsum(expression, *operands)
        if n % 8 == 0:
            mixed = [one if m in dense_mask else sparse(one) for m, one in enumerate(operands)]
            np.testing.assert_allclose(as_dense(asp.einsum(expression, *mixed)), wanted, err_msg=expression)
        if not (is_computable(prepared) and is_short(prepared, subscripts.output)):
            found = entries_or_array(execute_prepared(prepared, subscripts, is_dense=True))
            np.testing.assert_allclose(found, wanted, err_msg=f"{expression} {name} {dense_mask}")
            continue
        plans = choose(prepared, subscripts, is_dense_output=False).plans
        named = {name_of(m): one for m, one in enumerate(prepared)}
        for plan in (plans[0][1], rng.choice(plans)[1]):
            found = entries_or_array(numba_kernel.run(plan, named, subscripts.extents, is_compiled=False))
            np.testing.assert_allclose(found, wanted, err_msg=f"{expression} {name} {dense_mask} {plan.text}")


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("expression", ["ij,jk,kl->il", "ij,jk,ik->", "ij,ik,kj->ij"])
def test_threads_share_the_outer_loop(expression, threads):
    A = sps.random_array((3000, 3000), density=2e-3, random_state=np.random.default_rng(0), format="csr")
    B = A @ A
    wanted = {"ij,jk,kl->il": lambda: B @ A, "ij,jk,ik->": lambda: (B * A).sum(), "ij,ik,kj->ij": lambda: B * A}
    with asp.options(threads=threads):
        found = asp.einsum(expression, A, A, A)
    difference = abs(found - wanted[expression]())
    assert (difference.max() if sps.issparse(difference) else difference) < 1e-9


@pytest.mark.parametrize("expression", ["ij,jk,ik->", "ij,ji->", "ij,ik,ij->j"])
def test_results_have_the_same_bits_on_any_number_of_threads(expression, tmp_path):
    rng = np.random.default_rng(2)
    A, B = (sps.random_array((500, 500), density=0.06, random_state=rng, format="csr") for _ in range(2))
    operands = [A, B, A][: 1 + expression.count(",")]
    found = []
    for threads in (1, 2, 5):
        with asp.options(threads=threads, cache_dir=tmp_path):
            found.append(as_dense(asp.einsum(expression, *operands)))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_empty_operands_beside_large_ones_have_nothing_to_share():
    """Threads divide the outer loop by the operand that it steps through, which may be the empty one."""
    large, empty = array(1, (200, 200)), np.zeros((200, 200))
    prepared, subscripts = problem("ij,jk,ik->", [empty, large, empty])
    named = {name_of(n): one for n, one in enumerate(prepared)}
    plans = [plan for _, plan, _ in choose(prepared, subscripts, is_dense_output=False).plans]
    plan = next(one for one in plans if one.text.startswith("∀i") and "T0[i:s" in one.text)
    assert execute(compiled(plan, named, subscripts.extents), named, subscripts.extents) == 0


def test_huge_extents_take_no_memory():
    n = 2**40
    T = asp.tensor(np.array([[0, n - 1, 5], [3, n - 2, n - 1]]), np.array([1.0, 2.0, 3.0]), (n, n))
    assert asp.einsum("ij,ij->", T, T) == 14.0


def test_many_operands_follow_a_path():
    arrays = [array(n, (4, 4)) for n in range(7)]
    text = "ab,bc,cd,de,ef,fg,gh->ah"
    np.testing.assert_allclose(as_dense(asp.einsum(text, *map(sps.csr_array, arrays))), np.einsum(text, *arrays))


def test_a_choice_is_remembered_and_timed_once(tmp_path, monkeypatch):
    monkeypatch.setattr(remembered, "RACE_S", 0.0)
    A = sps.csr_array(array(5, (30, 30)))
    with asp.options(cache_dir=tmp_path):
        remembered._choices.clear()
        wanted = as_dense(A @ A) * as_dense(A)
        for _ in range(remembered.CALLS_BEFORE_TIMING + 1):
            np.testing.assert_allclose(as_dense(asp.einsum("ij,ik,kj->ij", A, A, A)), wanted)
        assert [one.plan.effort for one in remembered._choices.values()] == ["measure"]
        (kept,) = remembered._choices.values()
        remembered._choices.clear()
        asp.einsum("ij,ik,kj->ij", A, A, A)
        (again,) = remembered._choices.values()
        assert str(again.program.plan.program) == str(kept.program.plan.program)
        assert again.plan.effort == "measure"
        (key,) = map(remembered._plan_key, remembered._choices)
        assert again.plan.candidates == kept.plan.candidates
        for text in ("nonsense [", "∀i R += T0[i:s]"):
            forged = Plan(choice=Choice(PROGRAM, text), why="forged", effort="measure")
            open_store().save("plan", key.stable_hash(), plan_to_record(forged))
            remembered._choices.clear()
            np.testing.assert_allclose(as_dense(asp.einsum("ij,ik,kj->ij", A, A, A)), wanted)


def test_data_cached_by_pattern_follow_new_values_and_patterns(tmp_path):
    """Writable arrays must not be cached; other arrays with the same pattern may share what depends on the pattern."""
    A, B = (sps.csr_array(array(seed, (30, 30))) for seed in (7, 8))
    remembered._bound.clear()
    with asp.options(cache_dir=tmp_path):
        for one in (A, A, A, 3 * A, B, B, B):
            check_both(one)
        assert len(remembered._bound) == 4
        A.data *= 2.0
        check_both(A)
        other = sps.csr_array(np.flip(A.toarray(), 1))
        A.indices[:], A.indptr[:], A.data[:] = other.indices, other.indptr, other.data
        for one in (A, sps.csr_array(array(7, (30, 30)))):
            check_both(one)


def check_both(A):
    """Compare a masked product and a summed one with SciPy's."""
    squared = as_dense(A @ A)
    np.testing.assert_allclose(as_dense(asp.einsum("ij,ik,kj->ij", A, A, A)), squared * as_dense(A))
    np.testing.assert_allclose(asp.einsum("ij,jk,ik->", A, A, A), (squared * as_dense(A)).sum())


def test_another_process_reuses_a_choice_and_times_an_untimed_one(tmp_path, monkeypatch):
    """A process that ends before its calls pay for a race must leave its choice to be timed by a later one."""
    monkeypatch.setattr(remembered, "RACE_S", 0.0)
    A = sps.csr_array(array(6, (25, 25)))
    with asp.options(cache_dir=tmp_path):
        remembered._choices.clear()
        first = as_dense(asp.einsum("ij,ik,kj->ij", A, A, A))
        remembered._choices.clear()  # as in a fresh process
        with monkeypatch.context() as patched:
            patched.setattr(remembered, "choose", None)
            np.testing.assert_array_equal(as_dense(asp.einsum("ij,ik,kj->ij", A, A, A)), first)
        assert [one.plan.effort for one in remembered._choices.values()] == ["estimate"]
        for _ in range(remembered.CALLS_BEFORE_TIMING):
            asp.einsum("ij,ik,kj->ij", A, A, A)
        assert [one.plan.effort for one in remembered._choices.values()] == ["measure"]


def tasks_of(found):
    """Return the queries of each program, with variables in a canonical order."""
    n = len(found.assignment.indices)
    return {
        str(one): {(found.queries[m].heads, canonical(found.queries[m].atoms, n)) for m in bits(one.cost)}
        for one in found.members
    }


def test_shipped_frontiers_are_what_is_enumerated():
    for inputs, output in ((("zy", "ya"), "za"), (("ij", "ik", "kj"), "ij"), (("kj", "ja", "ka"), "")):
        sparse_all = (True,) * len(inputs)
        shipped, found = candidates(inputs, output, sparse_all), enumerated(assignment_of(inputs, output, sparse_all))
        assert tasks_of(shipped) == tasks_of(found)
        assert shipped.n_programs == found.n_programs


def test_estimates_are_counts_on_average():
    A = sps.random_array((300, 300), density=0.02, random_state=np.random.default_rng(3), format="csr")
    prepared, _ = problem("ij,jk->ik", [A.toarray(), A.toarray()])
    found = candidates(("ij", "jk"), "ik", (True, True))
    named = {name_of(n): one for n, one in enumerate(prepared)}
    products_of = (("T0", (0, 1)), ("T1", (1, 2)))
    number = next(n for n, one in enumerate(found.queries) if one.heads == 7 and set(products_of) <= set(one.atoms))
    estimator = Estimator(found.queries, named, [300, 300, 300])
    pattern_of = A.astype(bool).astype(float)
    products = (pattern_of @ pattern_of).sum()
    assert estimator.size(number) == pytest.approx(products, rel=0.25)


def test_intersection_costs_scale_with_the_shorter_operand():
    """A long row must be priced as searched for the entries of short ones, not as scanned for each of them."""
    star = np.zeros((300, 300))
    star[0], star[:, 0] = 1.0, 1.0
    prepared, subscripts = problem("ij,jk,ik->", [star] * 3)
    prices = {str(one[2]): one[0] for one in choose(prepared, subscripts, is_dense_output=True).plans}
    intersecting = prices["∀ijk R += T0[i:l,j:s] * T1[j:l,k:s] * T2[i:s,k:s]"]
    assert intersecting < 20 * np.count_nonzero(star)
    assert min(price for text, price in prices.items() if "where" in text) > 50_000
    for expression in ("ij,i->", "ij,kl->ik", "i,i->"):
        operands = [np.ones((4,) * len(letters)) for letters in expression.split("->", maxsplit=1)[0].split(",")]
        prepared, subscripts = problem(expression, operands)
        assert choose(prepared, subscripts, is_dense_output=True).plans


def test_the_path_shows_the_frontier_and_the_loops():
    A = sps.csr_array(array(5, (30, 30)))
    shown = asp.einsum_path("ij,ik,kj->ij", A, A, A)
    assert "28 programs of the frontier, of 672" in shown
    assert "∀ij" in shown
    assert "for (" in shown
    assert "numpy.einsum" in asp.einsum_path("ij->i", np.eye(3))


def test_sources_can_be_read(tmp_path):
    A = sps.csr_array(array(6, (5, 5)))
    with asp.options(dump_dir=tmp_path, cache_dir=tmp_path / "cache"):
        remembered._choices.clear()
        asp.einsum("ij,ij,ij->ij", A, A, A)
    assert any("asp_einsum" in path.read_text() for path in tmp_path.glob("*.c")) or remembered._choices


@pytest.mark.skipif(not numba_kernel.is_there(), reason="numba is not installed")
@pytest.mark.filterwarnings("ignore:einsum")
def test_without_a_compiler_numba_runs_programs_that_pay(monkeypatch):
    A = sps.csr_array(array(7, (6, 6)))
    remembered._without_compiler.clear()
    with asp.options(compiler="/no/such/compiler", runs=100):
        for price_s, is_numba in ((1e9, False), (0.0, True)):
            monkeypatch.setattr(remembered, "NUMBA_S", price_s)
            for _ in range(3):
                found = asp.einsum("ij,jk,ik->ijk", A, A, A, format="dense")
                np.testing.assert_allclose(found, np.einsum("ij,jk,ik->ijk", *[A.toarray()] * 3))
            (known,) = remembered._without_compiler.values()
            assert (known.plan is not None) == is_numba


@pytest.mark.parametrize("announced", [None, 100])
def test_programs_are_timed_only_after_calls_took_as_long(announced, tmp_path, monkeypatch):
    A = sps.csr_array(array(9, (20, 20)))
    monkeypatch.setattr(remembered, "RACE_S", 1e9)
    remembered._choices.clear()
    with asp.options(cache_dir=tmp_path, runs=announced):
        for _ in range(2 * remembered.CALLS_BEFORE_TIMING):
            asp.einsum("ij,ik,kj->ij", A, A, A)
        (known,) = remembered._choices.values()
        assert known.plan.effort == "estimate"
        monkeypatch.setattr(remembered, "RACE_S", known.served_s)
        asp.einsum("ij,ik,kj->ij", A, A, A)
        assert known.plan.effort == "measure"
