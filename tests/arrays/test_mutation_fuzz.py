"""Fuzz test of the mutation guard: after any sequence of writes, the next product must not be stale.

Default kernels read the user's arrays, so a fuzz over them would notice little. Here every product is computed from a
packed copy that is renewed only when the operand's versions change, as packed formats are.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse
from autosparse.arrays import plain
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.dispatch import executor
from autosparse.dispatch import state as states
from autosparse.dispatch.state import DispatchState
from autosparse.operands import mutation_guard
from autosparse.operands.csr import Operand
from tests.arrays import foreign_writes, structure_writes, value_writes  # noqa: F401 - they register their writes
from tests.arrays.other_process import other_process
from tests.arrays.packed import PackedCopies
from tests.arrays.samples import N_COLUMNS, N_ROWS, WRITES, World
from tests.tuning.forcing import force, schedule_of, state_of

N_STEPS = 6
CLASSES = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> Iterator[PackedCopies]:
    copies = PackedCopies()
    monkeypatch.setattr(executor, "matmul", copies.matmul)
    # It would read the user's arrays instead of a copy.
    monkeypatch.setattr(executor, "small_product", lambda *args, **kwargs: None)
    return copies


def sequences(few: int, many: int) -> pytest.MarkDecorator:
    """Parametrize by the number of random sequences in `make test`, and in `make test-full`."""
    return pytest.mark.parametrize("n_sequences", [few, pytest.param(many, marks=pytest.mark.full)])


def stale_products(
    n_sequences: int, *, before_product: Callable[[Any], None] | None = None, enough: int | None = None
) -> tuple[int, list[str]]:
    """Play random sequences of writes and products, until `enough` products were stale.

    Return the number of products, and the steps before each product that differs from SciPy's.
    """
    n_products, stale = 0, []
    x, y = np.linspace(1, 2, N_COLUMNS), np.linspace(2, 3, N_ROWS)
    names = sorted(WRITES)
    for seed in range(n_sequences):
        if enough is not None and len(stale) >= enough:
            break
        name = CLASSES[seed % 4]
        rng = np.random.default_rng(seed)
        worlds = [World(getattr(home, name), name[:3], seed) for home in (autosparse, sps)]
        done = []
        for step in range(N_STEPS):
            done.append(names[int(rng.integers(len(names)))])
            for world in worlds:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    WRITES[done[-1]](world, np.random.default_rng((seed, step)))
            how = int(rng.integers(4))
            if before_product is not None:
                before_product(worlds[0].A)
            ours, theirs = (_product(world.A, how, x, y) for world in worlds)
            n_products += 1
            if not np.allclose(ours, theirs, rtol=1e-10, atol=1e-12):
                stale.append(f"seed {seed}, {name}: {' -> '.join(done)}, product {how}")
                break
    return n_products, stale


def _product(A: Any, how: int, x: Any, y: Any) -> Any:
    return (lambda: A @ x, lambda: A.T @ y, lambda: A @ np.stack([x, 2 * x], axis=1), lambda: y @ A)[how]()


def test_there_are_many_kinds_of_write() -> None:
    assert len(WRITES) >= 30


@sequences(400, 4200)
def test_no_product_of_a_packed_copy_is_stale(n_sequences: int, packed: PackedCopies) -> None:
    n_products, stale = stale_products(n_sequences)
    assert not stale, stale[:5]
    assert n_products == n_sequences * N_STEPS
    assert packed.n_reused > n_products / 20, "copies were hardly reused: the fuzz would have no power"


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
@sequences(80, 2100)
@pytest.mark.parametrize("name", ["blocks", "columns"])
def test_no_product_of_a_tuned_kernel_is_stale(
    name: str, n_sequences: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Force a tuned kernel, whose packed copies the executor keeps and refreshes, and open fast calls early."""
    monkeypatch.setattr(states, "FIRST_FAST_PATH", 1)
    tuned: list[DispatchState] = []

    def tune(A: Any) -> None:
        for one in (A, A.T):
            rows = one._cell.rows or one._cell.validate()
            if rows.dtype is not None and state_of(one).serving is None:
                force(one, schedule_of(name, 1))
                tuned.append(state_of(one))

    folder = tmp_path_factory.getbasetemp() / "fuzz-kernels"
    with autosparse.options(cache_dir=folder, extra_memory=1000.0):
        _, stale = stale_products(n_sequences, before_product=tune)
    assert not stale, stale[:5]
    assert sum(state.n_tuned for state in tuned) > n_sequences, "hardly any product was computed from a packed copy"


@sequences(200, 400)
@pytest.mark.parametrize("first_entry", [1, states.FIRST_FAST_PATH])
def test_default_kernels_see_every_write(first_entry: int, n_sequences: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "FIRST_FAST_PATH", first_entry)
    monkeypatch.setattr(executor, "small_product", lambda *args, **kwargs: None)
    assert not stale_products(n_sequences)[1]


@sequences(200, 400)
def test_small_products_see_every_write(n_sequences: int) -> None:
    assert not stale_products(n_sequences)[1]


@sequences(200, 400)
def test_no_product_is_stale_without_the_descriptors_of_the_runtime(
    n_sequences: int, packed: PackedCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    for field, name in enumerate(plain.NAMES):
        monkeypatch.setattr(AutoSparseMatrix, name, plain.watched(field))
    assert not stale_products(n_sequences)[1]


@pytest.mark.skipif(
    mutation_guard.calibrated_counts() is None, reason="reference counts do not show aliases on this interpreter"
)
@sequences(200, 400)
def test_no_product_is_stale_where_reference_counts_cannot_be_trusted(
    n_sequences: int, packed: PackedCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation_guard, "calibrated_counts", lambda: None)
    assert not stale_products(n_sequences)[1]


def test_no_product_is_stale_after_writes_of_another_process(packed: PackedCopies) -> None:
    """Another process writes arrays in shared memory, which no reference count shows."""
    with other_process() as other:
        for seed in range(12):
            rng = np.random.default_rng(seed)
            m = sps.random(N_ROWS, N_COLUMNS, 0.35, format="csr", random_state=np.random.RandomState(seed))
            other.share(m)
            arrays = (other.arrays["data"], other.arrays["indices"], other.arrays["indptr"])
            A = autosparse.csr(arrays, shape=m.shape, copy=False)
            theirs = sps.csr_array(arrays, shape=m.shape)
            if seed % 2:
                A = A.T.T
            for _ in range(N_STEPS):
                other.write(("data", "indices")[int(rng.integers(2))], int(rng.integers(1 << 30)))
                np.testing.assert_allclose(A @ np.ones(N_COLUMNS), theirs @ np.ones(N_COLUMNS), rtol=1e-10)
                np.testing.assert_allclose(A.T @ np.ones(N_ROWS), theirs.T @ np.ones(N_ROWS), rtol=1e-10)
            owned = autosparse.csr(arrays, shape=m.shape)
            before = owned @ np.ones(N_COLUMNS)
            other.write("data", 1)
            np.testing.assert_array_equal(owned @ np.ones(N_COLUMNS), before)
            del A, theirs, arrays


def test_the_fuzz_finds_stale_products_without_the_guard(packed: PackedCopies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Operand, "refresh", lambda self: None)
    assert len(stale_products(100)[1]) > 30


@pytest.mark.skipif(
    mutation_guard.calibrated_counts() is None, reason="reference counts do not show aliases on this interpreter"
)
def test_the_fuzz_finds_a_guard_that_tolerates_one_alias(packed: PackedCopies, monkeypatch: pytest.MonkeyPatch) -> None:
    right = mutation_guard.anchors_of

    def lax(arrays: Any) -> mutation_guard.Anchors:
        anchors = right(arrays)
        return mutation_guard.Anchors(anchors.arrays, anchors.expected + 1, anchors.n_beneath)

    monkeypatch.setattr(mutation_guard, "anchors_of", lax)
    monkeypatch.setattr(
        mutation_guard,
        "is_alone",
        lambda anchors, n_leased=0: mutation_guard.reference_total(anchors.arrays) <= anchors.expected + n_leased,
    )
    assert stale_products(1000, enough=1)[1]
