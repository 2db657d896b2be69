"""Tests of vectors that a matrix keeps for its solves: reused, never shared by two solves, freed with the matrix."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.linalg.solves import Solve
from autosparse.linalg.solves.workspace import SolverMemory, memory_of

N = 40_000
KEY = (N,), "d"


def system() -> asp.csr_array:
    return asp.csr(sps.diags_array([-np.ones(N - 1), 3.0 * np.ones(N), -np.ones(N - 1)], offsets=[-1, 0, 1]))


def test_a_second_solve_allocates_no_vectors() -> None:
    """The only new vector is the solution, which belongs to the user."""
    A, b = system(), np.ones(N)
    with asp.options(effort="off"):
        asp.linalg.cg(A, b, maxiter=8)
        asp.linalg.cg(A, b, maxiter=8)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            x, _ = asp.linalg.cg(A, b, maxiter=8)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert x.nbytes <= peak - before < 1.5 * x.nbytes


def test_vectors_come_back_and_are_handed_out_once() -> None:
    memory = SolverMemory()
    first = memory.take(KEY, 3)
    assert len({vector.ctypes.data for vector in first}) == 3
    second = memory.take(KEY, 2)  # a second solve at the same time
    assert not {vector.ctypes.data for vector in first} & {vector.ctypes.data for vector in second}
    memory.give(KEY, first)
    again = memory.take(KEY, 3)
    assert {id(vector) for vector in again} == {id(vector) for vector in first}
    assert memory._kept_bytes == 0


def test_shape_and_dtype_are_those_that_were_asked_for() -> None:
    with Solve("cg", system()) as solve:
        for shape, dtype in ((N, "f4"), ((N, 3), "c16"), ((2, N), float)):
            for vector in solve.workspace(shape, dtype, 2):
                assert vector.shape == (shape if isinstance(shape, tuple) else (shape,))
                assert vector.dtype == np.dtype(dtype)
                assert vector.base is None


def test_output_pool_bytes_bounds_what_is_kept() -> None:
    memory = SolverMemory()
    with asp.options(output_pool_bytes=2 * 8 * N):
        memory.give(KEY, [np.empty(N) for _ in range(2)])
        assert memory._kept_bytes == 2 * 8 * N
        memory.give(((N,), "f"), [np.empty(N, "f4")])
        assert memory._kept_bytes == 4 * N
        memory.give(KEY, [np.empty(N) for _ in range(3)])
        assert memory._kept_bytes <= 2 * 8 * N
    with asp.options(output_pool_bytes=0):
        memory.give(KEY, [np.empty(N)])
        assert memory._kept_bytes == 0


def test_vectors_are_freed_with_the_matrix_and_travel_nowhere() -> None:
    A = system()
    with Solve("cg", A) as solve:
        vector = weakref.ref(solve.workspace(N, float, 1)[0])
    gc.collect()
    assert vector() is not None
    for other in (copy.copy(A), copy.deepcopy(A), pickle.loads(pickle.dumps(A)), A.copy(), 2 * A):
        assert other._cell is A._cell or other._cell.solver_memory is None
    assert len(pickle.dumps(A)) < 2 * (A.data.nbytes + A.indices.nbytes + A.indptr.nbytes)
    del A, solve, other
    gc.collect()
    assert vector() is None


def test_a_solve_that_fails_gives_its_vectors_back() -> None:
    A = system()

    def fail() -> None:
        with Solve("cg", A) as solve:
            solve.workspace(N, float, 4)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert memory_of(A._cell)._kept_bytes == 4 * 8 * N


def test_solves_of_one_matrix_in_several_threads_do_not_disturb_each_other() -> None:
    A, rng = system(), np.random.default_rng(0)
    sides = [rng.standard_normal(N) for _ in range(4)]
    found: dict[int, list[np.ndarray]] = {n: [] for n in range(4)}

    def solve(n: int) -> None:
        for _ in range(3):
            found[n].append(asp.linalg.cg(A, sides[n], rtol=1e-10)[0])

    threads = [threading.Thread(target=solve, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for b, solutions in zip(sides, found.values(), strict=True):
        assert len(solutions) == 3
        for x in solutions:
            assert np.linalg.norm(A @ x - b) <= 1e-9 * np.linalg.norm(b)


def test_an_operator_of_someone_else_gets_new_vectors() -> None:
    with Solve("cg", sps.linalg.aslinearoperator(np.eye(3))) as solve:
        assert solve.operand is None
        assert [vector.shape for vector in solve.workspace(3, float, 2)] == [(3,), (3,)]


def test_a_wrapped_matrix_is_known_by_its_operand() -> None:
    A = system()
    with Solve("cg", sps.linalg.aslinearoperator(A)) as solve:
        assert solve.operand is A._cell
