"""Data that solvers keep with a matrix between solves: work vectors, and numbers of iterations."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import forking, light

if TYPE_CHECKING:
    from autosparse.dispatch.state import DispatchState
    from autosparse.operands.csr import Operand

Vector = NDArray[Any]
Key = tuple[tuple[int, ...], str]
"""Shape and dtype character of a vector."""


KEPT_BYTES: Final = 1 << 17
"""Number of bytes of vectors that are kept with every matrix."""


class Conversion:
    """A copy of the matrix in another dtype, with the versions of the operand it was made from."""

    __slots__ = ("matrix", "structure_version", "values_version")

    def __init__(self, matrix: Any, structure_version: int, values_version: int) -> None:  # Any: an autosparse array
        self.matrix = matrix
        self.structure_version, self.values_version = structure_version, values_version


class SolverMemory:
    """Vectors, converted copies and numbers of iterations of one matrix, freed with the matrix; thread-safe.

    A vector that a solve has taken belongs to it until the solve returns it. A solve that runs while another one holds
    the vectors gets new ones.
    """

    __slots__ = ("_free", "_kept_bytes", "_lock", "conversions", "facts", "fewest", "n_following")

    def __init__(self) -> None:
        self.fewest: dict[str, int] = {}  # solver -> iterations of its shortest solve
        self.n_following = 0  # solves that follow the present one in the same call, of further columns
        self.conversions: dict[tuple[str, bool], Conversion] = {}  # (dtype character, is conjugated) -> copy
        self.facts: dict[Hashable, tuple[tuple[int, int], Any]] = {}  # name -> (versions of the operand, fact)
        self._free: dict[Key, list[Vector]] = {}
        self._kept_bytes = 0
        self._lock = forking.lock()

    def take(self, key: Key, n: int) -> list[Vector]:
        """Return `n` distinct uninitialized arrays of the shape and dtype `key`, kept ones first."""
        free = self._free.get(key)
        if not free or not n:
            return new_vectors(key, n)
        with self._lock:
            taken = free[-n:]
            del free[-n:]
            if taken:
                self._kept_bytes -= len(taken) * taken[0].nbytes
        return taken if len(taken) == n else taken + new_vectors(key, n - len(taken))

    def give(self, key: Key, vectors: list[Vector]) -> None:
        """Keep `vectors` for the next solve, up to the setting `output_pool_bytes` in total, or 128 KiB."""
        n_bytes = len(vectors) * vectors[0].nbytes if vectors else 0
        with self._lock:
            if self._kept_bytes + n_bytes > KEPT_BYTES:
                limit_bytes = pool_bytes()
                if self._kept_bytes + n_bytes > limit_bytes:  # vectors of other shapes are dropped first
                    for free in self._free.values():
                        free.clear()
                    self._kept_bytes = 0
                if n_bytes > limit_bytes:
                    return
            self._free.setdefault(key, []).extend(vectors)
            self._kept_bytes += n_bytes

    def note_length(self, solver: str, n_iterations: int) -> None:
        """Record that a solve by `solver` took `n_iterations`; the smallest number is kept."""
        self.fewest[solver] = min(n_iterations, self.fewest.get(solver, n_iterations))


def pool_bytes() -> int:
    """Return the setting `output_pool_bytes`, or its default."""
    from autosparse._native import memory  # with the options, which are loaded with the library
    from autosparse.config import get_options

    wanted_bytes = get_options().output_pool_bytes
    return memory.default_pool_bytes() if wanted_bytes is None else wanted_bytes


def new_vectors(key: Key, n: int) -> list[Vector]:
    """Return `n` new uninitialized arrays of the shape and dtype `key`."""
    shape, char = key
    return [(_allocate or _empty)(shape, np.dtype(char)) for _ in range(n)]


_allocate: Callable[..., Vector] | None = None  # `memory.empty_vector`, once the library is loaded


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Vector:
    """Return an uninitialized array in recycled memory."""
    global _allocate
    if light.is_complete:
        from autosparse._native.memory import empty_vector

        _allocate = empty_vector
        return empty_vector(shape, dtype)
    native = light.runtime()
    return np.empty(shape, dtype) if native is None else native.empty(shape, dtype)


def zeros(n: int, dtype: np.dtype[Any]) -> Vector:
    """Return a solution that is 0."""
    x = (_allocate or _empty)((n,), dtype)
    x.fill(0)
    return x


def memory_of(operand: Operand) -> SolverMemory:
    """Return the solver memory of `operand`, created on first use."""
    found: SolverMemory | None = operand.solver_memory
    if found is None:
        found = operand.solver_memory = SolverMemory()
    return found


class Begun:
    """Counts of one operand's products, and the time, when a solve begins or at a moment of it.

    `states` are those of the operand's products; products of other states are all the solve's own. `clock_ns` is a
    clock in ns.
    """

    __slots__ = ("at_ns", "before", "clock_ns")

    def __init__(self, states: list[DispatchState], clock_ns: Callable[[], int] = perf_counter_ns) -> None:
        self.before = {id(state): (state.n_calls, spent_ns(state), state.product_ns) for state in states}
        self.clock_ns = clock_ns
        self.at_ns = clock_ns()

    def n_before(self, state: DispatchState) -> int:
        """Return the number of products that had run then."""
        return self.before.get(id(state), _NOTHING)[0]

    def own_ns(self, state: DispatchState) -> float:
        """Return the time in ns spent since then in the products of a problem and on tuning it."""
        return spent_ns(state) - self.before.get(id(state), _NOTHING)[1]

    def other_ns(self, states: list[DispatchState]) -> float:
        """Return the time since then that was spent on anything but products of these states and their tuning."""
        return max(0.0, self.clock_ns() - self.at_ns - sum(map(self.own_ns, states)))

    def other_s(self, states: list[DispatchState]) -> float:
        """Return the same time in seconds for each product since then; 0 if there was none."""
        n_products = sum(state.n_calls - self.n_before(state) for state in states)
        return self.other_ns(states) * 1e-9 / n_products if n_products > 0 else 0.0

    def product_s(self, state: DispatchState) -> float:
        """Return the mean seconds of the products of a problem since then; inf if there was none."""
        n_calls, _, product_ns = self.before.get(id(state), _NOTHING)
        n_products = state.n_calls - n_calls
        return (state.product_ns - product_ns) * 1e-9 / n_products if n_products > 0 else math.inf

    def end(self, states: list[DispatchState]) -> None:
        """Add the time of the solve beside its products to its problems, in proportion to their products' time."""
        if len(states) == 1:
            (state,) = states
            if state.n_calls > self.n_before(state):
                state.add_solver_time(int(self.other_ns(states)))
            return
        other_ns, own = self.other_ns(states), [max(0.0, self.own_ns(state)) for state in states]
        for state, own_ns in zip(states, own, strict=True):
            if own_ns > 0.0:
                state.add_solver_time(int(other_ns * own_ns / sum(own)))


_NOTHING: Final = 0, 0.0, 0


def spent_ns(state: DispatchState) -> float:
    """Return the time in ns spent in the products of a problem and on tuning it."""
    if state.live_tuner is not None:
        return state.product_ns + state.live_tuner.tuning_s * 1e9
    return state.product_ns + (state.early.spent_s * 1e9 if state.early is not None else 0.0)


def operands_of(operand: Operand) -> list[Operand]:
    """Return `operand` and the operands of its kept copies: those whose products a solve of the matrix may run."""
    memory: SolverMemory | None = operand.solver_memory
    copies = [] if memory is None else list(memory.conversions.values())
    return [operand, *(one.matrix._cell for one in copies)]


def states_of(operand: Operand) -> list[DispatchState]:
    """Return the states of products that `operand` and its converted copies have run, with current counts."""
    found: dict[int, DispatchState] = {}
    for one in operands_of(operand):
        if (dispatcher := one.dispatcher) is not None:
            for key, state in list(dispatcher.hot.items()):
                if isinstance(key[1], bool) and id(state) not in found:
                    state.commit()
                    found[id(state)] = state
    return list(found.values())
