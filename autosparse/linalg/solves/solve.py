"""`Solve`: the context that every solver reports to; it informs tuning, reuses vectors, and shows progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse.linalg import LinearOperator

from autosparse import light
from autosparse.light.matrices import Slots
from autosparse.linalg.solves import tracing
from autosparse.linalg.solves.workspace import Begun, Key, memory_of, new_vectors, states_of

if TYPE_CHECKING:
    from autosparse.linalg.solves.convergence import Convergence, Left
    from autosparse.linalg.solves.expectation import ProductCounts
    from autosparse.linalg.solves.progress import SolveProgress
    from autosparse.operands.csr import Operand

NEVER: Final = 1 << 62
"""Iteration number that is never reached."""
Result = TypeVar("Result", bound=tuple[Any, ...])
Made = TypeVar("Made")
LATE: Final = 1 << 12
"""Maximum iteration of the first report for which products are counted from the start of the solve.

Counting costs microseconds, about as much as solving a tiny matrix.
"""
FIRST_ENTRIES: Final = 3_000_000
"""Minimum number of entries read by products before the first report, about 1 ms; for less, tuning does not pay."""
COLD_ITERATIONS: Final = 2
"""Minimum number of iterations before the first report: pages of vectors are touched in them for the first time."""
RESIDUAL: Final = "residual"
"""Name of the norm of b - A x."""
CRITERION: Final = "criterion"
"""Name of a number that combines a solver's stopping tests."""
PACE: Final = 1.25
"""Ratio of consecutive iterations at which expectations are reported."""


class NotFiniteError(ArithmeticError):
    """Error raised inside a strict solve whose residual is NaN; SciPy's function then gives NumPy's RuntimeWarnings."""


class Solve:
    """One call of the solver `name` for the matrix or operator `A`; a context used by one thread.

    `target`: value of the argument of `step` at which the solver stops. `quantity`: name of this value, ``"residual"``
    if it is the norm of b - A x. `limit`: maximum number of iterations. `progress`: the user's argument. `is_strict`:
    whether `step` raises NotFiniteError for a NaN.
    """

    __slots__ = (
        "A", "_begun", "_convergence", "_counts", "_due", "_is_light", "_is_strict", "_left", "_n_light", "_progress",
        "_record", "_taken",
        "_told_due", "best", "limit", "n_done", "name", "operand", "quantity", "target",
    )  # fmt: skip

    def __init__(
        self, name: str, A: Any, *, target: float = 0.0, limit: float = math.inf, quantity: str = RESIDUAL,
        progress: bool = False, is_strict: bool = False,
    ) -> None:  # fmt: skip  # Any: whatever SciPy's solvers take
        self._is_strict = is_strict
        self.name, self.target, self.limit, self.quantity = name, target, limit, quantity
        self.n_done, self.best = -1, math.inf
        if not light.is_complete and tracing.is_active():
            light.complete()  # a trace shows the time of kernels and of tuning
        self.A, self.operand = A, operand_of(A)
        n_entries = _n_entries(A) if self.operand is None else self.operand.nnz
        self._is_light, self._n_light = self.operand is None and n_entries is not None, 0
        self._due = self._told_due = NEVER if n_entries is None else _first_due(n_entries)
        self._left: tuple[int, Left | None] = (0, None)  # (iterations done, estimate made then)
        self._progress = _progress_of(name, quantity) if progress else None
        self._convergence: Convergence | None = None
        self._counts: ProductCounts | None = None
        self._begun: Begun | None = None
        self._record: tracing.Recording | None = None
        self._taken: list[tuple[Key, list[NDArray[Any]]]] = []

    def __enter__(self) -> Solve:
        if self._due < LATE and self.operand is not None:
            self._begun = Begun(states_of(self.operand))
        if self._progress is not None:
            self._due = self._told_due = 0
        self._record = tracing.begin(self.name, self.A, self.operand, self.target if self.quantity == RESIDUAL else 0.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.end(self.n_done, self.best)
        if self.operand is not None:
            if self._counts is not None:
                self._counts.end()
            if self._begun is not None:
                self._begun.end(states_of(self.operand))
            if self._taken or self.n_done > 0:
                self._leave(self.operand, is_whole=kind is None)
        if self._record is not None:
            self._record.end(self.n_done, is_whole=kind is None)

    def _leave(self, operand: Operand, *, is_whole: bool) -> None:
        """Return vectors to the matrix's memory and, unless the solve failed, record the number of iterations."""
        memory = memory_of(operand)
        for key, vectors in self._taken:
            memory.give(key, vectors)
        self._taken = []
        if is_whole and self.n_done > 0:
            memory.note_length(self.name, self.n_done)

    def step(self, residual_norm: float) -> None:
        """Record the start of an iteration, with the residual norm or the value of `quantity`."""
        if self._is_strict and math.isnan(residual_norm):
            raise NotFiniteError
        self.n_done = n_done = self.n_done + 1
        self.best = min(self.best, residual_norm)
        if n_done >= self._due:
            self._look(residual_norm)

    @property
    def n_until_report(self) -> int:
        """Number of steps from now on until a report to tuning or to the progress line is due, at least 1."""
        return max(1, self._due - self.n_done)

    def pass_steps(self, n: int, best: float) -> None:
        """Record `n` further steps of which no report is due, and the least residual norm among them."""
        self.n_done += n
        self.best = min(self.best, best)

    def workspace(self, shape: int | tuple[int, ...], dtype: DTypeLike, n: int) -> tuple[NDArray[Any], ...]:
        """Return `n` uninitialized arrays of this shape and dtype, each of which owns its memory.

        They are valid until the solve ends and must not be returned to the user.
        """
        key = (shape if isinstance(shape, tuple) else (shape,)), np.dtype(dtype).char
        if self.operand is None:
            return tuple(new_vectors(key, n))
        vectors = memory_of(self.operand).take(key, n)
        self._taken.append((key, vectors))
        return tuple(vectors)

    def note(self, reason: str) -> None:
        """Store, in the trace if there is one, why this way of computing the solve was chosen."""
        if self._record is not None:
            self._record.reason = reason

    def timed(self, part: str, call: Callable[..., Made], *arguments: Any) -> Made:  # Any: arguments of `call`
        """Call `call`; inside a trace its time counts for `part`."""
        if self._record is None:
            return call(*arguments)
        return self._record.timed(part, call, *arguments)

    def answer(self, result: Result, b: Any) -> Result:  # Any: array_like
        """Return `result`, the solver's (x, code, ...); a trace computes the true residual from it."""
        if self._record is not None:
            self._record.answer(result[0], b, result[1])
        return result

    def _look(self, residual_norm: float) -> None:
        """Extrapolate the residuals at geometrically growing iterations; report to tuning and to the progress line."""
        n_done = self.n_done
        if self._is_light and not self._is_complete() and self._progress is None:
            self._due = self._told_due = max(n_done + 1, int(n_done * PACE))
            return
        from autosparse.linalg.solves.convergence import NOTHING, Convergence, Left  # short solves do not need it

        at, left = self._left[0], self._left[1] or NOTHING
        if n_done >= self._told_due:
            convergence = self._convergence
            if convergence is None:
                convergence = self._convergence = Convergence(target=self.target, limit=self.limit)
            at, left = self._left = n_done, self._known(convergence.left(n_done, self.best, residual_norm))
            self._tell(left)
            self._due = self._told_due = max(n_done + 1, int(n_done * PACE))
        if self._progress is not None:
            self._due = n_done + 1
            since = Left(likely=max(0.0, left.likely - (n_done - at)), certain=left.certain)
            self._progress.show(n_done, residual_norm, since, self.limit)

    def _is_complete(self) -> bool:
        """Return whether a matrix that was light before has an operand now, which the solve reports to from now on."""
        self.operand = operand_of(self.A)
        if self.operand is not None:
            self._begun, self._is_light, self._n_light = Begun(states_of(self.operand)), False, self.n_done
        return self.operand is not None

    def _known(self, left: Left) -> Left:
        """Return `left`, or the estimate from earlier solves of the matrix by this solver if it is larger."""
        from autosparse.linalg.solves.convergence import CERTAINTY, Left

        memory = self.operand.solver_memory if self.operand is not None else None
        fewest = memory.fewest.get(self.name, 0) if memory is not None else 0
        more = min(fewest, self.limit) - self.n_done
        if more <= left.likely:
            return left
        return Left(likely=more, certain=max(left.certain, CERTAINTY * more))

    def _tell(self, left: Left) -> None:
        if self._counts is None and self.operand is not None:
            self._counts = _counts_of(self.operand, self._begun or Begun([]))
        if self._counts is not None and self.operand is not None:
            self._counts.tell(
                self.n_done - self._n_light, _with_following(left, self.n_done, memory_of(self.operand).n_following)
            )


def _with_following(left: Left, n_done: int, n_following: int) -> Left:
    """Return the iterations left in this solve after `n_done`, and in `n_following` solves of similar length."""
    if not n_following:
        return left
    from autosparse.linalg.solves.convergence import CERTAINTY, Left

    likely, certain = left.likely + n_done, CERTAINTY * (left.certain + n_done)
    return Left(likely=left.likely + n_following * likely, certain=left.certain + n_following * certain)


def _first_due(n_entries: int) -> int:
    """Return the number of the iteration at which a solve first reports to tuning, earlier for large matrices."""
    return max(COLD_ITERATIONS, FIRST_ENTRIES // max(1, n_entries))


def _counts_of(operand: Operand, begun: Begun) -> ProductCounts | None:
    """Return counts of the products of `operand` since a solve began; None if dispatch has no state for them."""
    if not states_of(operand):
        return None
    from autosparse.linalg.solves.expectation import ProductCounts  # short solves do not need it

    return ProductCounts(operand, begun)


def _progress_of(name: str, quantity: str) -> SolveProgress:
    from autosparse.linalg.solves.progress import SolveProgress  # imported here because few solves show progress

    return SolveProgress(name, quantity=quantity)


def operand_of(A: Any) -> Operand | None:
    """Return the operand of a complete autosparse array, also inside a LinearOperator; None for anything else."""
    matrix = A.__dict__.get("A") if isinstance(A, LinearOperator) else A
    if not isinstance(matrix, Slots):
        return None
    if not light.is_complete:
        if light.rows_of(matrix) is not None:
            return None
        light.complete()  # another thread does so
    return matrix._cell  # type: ignore[no-any-return]  # whose type is unknown to light matrices


def _n_entries(A: Any) -> int | None:
    """Return the number of entries of a light matrix, also inside a LinearOperator; None for anything else."""
    rows = light.rows_of(A.__dict__.get("A") if isinstance(A, LinearOperator) else A)
    return None if rows is None else rows.arrays[1].size
