"""Operand adapters: how each operation packs its sparse operand, reads it, and makes calls to time and to compare.

Each row of `OPS` names the module whose `ADAPTER` is its adapter.
"""

from __future__ import annotations

import copy
import functools
import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autosparse._native import memory, runtime_api
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.values import dataclass
from autosparse.operands.csr import Operand
from autosparse.ops import OPS
from autosparse.scalar import SCALARS
from autosparse.targets.priors import number

if TYPE_CHECKING:
    from autosparse.core.composite import Composite
    from autosparse.core.formats import Format
    from autosparse.dispatch.protocols import Call
    from autosparse.operands.unfolding import AnyOperand

Storage: TypeAlias = "Format | Composite"
"""Storage of a packed copy: one format, or a composite of parts."""
AnyArray = NDArray[Any]  # an array of one native dtype

LINE_BYTES: Final = 64
"""Size of a cache line in bytes."""
PLACES: Final = ((0, 0), (16, 16), (16, 256), (16, 304), (16, 512), (16, 528), (16, 768), (16, 816))
"""Alignment offsets (dense operand, result) in bytes behind a cache line, which timing cycles through.

The first pair aligns both, as for results of products. In the others, operands begin where NumPy's large arrays do,
and results begin on a line or within one, in any quarter of a kilobyte.
"""

LARGE_ENTRIES: Final = 1 << 22
"""Minimum number of entries of steps with prices of their own, separate from the prices of small steps.

Memory touched for the first time dominates large steps: packing 39 million entries took 0.95 s in new pages, and
0.07 s in reused pages (virtual machine).
"""
MIN_ENTRY, MAX_ENTRY = number("checks", "minimum entry"), number("checks", "maximum entry")
"""Bounds of the absolute values of the entries of dense operands used for comparison."""
PERIOD: Final = 4099
"""Period in entries of synthetic dense operands; a prime, so that rows a kernel may confuse differ."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a result from `first` on: a call of the default kernel, the array it writes to, and error bounds."""

    call: Call
    result: AnyArray  # (rows, columns), or (entries, 1)
    bounds: Callable[[], tuple[AnyArray, AnyArray | int]]
    """Function that returns, per row of the result, an upper bound on the sum of the absolute values of the products,
    and the number of products in such a sum."""
    rows: tuple[AnyArray, AnyArray] | None = None
    """indptr and data, if rows of the result are sums over rows of the matrix; results that agree need no `bounds`."""
    first: int = 0


@dataclass(frozen=True, slots=True)
class Trustworthy:
    """Call on synthetic operands with the array that it writes to, and the default kernel's result in parts."""

    call: Call
    found: AnyArray  # (rows, columns), or (entries, 1)
    parts: Iterable[Part]


def whole(call: Any, found: AnyArray, **bounds: Any) -> Trustworthy:
    """Return `call`, which writes to `found`, beside one part with all rows, whose result is another array."""
    default, wanted = copy.copy(call), memory.empty_scratch(found.shape, found.dtype)
    default.result, default.kept = runtime_api.address_of(wanted), (*call.kept[:-1], wanted)
    return Trustworthy(call, found, [Part(default, wanted, **bounds)])


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandAdapter:
    """Functions that adapt one operation's sparse operand to packing, timing and comparison."""

    packed_bytes: Callable[[Problem, Storage, AnyOperand | None], int]  # known before packing, O(nnz) at most
    reason_unfit: Callable[[Problem, Storage], str | None]
    pack: Callable[[Problem, AnyOperand, Storage], Any]
    pack_live: Callable[[Pattern, Operand, Format], Any] | None  # for a format that is the user's own arrays
    keeps_values: bool  # the packed operand holds copies of values, to be refreshed when they change
    synthetic: Callable[[Problem, AnyOperand], tuple[Call, ...]]  # calls on dense operands to time in turn
    # (problem, operand, n_columns, n_threads, a synthetic call whose operands are used) -> a call not yet run
    trustworthy: Callable[[Problem, AnyOperand, int, int, Call | None], Trustworthy]

    def reads_live(self, problem: Problem, fmt: Storage) -> bool:
        """Return whether kernels of the format read the user's own arrays, so that nothing is packed or stale."""
        return self.pack_live is not None and fmt.is_csr and not problem.transposed

    def view(self, problem: Problem) -> str:
        """Return the name of the data that a packed copy holds; copies with equal format and view are shared."""
        return f"{problem.name}.T" if problem.transposed else problem.name


def one_format(fmt: Storage) -> Format:
    """Return `fmt` itself, which is no composite: the operation has none."""
    from autosparse.core.formats import Format

    assert isinstance(fmt, Format)
    return fmt


def sized(kind: str, n_entries: int) -> str:
    """Return the name under which a step over `n_entries` is priced: `kind`, or "`kind` large" beyond cache sizes."""
    return f"{kind} large" if n_entries >= LARGE_ENTRIES else kind


@functools.lru_cache
def _in(module: str) -> OperandAdapter:
    found: OperandAdapter = importlib.import_module(module).ADAPTER
    return found


def adapter_of(operation: str) -> OperandAdapter:
    """Return the operand adapter of `operation`."""
    return _in(OPS[operation].tuning.adapter)


def rows_of(operand: AnyOperand) -> Any:  # Any: NativeRows
    """Return the compressed rows of a matrix as kernels read them, validated."""
    assert isinstance(operand, Operand)
    return operand.rows or operand.validate()


def dense(problem: Problem, seed: int, *shape: int) -> AnyArray:
    """Return a synthetic dense operand of this shape, fixed by `seed`: entries of both signs, none of them small."""
    made = memory.empty_scratch(shape, np.dtype(problem.dtype))  # it returns to the system, unlike malloc's heap
    period, flat = _period(problem.dtype, seed), made.reshape(-1)
    n = flat.size // PERIOD * PERIOD
    flat[:n].reshape(-1, PERIOD)[:], flat[n:] = period, period[: flat.size - n]
    return made


def placed(problem: Problem, shape: Sequence[int], seed: int | None = None) -> list[AnyArray]:
    """Return views of one buffer that begin at each of the alignment offsets `PLACES`.

    With a seed they are operands with entries like those of `dense`; without one, results whose entries are undefined.
    """
    n = math.prod(shape)
    n_room = n + LINE_BYTES + max(map(max, PLACES))
    room = np.empty(n_room, problem.dtype) if seed is None else dense(problem, seed, n_room)
    first = -runtime_api.address_of(room) % LINE_BYTES
    begins = [(first + place[seed is None]) // room.itemsize for place in PLACES]
    return [room[begin : begin + n].reshape(tuple(shape)) for begin in begins]


@lru_cache(maxsize=16)
def _period(dtype: str, seed: int) -> AnyArray:
    """Return one period of a synthetic operand; a complex one has parts of either sign and the same magnitudes."""
    rng = np.random.default_rng(seed)
    real = rng.uniform(MIN_ENTRY, MAX_ENTRY, PERIOD) * rng.choice((-1.0, 1.0), PERIOD)
    if SCALARS[dtype].kind == "complex":
        real = real * np.exp(0.25j * np.pi * rng.choice((-1.0, 1.0), PERIOD))
    period: AnyArray = real.astype(dtype)
    return period


def result(problem: Problem, *shape: int) -> AnyArray:
    """Return an uninitialized result array."""
    return memory.empty_scratch(shape, np.dtype(problem.dtype))
