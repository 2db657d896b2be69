"""Tests of first calls: they import and compile only what they use, and kernels follow once calls have paid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.contraction import execution, remembered
from autosparse.contraction.routes import joins, paid
from autosparse.contraction.routes.existing import ROUTES
from autosparse.explain import explain_einsum
from tests.einsum.test_structures import as_dense, matrix

NO_COMPILER = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
PRODUCTS = (
    "i,ij,j->", "ij,ij->i", "ij,ij->ij", "ij,jk->ik", "ij,ik,kj->ij", "ij,jk,ki->", "ij,jk,kl->il", "ij,ij,ij->ij",
    "ii->", "ij,kj->ik", "ij,ik->jk", "ij,j->ij", "ij->i", "ij->j", "ij->",
)  # fmt: skip
HEAVY = ("candidates", "choice", "cost", "lower", "remembered", "race", "path", "cin", "operands", "execution")
CODE = """
import sys, numpy as np, scipy.sparse as sps, autosparse as asp
A = asp.csr(sps.eye_array(9, format="csr"))
given = {{"ij": A, "jk": A, "ik": A, "kj": A, "kl": A, "ki": A, "ii": A}}
for text in {texts}:
    asp.einsum(text, *[given.get(one, np.ones(9)) for one in text.split("->")[0].split(",")])
print([name for name in sys.modules if name.startswith("autosparse.") and name.split(".")[-1] in {heavy}])
"""


@pytest.fixture(autouse=True)
def unknown(monkeypatch):
    """Clear what earlier calls left in memory, as in a new process."""
    for known in (paid._accounts, paid._failed, remembered._choices, remembered._bound):
        known.clear()


def test_products_import_nothing_that_chooses_or_compiles():
    code = CODE.format(texts=PRODUCTS, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = [name for name in eval(done.stdout) if ".contraction" in name]
    assert not heavy


@pytest.mark.parametrize("key", list(ROUTES), ids=" ".join)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.bool_, np.complex128])
def test_every_route_is_numpys_einsum(key, dtype):
    text, kinds = key
    values, extents = np.random.default_rng(0), {"a": 6, "b": 4, "c": 5, "d": 3, "e": 2}
    shapes = [tuple(map(extents.get, one)) for one in text.split("->")[0].split(",")]
    dense = [((values.random(one) < 0.4) * values.integers(1, 3, one)).astype(dtype) for one in shapes]
    given = [
        (asp.csr, sps.csr_array, asp.csc)[n % 3](one) if kind == "s" and one.ndim == 2 else one
        for n, (one, kind) in enumerate(zip(dense, kinds, strict=True))
    ]
    if "abc" in text:
        given[0] = asp.tensor(np.stack(np.nonzero(dense[0])), dense[0][np.nonzero(dense[0])], dense[0].shape)
    found, wanted = as_dense(asp.einsum(text, *given)), np.einsum(text, *dense)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    order = list(range(len(given)))[::-1]  # operands in another order
    turned = ",".join(text.split("->")[0].split(",")[n] for n in order) + "->" + text.split("->")[1]
    np.testing.assert_allclose(as_dense(asp.einsum(turned, *[given[n] for n in order])), wanted, rtol=1e-5)


@pytest.mark.parametrize("text", PRODUCTS)
def test_a_first_call_compiles_nothing(text, monkeypatch):
    monkeypatch.setattr(remembered, "compiled", lambda *given: pytest.fail("compiled"))
    A = asp.csr(matrix(1))
    given = [A if len(one) == 2 else np.ones(30) for one in text.split("->")[0].split(",")]
    wanted = np.einsum(text, *[as_dense(one) for one in given])
    np.testing.assert_allclose(as_dense(asp.einsum(text, *given)), wanted)


@pytest.mark.parametrize("text", ["ijk->i", "ijk->k", "ijk->ik", "ijk->", "ijk,ijk->", "ijk,ijk->k"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.complex128])
def test_sums_of_tensors_compile_and_match_nothing(text, dtype, monkeypatch):
    """Entries of one pattern are multiplied in place; few sums are counted, in the order of the entries."""
    monkeypatch.setattr(remembered, "compiled", lambda *given: pytest.fail("compiled"))
    monkeypatch.setattr(joins, "Join", None)
    rng = np.random.default_rng(0)
    dense = ((rng.random((4, 5, 6)) < 0.6) * rng.integers(-2, 3, (4, 5, 6))).astype(dtype)
    order = rng.permutation(np.count_nonzero(dense))
    coords = np.stack(np.nonzero(dense))[:, order]
    T = asp.tensor(coords, dense[tuple(coords)], dense.shape)
    found, wanted = asp.einsum(text, *[T] * (1 + text.count(","))), np.einsum(text, *[dense] * (1 + text.count(",")))
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(as_dense(found), wanted, rtol=1e-5)


def test_joins_serve_first_calls_of_other_expressions(monkeypatch):
    monkeypatch.setattr(remembered, "compiled", lambda *given: pytest.fail("compiled"))
    A, x = matrix(1), np.ones(30)
    wanted = np.einsum("ij,jk,k->ijk", A.toarray(), A.toarray(), x)
    np.testing.assert_allclose(as_dense(asp.einsum("ij,jk,k->ijk", A, A, x)), wanted)
    assert "joins" in str(explain_einsum("ij,jk,k->ijk", A, A, x))


@NO_COMPILER
def test_a_join_of_too_many_pairs_is_a_kernels(monkeypatch):
    monkeypatch.setattr(paid, "MAX_PAIRS", 10)
    A, x = matrix(1), np.ones(30)
    wanted = np.einsum("ij,jk,k->ijk", A.toarray(), A.toarray(), x)
    np.testing.assert_allclose(as_dense(asp.einsum("ij,jk,k->ijk", A, A, x)), wanted)
    assert len(remembered._choices) == 1


@NO_COMPILER
@pytest.mark.parametrize("text", ["ij,ij->i", "ij,jk,k->ijk", "ij,jk,ki->"])
def test_a_kernel_is_compiled_aside_and_kept_if_it_is_faster(text, monkeypatch):
    jobs: list = []
    monkeypatch.setattr(paid, "COMPILE_S", 0.0)
    monkeypatch.setattr(paid, "submit", lambda job: bool(jobs.append(job)) or True)
    A = asp.csr(matrix(1))
    given = [A if len(one) == 2 else np.ones(30) for one in text.split("->")[0].split(",")]
    wanted = np.einsum(text, *[as_dense(one) for one in given])
    for _ in range(4):
        np.testing.assert_allclose(as_dense(asp.einsum(text, *given)), wanted)
    assert len(jobs) == 1, "compiled once, while calls go on"
    jobs[0]()
    assert remembered._choices
    (account,) = (one for one in paid._accounts.values() if one.is_ready)
    served, generated = [], execution.generated
    monkeypatch.setattr(execution, "generated", lambda *one, **more: served.append(1) or generated(*one, **more))
    account.least_s = 1e9
    for _ in range(paid.TRIALS + 2):
        np.testing.assert_allclose(as_dense(asp.einsum(text, *given)), wanted)
    assert len(served) == paid.TRIALS + 2, "the kernel is faster"
    account.least_s = 0.0
    np.testing.assert_allclose(as_dense(asp.einsum(text, *given)), wanted)
    assert len(served) == paid.TRIALS + 2, "what began is faster"
    account.least_s, account.trial_s = 2e-3, 3e-3
    listed = str(explain_einsum(text, *given)).partition("Candidates")[2].splitlines()
    has_joins = text == "ij,jk,k->ijk"  # these begin it, and the programs are listed
    assert any("2 ms" in line and line.endswith("runs") for line in listed) != has_joins
    assert any("a generated program" in line and "3 ms" in line for line in listed) != has_joins


def test_a_compiler_that_fails_aside_changes_no_result(monkeypatch):
    monkeypatch.setattr(paid, "COMPILE_S", 0.0)
    monkeypatch.setattr(paid, "submit", lambda job: job() is None)
    A = asp.csr(matrix(1))
    with asp.options(compiler="/no/such/compiler"):
        for _ in range(4):
            np.testing.assert_allclose(asp.einsum("ij,ij->i", A, A), (A.toarray() ** 2).sum(axis=1))
    (account,) = (one for one in paid._accounts.values() if one.failure is not None)
    assert not account.prefers_kernel


def test_a_large_product_for_a_few_of_its_places_is_not_made(monkeypatch):
    from autosparse.contraction.routes import existing

    monkeypatch.setattr(existing, "MAX_PRODUCTS", 10)
    called = []
    monkeypatch.setattr(execution, "execute", lambda *given, **more: called.append(1) or joins.contract(*given))
    A = matrix(1)
    wanted = np.einsum("ij,ik,kj->ij", *[A.toarray()] * 3)
    np.testing.assert_allclose(as_dense(asp.einsum("ij,ik,kj->ij", A, A, A)), wanted)
    assert called


def test_explanations_say_what_serves():
    A, x = asp.csr(matrix(1)), np.ones(30)
    assert "x @ (A @ y)" in str(explain_einsum("i,ij,j->", x, A, x))
    told = str(explain_einsum("ij,ij->i", A, A))
    assert "elementwise product" in told
    assert "compiled in the background" in told
    assert "elementwise product" in asp.einsum_path("ij,ij->i", A, A)


def test_deterministic_calls_keep_what_the_first_one_ran(monkeypatch):
    monkeypatch.setattr(paid, "COMPILE_S", 0.0)
    monkeypatch.setattr(paid, "submit", lambda job: pytest.fail("submitted"))
    A = asp.csr(matrix(1))
    with asp.options(deterministic=True):
        assert len({asp.einsum("ij,ij->i", A, A).tobytes() for _ in range(5)}) == 1


@pytest.mark.filterwarnings("ignore:einsum")
@pytest.mark.parametrize("text", ["ij,ik,kj->ij", "ij,ij->", "ij,jk,ki->", "ij,jk,k->i"])
def test_without_a_compiler_announced_calls_use_the_route_after_the_first_one(text, monkeypatch):
    """Joins take up to a hundred times as long as a route."""
    A = matrix(0)
    operands = [A if len(one) == 2 else np.ones(30) for one in text.split("->")[0].split(",")]
    with asp.options(compiler="/nonexistent", runs=10**7):
        first = asp.einsum(text, *operands)
        for name in ("contract", "Join"):
            monkeypatch.setattr(joins, name, None)
        monkeypatch.setattr(remembered, "contract_without_compiler", None)
        second = asp.einsum(text, *operands)
    np.testing.assert_allclose(as_dense(first), as_dense(second))


def test_threads_of_blas_do_not_compute_quadratic_forms():
    """A BLAS adds one sum for each of its threads; they would occupy the cores of later products."""
    code = """
import numpy as np, scipy.sparse as sps, autosparse as asp
n, rng = 50_000, np.random.default_rng(0)
A, x, y = asp.csr(sps.eye_array(n, format="csr")), rng.random(n), rng.random(n)
print(repr(asp.einsum("i,ij,j->", x, A, y)), asp.light.is_complete)
asp.light.complete()
print(repr(asp.einsum("i,ij,j->", x, A, y)))
"""
    environments = [os.environ | {f"{name}_NUM_THREADS": str(n) for name in ("OPENBLAS", "MKL")} for n in (1, 2)]
    found = {
        subprocess.run([sys.executable, "-c", code], env=one, capture_output=True, text=True, check=True).stdout
        for one in environments
    }
    assert len(found) == 1
