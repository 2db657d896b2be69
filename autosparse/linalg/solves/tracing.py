"""Record the time of each part of a solve: `trace()` collects an explanation of every solve inside its block.

Outside `trace`, nothing is measured. Inside, each call of a product, preconditioner or sweep is timed. The context
belongs to one thread (and to the task, in asyncio).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from autosparse.linalg.solves.explanation import SolveExplanation
    from autosparse.operands.csr import Operand

PRODUCTS: Final = "products"
PRECONDITIONER: Final = "preconditioner"
VECTORS: Final = "vectors"
Given = ParamSpec("Given")
Made = TypeVar("Made")


class Trace:
    """The finished and the running solves of one `trace`."""

    def __init__(self) -> None:
        self.ended: list[SolveExplanation] = []
        self.running: list[Recording] = []


_TRACE: ContextVar[Trace | None] = ContextVar("autosparse_solves", default=None)


@contextmanager
def trace() -> Iterator[list[SolveExplanation]]:
    """Collect an explanation of every solve inside the block: its time by parts, and its true residual.

    The context yields a list, to which each solve appends one object when it ends. ``print`` shows it, `html` writes a
    page, and its attributes are numbers. Each part of an iteration is timed by two calls of a clock, and the true
    residual takes one product per solve. A solve with several right-hand sides (`columns=True`) has one residual and
    one info for each; right-hand sides that do not fit into one panel are several solves, as are those that `gmres`
    solves one after the other.

    >>> A = asp.csr(sps.diags_array([-np.ones(99), 2.1 * np.ones(100), -np.ones(99)], offsets=[-1, 0, 1]))
    >>> with asp.linalg.trace() as solves:
    ...     x, info = asp.linalg.cg(A, np.ones(100))
    >>> print(solves[0])  # doctest: +ELLIPSIS
    cg: 100 unknowns...
    """
    made = Trace()
    before = _TRACE.set(made)
    try:
        yield made.ended
    finally:
        _TRACE.reset(before)


def is_active() -> bool:
    """Return whether a trace is active in this context."""
    return _TRACE.get() is not None


class Recording:
    """Record of the time spent in each part of one running solve."""

    __slots__ = (
        "_answer", "_begun_ns", "_is_inside", "_solved", "_spent_before_s", "_trace", "info", "n_products", "parts_ns",
        "reason",
    )  # fmt: skip

    def __init__(self, inside: Trace, *solved: Any) -> None:  # Any: name, A, its operand or None, target
        self._solved, self._trace = solved, inside
        self._spent_before_s = self._spent_s()
        self._answer: tuple[Any, Any] | None = None
        self.info: Any = None
        self.reason = ""
        self._is_inside = False  # true while a part is timed
        self.n_products = 0
        self.parts_ns = {PRODUCTS: 0, PRECONDITIONER: 0, VECTORS: 0}
        self._begun_ns = perf_counter_ns()

    def timed(self, part: str, call: Callable[..., Made], *arguments: Any) -> Made:
        """Call `call` and add its time to `part`; nested calls count for the outer part."""
        if self._is_inside:
            return call(*arguments)
        self._is_inside = True
        begun_ns = perf_counter_ns()
        try:
            return call(*arguments)
        finally:
            self.parts_ns[part] += perf_counter_ns() - begun_ns
            self.n_products += int(part == PRODUCTS)
            self._is_inside = False

    def answer(self, x: Any, b: Any, info: Any) -> None:
        """Store x, b and the solver's code until the solve ends."""
        self._answer, self.info = (x, b), info

    def end(self, n_iterations: int, *, is_whole: bool) -> None:
        """Append the explanation to the trace; it has no true residual if the solve raised an exception."""
        total_ns = perf_counter_ns() - self._begun_ns
        self._trace.running.remove(self)
        (name, A, _, target), (kernels_s, tuning_s) = self._solved, self._spent_s()
        kernels_before_s, tuned_s = self._spent_before_s
        products_s = self.parts_ns[PRODUCTS] * 1e-9
        # The excess of a product over its kernel may be tuning; other tuning steps run in the background.
        ran_s = kernels_s - kernels_before_s
        tuning_s = max(0.0, min(tuning_s - tuned_s, products_s - ran_s)) if ran_s > 0.0 else 0.0
        residual, residual_ns = None, 0
        if is_whole and self._answer is not None:
            begun_ns = perf_counter_ns()
            residual = _true_residual(A, *self._answer)
            residual_ns = perf_counter_ns() - begun_ns
        from autosparse.linalg.solves.explanation import SolveExplanation  # takes longer than many solves

        self._trace.ended.append(
            SolveExplanation(
                solver=name, shape=tuple(getattr(A, "shape", ())), n_iterations=max(0, n_iterations),
                n_products=self.n_products, target=target, info=self.info, true_residual=residual,
                total_s=(total_ns + residual_ns) * 1e-9, products_s=products_s - tuning_s, tuning_s=tuning_s,
                preconditioner_s=self.parts_ns[PRECONDITIONER] * 1e-9, vectors_s=self.parts_ns[VECTORS] * 1e-9,
                residual_s=residual_ns * 1e-9, reason=self.reason,
            )
        )  # fmt: skip

    def _spent_s(self) -> tuple[float, float]:
        """Return the seconds spent in the matrix's kernels, and the seconds spent on tuning them."""
        from autosparse.linalg.solves.workspace import states_of

        operand = self._solved[2]
        states = [] if operand is None else states_of(operand)
        tuning_s = sum(state.live_tuner.tuning_s for state in states if state.live_tuner is not None)
        return sum(state.product_ns for state in states) * 1e-9, tuning_s


def _true_residual(A: Any, x: Any, b: Any) -> Any:  # Any: as solvers take them; a float or an array
    """Return the norm of b - A x, or those of its columns if x has two axes; None if A has no products."""
    if not hasattr(A, "__matmul__"):
        return None
    x, b = np.asarray(x), np.asarray(b)
    if x.ndim == 2 and x.shape == b.shape and x.shape[1] > 1:
        return np.linalg.norm(b - np.asarray(A @ x), axis=0)
    return float(np.linalg.norm(b.ravel() - np.asarray(A @ x.ravel()).ravel()))


def begin(name: str, A: Any, operand: Operand | None, target: float) -> Recording | None:  # Any: as solvers take it
    """Start the recording of a solve if a trace is active in this context; else return None."""
    inside = _TRACE.get()
    if inside is None:
        return None
    made = Recording(inside, name, A, operand, target)
    inside.running.append(made)
    return made


def observed(part: str, call: Made) -> Made:
    """Return `call`, or inside a trace a wrapper of it that adds the time of each call to `part`."""
    inside = _TRACE.get()
    if inside is None or not callable(call):
        return call
    return functools.partial(_call, inside, part, call)  # type: ignore[return-value]  # called like `call`


def timed(part: str) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """Decorate a function that returns callables: inside a trace, their time counts for `part`."""

    def decorate(make: Callable[Given, Made]) -> Callable[Given, Made]:
        @functools.wraps(make)
        def makes(*arguments: Given.args, **options: Given.kwargs) -> Made:
            return observed(part, make(*arguments, **options))

        return makes

    return decorate


def timed_method(method: Callable[Given, Made]) -> Callable[Given, Made]:
    """Decorate a method on vectors: inside a trace, its time counts for `VECTORS`."""

    @functools.wraps(method)
    def call(*arguments: Given.args, **options: Given.kwargs) -> Made:
        inside = _TRACE.get()
        if inside is None:
            return method(*arguments, **options)
        return _call(inside, VECTORS, method, *arguments, **options)  # type: ignore[no-any-return]  # what `method` does

    return call


def _call(inside: Trace, part: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    if not inside.running:
        return call(*arguments, **options)
    return inside.running[-1].timed(part, functools.partial(call, **options) if options else call, *arguments)
