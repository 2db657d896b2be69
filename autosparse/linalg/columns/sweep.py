"""Sweeps over blocks: steps on arrays (n, k), with coefficients and dot products of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import config
from autosparse._native import runtime_api
from autosparse.linalg.sweeps import Combine, Dot, Scale

Block = NDArray[Any]  # (n, k), C order; float32, float64, complex64 or complex128


@dataclass(frozen=True, eq=False)
class Norm:
    """max over i of sum_j |u[i, j]|: the infinity norm, in each element of one result; NaN where u has one."""

    u: Block


Step = Combine | Scale | Dot | Norm
_KINDS: Final = {Combine: 0, Scale: 1, Dot: 2, Norm: 3}
"""Codes of the steps in `asp_column_sweep`."""
_MAX_TERMS: Final = 4


def _parts(step: Step) -> tuple[Block | None, Sequence[Block]]:
    """Return the block that a step writes, and those that it reads."""
    if isinstance(step, Combine):
        return step.out, step.terms
    if isinstance(step, Scale):
        return step.out, (step.d, step.v)
    return None, ((step.u, step.v) if isinstance(step, Dot) else (step.u,))


class ColumnSweep:
    """Steps on blocks of one shape and dtype in one pass over memory.

    A call takes one coefficient for each term of each Combine, a number or an array (k,), and returns the results of
    Dot and Norm in their order, each an array (k,) of float64 or complex128. Sums do not depend on the number of
    threads. `Scale.d` is an array (n,) of the blocks' dtype.

    >>> x = np.ones((2, 3))
    >>> ColumnSweep([Combine(x, (x,)), Dot(x, x)])(np.array([1.0, 2.0, 3.0]))
    (array([ 2.,  8., 18.]),)
    """

    __slots__ = ("_arguments", "_blocks", "_coefficients", "_held", "_n_results", "_pointers", "_program")

    def __init__(self, steps: Sequence[Step]) -> None:
        self._blocks: list[Block] = []
        rows = [self._row(step) for step in steps]
        program = np.array(rows, np.int64)
        n, k = next(block.shape for block in self._blocks if block.ndim == 2)
        dtype = self._blocks[0].dtype
        wide = np.complex128 if dtype.kind == "c" else np.float64
        n_terms = sum(row[2] for row in rows if row[0] == _KINDS[Combine])
        self._coefficients = np.zeros((n_terms, k), wide)
        self._n_results = sum(row[0] >= _KINDS[Dot] for row in rows)
        ffi = runtime_api.ffi
        self._program = ffi.from_buffer("int64_t[]", program)
        self._held = ffi.from_buffer("double[]", self._coefficients)
        self._pointers = ffi.new("void *[]", [runtime_api.pointer(block) for block in self._blocks])
        self._arguments = (runtime_api.DTYPE_CODES[dtype.name], n, k, self._program, len(rows), self._pointers)

    def _row(self, step: Step) -> list[int]:
        """Return a step as numbers: kind, out, count of blocks read, and these."""
        out, read = _parts(step)
        if len(read) > _MAX_TERMS:
            raise ValueError(f"a step combines 1 to {_MAX_TERMS} blocks, not {len(read)}")
        numbers = [-1 if out is None else self._number(out), len(read), *map(self._number, read)]
        return [_KINDS[type(step)], *numbers, *[0] * (_MAX_TERMS - len(read))]

    def _number(self, block: Block) -> int:
        if not block.flags.c_contiguous:
            raise ValueError("blocks must lie in C order without gaps")
        for at, known in enumerate(self._blocks):
            if known is block:
                return at
        self._blocks.append(block)
        return len(self._blocks) - 1

    def bind(self, position: int, block: Block) -> None:
        """Exchange the block `position`: blocks are numbered in the order of their first appearance in the steps."""
        old = self._blocks[position]
        if block.shape != old.shape or block.dtype != old.dtype or not block.flags.c_contiguous:
            raise ValueError(f"block {position} is {old.dtype} {old.shape}, not {block.dtype} {block.shape}")
        self._blocks[position] = block
        self._pointers[position] = runtime_api.pointer(block)

    def __call__(self, *coefficients: Any) -> tuple[NDArray[Any], ...]:  # Any: numbers or arrays (k,)
        """Execute the steps; return the dot products and norms."""
        for term, coefficient in enumerate(coefficients):
            self._coefficients[term] = coefficient
        results = np.empty((self._n_results, self._coefficients.shape[1]), self._coefficients.dtype)
        threads = config.get_options().threads or runtime_api.max_threads()
        code = runtime_api.lib.asp_column_sweep(
            *self._arguments, self._held, runtime_api.ffi.cast("double *", results.ctypes.data), threads
        )
        runtime_api.raise_for(code)
        return tuple(results)
