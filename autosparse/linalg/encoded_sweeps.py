"""Sweeps encoded for the runtime: those of several columns, and those of vectors without the extension module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse._native import runtime_api
from autosparse.core.dtypes import Complex
from autosparse.linalg import sweeps
from autosparse.linalg.solves.tracing import timed_method
from autosparse.linalg.sweeps import CODES, Combine, Scale, Step, Vector

_COMBINE, _SCALE, _DOT = 1, 2, 3
_MAX_TERMS: Final = 4
"""Maximum number of terms of a `Combine`."""


class _Program:
    """Encoding of steps for the runtime: codes that refer to numbered vectors."""

    __slots__ = ("_places", "codes", "diagonals", "n_coefficients", "n_dots", "vectors")

    def __init__(self, steps: Sequence[Step]) -> None:
        self.vectors: list[Vector] = []
        self.codes: list[int] = []
        self.diagonals: list[int] = []  # positions of the vectors `d`
        self.n_coefficients = self.n_dots = 0
        self._places: dict[int, int] = {}
        for step in steps:
            self._add(step)

    def _place(self, array: Vector) -> int:
        place = self._places.setdefault(id(array), len(self.vectors))
        if place == len(self.vectors):
            self.vectors.append(array)
        return place

    def _add(self, step: Step) -> None:
        if isinstance(step, Combine):
            if not 1 <= len(step.terms) <= _MAX_TERMS:
                raise ValueError(f"a combination has 1 to {_MAX_TERMS} terms, not {len(step.terms)}")
            places = [self._place(array) for array in (step.out, *step.terms)]
            self.codes += (_COMBINE, places[0], len(step.terms), *places[1:])
            self.n_coefficients += len(step.terms)
        elif isinstance(step, Scale):
            places = [self._place(array) for array in (step.out, step.d, step.v)]
            self.diagonals.append(places[1])
            self.codes += (_SCALE, *places, int(step.d.dtype.kind == "f"))
        else:
            self.codes += (_DOT, self._place(step.u), self._place(step.v))
            self.n_dots += 1

    def check(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Raise ValueError unless all vectors are contiguous and have the given shape and dtype."""
        for place, array in enumerate(self.vectors):
            is_real = array.dtype.char == dtype.char.lower()
            if place in self.diagonals:
                _check(array, shape[:1], array.dtype if is_real else dtype)
            else:
                _check(array, shape, dtype)


def _check(array: Vector, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    flags = array.flags
    if array.shape != shape or array.dtype != dtype or not flags.c_contiguous or not flags.aligned:
        raise ValueError(f"a contiguous vector {dtype} {shape} is needed, not {array.dtype} {array.shape}")


class SlowSweep:
    """A sweep called through Python, for a runtime without builtins; its constructor reports invalid vectors."""

    __slots__ = ("_record", "_room", "_vectors")

    def __init__(self, steps: Sequence[Step]) -> None:
        program = _Program(steps)
        first = program.vectors[0]
        program.check(first.shape if first.ndim == 1 else (-1,), first.dtype)
        self._vectors = program.vectors
        self._record, self._room = _record_of(program, 0)

    def bind(self, position: int, array: Vector) -> None:
        """Replace the vector at a position, as `Sweep.bind` does."""
        old = self._vectors[position]
        _check(array, old.shape, old.dtype)
        self._vectors[position] = array
        self._record.vectors[position] = runtime_api.address_of(array)

    def run(self, *coefficients: complex) -> tuple[Any, ...]:
        """Execute the steps, as `Sweep.run` does."""
        record, room = self._record, self._room
        if len(coefficients) != record.n_coefficients:
            raise TypeError(f"this sweep takes {record.n_coefficients} coefficients, not {len(coefficients)}")
        is_complex = record.dtype >= CODES["F"]
        room[: record.n_coefficients] = coefficients if is_complex else [float(one) for one in coefficients]  # type: ignore[arg-type]
        runtime_api.raise_for(runtime_api.lib.asp_sweep_run(record))
        dots = room[record.n_coefficients :][: record.n_dots]
        return tuple((dots if is_complex else dots.real).tolist())


def _record_of(program: _Program, n_columns: int) -> tuple[Any, NDArray[Complex]]:
    """Return the asp_sweep structure of a program, and its buffer of coefficients, dot products and partial sums."""
    lib, first = runtime_api.lib, program.vectors[0]
    if len(program.codes) >= lib.ASP_SWEEP_CODES or len(program.vectors) > lib.ASP_SWEEP_VECTORS:
        raise ValueError("a sweep has too many steps")
    code, n, width = CODES[first.dtype.char], first.shape[0], max(n_columns, 1)
    sizes = [program.n_coefficients * width, program.n_dots * width]
    room = np.empty(sum(sizes) + lib.asp_sweep_chunks(code, n, n_columns) * sizes[1], Complex)
    record = runtime_api.ffi.new("asp_sweep *")
    record.dtype, record.n_threads, record.n_columns = code, sweeps.decisive_options()[1] or 0, n_columns
    record.n_coefficients, record.n_dots, record.n = program.n_coefficients, program.n_dots, n
    record.codes = program.codes
    record.vectors = [runtime_api.address_of(array) for array in program.vectors]
    record.serial_ns = lib.asp_sweep_serial_ns(code, first.size, len(program.vectors))
    address = runtime_api.address_of(room)
    record.coefficients, record.dots = address, address + 16 * sizes[0]
    record.partials = address + 16 * sum(sizes)
    return record, room


class ColumnSweep:
    """Steps on the columns of C-ordered arrays (n, k), with separate coefficients and dot products per column.

    A call takes a number or an array of k numbers for each term, and returns a list of arrays of k dot products.
    """

    __slots__ = ("_coefficients", "_dots", "_record", "_room", "_vectors", "address")

    address: int
    """Address of the asp_sweep structure."""

    def __init__(self, steps: Sequence[Step]) -> None:
        program = _Program(steps)
        first = program.vectors[0]
        program.check(first.shape if first.ndim == 2 else (-1, -1), first.dtype)
        n_columns = first.shape[1]
        if n_columns < 1:
            raise ValueError("a column sweep needs at least one column")
        self._vectors = program.vectors
        self._record, self._room = _record_of(program, n_columns)
        self.address = int(runtime_api.ffi.cast("uintptr_t", self._record))
        n = program.n_coefficients * n_columns
        self._coefficients = self._room[:n].reshape(-1, n_columns)
        dots = self._room[n : n + program.n_dots * n_columns].reshape(-1, n_columns)
        self._dots = dots if first.dtype.kind == "c" else dots.real

    def bind(self, position: int, array: NDArray[Any]) -> None:
        """Replace the array at a position; positions follow the first appearance in the steps."""
        _check(array, self._vectors[position].shape, self._vectors[position].dtype)
        self._vectors[position] = array
        self._record.vectors[position] = runtime_api.address_of(array)

    @timed_method
    def __call__(self, *coefficients: complex | Vector) -> list[Vector]:
        """Execute the steps; each term of each Combine takes one coefficient, or one per column."""
        if len(coefficients) != len(self._coefficients):
            raise TypeError(f"this sweep takes {len(self._coefficients)} coefficients, not {len(coefficients)}")
        for at, coefficient in enumerate(coefficients):
            self._coefficients[at] = coefficient
        runtime_api.raise_for(runtime_api.lib.asp_sweep_run(self._record))
        return list(self._dots.copy())
