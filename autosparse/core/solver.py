"""Types that every planner shares: a choice, its expected cost, and the protocol of solvers.

A solver is a way to compute one kind of problem: a family of kernels, a vendor's library, or the default kernel. Its
knobs are the values that it may be prepared with, such as a SuperSchedule. A planner ranks choices (solver, knobs) by
cost, times the best ones against the default, and stores the fastest as the plan.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from autosparse.core.formats import CSR_LEVELS, LevelKind
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass

if TYPE_CHECKING:
    from autosparse.core.composite import Schedule

DEFAULT_SOLVER: Final = "default"
"""Name of the solver that computes without any preparation: the compiled loop, or the library that is replaced."""


class Choice(NamedTuple):
    """Solver by name, with its knobs: hashable, equal by value and storable, so that it identifies a candidate."""

    solver: str
    knobs: Hashable = None

    @property
    def is_default(self) -> bool:
        """Return whether the choice is the default solver, which runs in every race."""
        return self.solver == DEFAULT_SOLVER

    @property
    def schedule(self) -> Schedule | None:
        """Schedule among the knobs; None for the default solver and for solvers with knobs of their own."""
        if self.knobs is None or isinstance(self.knobs, SuperSchedule):
            return self.knobs
        from autosparse.core.composite import Composite  # rarely used, and a remembered plan is loaded in milliseconds

        return self.knobs if isinstance(self.knobs, Composite) else None

    @property
    def name(self) -> str:
        """Format of the schedule as text, or the solver's name, for messages."""
        if self.is_default:
            return "default kernel"
        return self.solver if (schedule := self.schedule) is None else str(schedule.format)

    @property
    def text(self) -> str:
        """Text for logs: the schedule as JSON, or the solver's name."""
        return self.solver if (schedule := self.schedule) is None else schedule.to_json()


DEFAULT: Final = Choice(DEFAULT_SOLVER)
"""Choice of the default solver, which has no knobs."""

COMPOSITE_SOLVER: Final = "composite"
GENERATED_SOLVER: Final = "generated"
FAMILIES: Final = ("csr", "sell", "bcsr", "panels", COMPOSITE_SOLVER, GENERATED_SOLVER)
"""Names of the built-in solvers whose knobs are schedules; "generated" is any format without a name of its own."""


def solver_of(schedule: Schedule | None) -> str:
    """Return the name of the built-in solver that computes `schedule`; None is the default kernel."""
    if schedule is None:
        return DEFAULT_SOLVER
    if not isinstance(schedule, SuperSchedule):
        return COMPOSITE_SOLVER
    fmt = schedule.format
    if fmt.levels == CSR_LEVELS:
        return "csr"
    if fmt.is_sliced:
        return "sell"
    first, *_, last = fmt.levels
    if first.coordinate == "k1" and first.kind is LevelKind.UNCOMPRESSED and fmt.split("k") > 1:
        return "panels"
    return "bcsr" if last.kind is LevelKind.UNCOMPRESSED and fmt.splits else GENERATED_SOLVER


def choice_of(schedule: Schedule | None) -> Choice:
    """Return the choice of the built-in solver that computes `schedule`; None is the default kernel."""
    return DEFAULT if schedule is None else Choice(solver_of(schedule), schedule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Expected cost of a choice: seconds of one run with an interval, seconds of preparation, bytes kept.

    `seconds` is None where no model predicts the time; such a choice must be timed.
    """

    seconds: float | None = None
    low_s: float | None = None  # lower quantile of the expected seconds
    high_s: float | None = None  # upper quantile
    setup_s: float = 0.0
    n_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class SparseOperand:
    """Compressed rows of a matrix as a registered solver prepares them; the arrays are the user's own, to be read only.

    `transposed`: products are ``A.T @ B``, and ``A.T`` is not stored.
    """

    operation: str
    indptr: Any  # Any: NumPy arrays, here and below; loading NumPy's types would cost each process a millisecond
    indices: Any
    data: Any
    shape: tuple[int, int]
    transposed: bool
    n_threads: int


@dataclass(slots=True, kw_only=True)
class ProductArguments(SparseOperand):
    """Arguments of one product ``C = op(A) @ B``: the operand as it is now, B, and C, which is overwritten.

    B and C are two-dimensional with adjacent elements in each row; with one column they have one dimension.
    """

    B: Any
    C: Any


@dataclass(slots=True, kw_only=True)
class SampledArguments(SparseOperand):
    """Arguments of one sampled product: X (m, k) and Y (n, k) by rows, and S, which is overwritten.

    S holds ``A[i, j] * (X[i] @ Y[j])`` for each stored entry of A (m, n), in A's order.
    """

    X: Any
    Y: Any
    S: Any


@dataclass(slots=True, kw_only=True)
class TensorOperand:
    """Entries of a tensor as a registered solver prepares them, to be read only: entry e is at ``coords[:, e]``."""

    operation: str
    coords: Any
    data: Any
    shape: tuple[int, ...]
    mode: int
    n_threads: int


@dataclass(slots=True, kw_only=True)
class TensorArguments(TensorOperand):
    """Arguments of one MTTKRP: a factor (extent, R) for each mode but `mode`, in order, and M, which is overwritten."""

    factors: tuple[Any, ...]
    M: Any


@dataclass(slots=True, kw_only=True)
class SparsePair:
    """Both operands of a product of two sparse matrices, ``left @ right``, of one dtype and one index type."""

    operation: str
    left: SparseOperand
    right: SparseOperand
    n_threads: int


@dataclass(slots=True, kw_only=True)
class SparseProductArguments(SparsePair):
    """Arguments of one product of two sparse matrices; `Bound.run` sets C to new arrays (indptr, indices, data)."""

    C: tuple[Any, Any, Any] | None = None


class Bound(Protocol):
    """Protocol of a choice that was prepared for one operand and can run."""

    def run(self, arguments: Any) -> bool:
        """Compute one result from `arguments`, the pointer structure of the operation; False: it must be recomputed.

        Registered solvers get `ProductArguments`, `SampledArguments`, `TensorArguments` or `SparseProductArguments`.
        """


class Solver(Protocol):
    """Protocol of solvers. Problems and operands are those of the surface that plans: CPU, GPU or einsum.

    Three more attributes are optional. ``operations`` names the operations that a registered solver computes, by
    default products ``A @ B`` and ``A.T @ B`` alone. ``version``, a text, is part of the plans' keys. ``reads_live`` is
    true if `Bound` reads A's arrays in each run; otherwise the operand is prepared again when values of A have changed.
    """

    name: str

    def applicable(self, problem: Any) -> str | None:
        """Return why the solver cannot compute `problem`, for explanations; None if it can."""

    def knobs(self, problem: Any) -> Iterable[Hashable]:
        """Return the knobs worth considering for `problem`: few, hashable and storable."""

    def cost(self, problem: Any, knobs: Hashable) -> Cost:
        """Return the expected cost of `problem` with `knobs`."""

    def prepare(self, operand: Any, knobs: Hashable) -> Bound:
        """Pack, compile or load, and raise an exception if that fails.

        Registered solvers get a `SparseOperand`, a `TensorOperand` or a `SparsePair`.
        """
