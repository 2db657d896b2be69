"""What operations do differently with their sparse operand: packing it, keeping it current, timing a product.

Each row of `OPS` names the module whose `ADAPTER` says it.
"""

from __future__ import annotations

import copy
import functools
import importlib
import math
from collections.abc import Callable, Sequence
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

if TYPE_CHECKING:
    from autosparse.core.composite import Composite
    from autosparse.core.formats import Format
    from autosparse.dispatch.protocols import Call
    from autosparse.operands.unfolding import AnyOperand

Storage: TypeAlias = "Format | Composite"
"""What a packed copy is stored in: one format, or parts."""
AnyArray = NDArray[Any]  # of one native dtype

LINE_BYTES: Final = 64
PLACES: Final = ((0, 0), (16, 16), (16, 256), (16, 304), (16, 512), (16, 528), (16, 768), (16, 816))
"""Bytes behind a cache line at which dense operands begin, and results. Both on one, as results of products; then
operands where NumPy's large arrays begin, results on a line and within one, in any quarter of a kilobyte
(docs/design/tuning-policy.md)."""

LEAST, MOST = 0.5, 1.5  # absolute values of the entries of dense operands that results are compared on
PERIOD: Final = 4099
"""Entries after which a dense operand repeats: a prime, so that no two rows that a kernel may confuse are alike."""


@dataclass(frozen=True, slots=True)
class Trustworthy:
    """A call with a result of its own, and how far each row of that may be off."""

    call: Call
    result: AnyArray  # (rows, columns), or (entries, 1)
    sums: AnyArray  # sum of the absolute values of the products, at most, per row of the result
    n_terms: AnyArray | int  # products in such a sum

    def anew(self, result: AnyArray) -> Call:
        """The same call with another result."""
        made: Any = copy.copy(self.call)  # of this operation: `result` is an address there
        made.result, made.kept = runtime_api.address_of(result), (*made.kept[:-1], result)
        call: Call = made
        return call


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandAdapter:
    """Functions of a problem, a format, and the operand where one is needed."""

    packed_bytes: Callable[[Problem, Storage], int]  # known before packing, O(nnz) at most
    reason_unfit: Callable[[Problem, Storage], str | None]
    pack: Callable[[Problem, AnyOperand, Storage], Any]
    pack_live: Callable[[Pattern, Operand, Format], Any] | None  # of a format that is the user's own arrays
    keeps_values: bool  # the packed operand holds copies of values, to be refreshed when they change
    synthetic: Callable[[Problem, AnyOperand], tuple[Call, ...]]  # calls on dense operands to time with, in turn
    trustworthy: Callable[[Problem, AnyOperand, int, int], Trustworthy]  # of so many columns and threads, not yet run

    def reads_live(self, problem: Problem, fmt: Storage) -> bool:
        """Whether kernels read the user's own arrays: nothing is packed, nothing can go stale."""
        return self.pack_live is not None and fmt.is_csr and not problem.transposed

    def view(self, problem: Problem) -> str:
        """What of the operand a packed copy shows; copies of one format and view are one."""
        return f"{problem.name}.T" if problem.transposed else problem.name


@functools.lru_cache
def _in(module: str) -> OperandAdapter:
    found: OperandAdapter = importlib.import_module(module).ADAPTER
    return found


def adapter_of(operation: str) -> OperandAdapter:
    """What `operation` does differently: the `ADAPTER` of the module that its row names."""
    return _in(OPS[operation].adapter)


def rows_of(operand: AnyOperand) -> Any:  # Any: NativeRows
    """Compressed rows of a matrix as kernels read them."""
    assert isinstance(operand, Operand)
    return operand.rows or operand.validate()


def dense(problem: Problem, seed: int, *shape: int) -> AnyArray:
    """Entries of both signs, none of them small."""
    return np.resize(_period(problem.dtype, seed), shape)


def placed(problem: Problem, shape: Sequence[int], seed: int | None = None) -> list[AnyArray]:
    """Views of one memory that begin where `PLACES` says: kernels differ in how much they mind.

    Operands with entries like those of `dense`; without a seed results, not yet written.
    """
    n = math.prod(shape)
    n_room = n + LINE_BYTES + max(map(max, PLACES))
    room = np.empty(n_room, problem.dtype) if seed is None else dense(problem, seed, n_room)
    first = -runtime_api.address_of(room) % LINE_BYTES
    begins = [(first + place[seed is None]) // room.itemsize for place in PLACES]
    return [room[begin : begin + n].reshape(tuple(shape)) for begin in begins]


@lru_cache(maxsize=16)
def _period(dtype: str, seed: int) -> AnyArray:
    rng = np.random.default_rng(seed)
    period: AnyArray = (rng.uniform(LEAST, MOST, PERIOD) * rng.choice((-1.0, 1.0), PERIOD)).astype(dtype)
    return period


def result(problem: Problem, *shape: int) -> AnyArray:
    """Room for a result, not yet written."""
    return memory.empty_scratch(shape, np.dtype(problem.dtype))
