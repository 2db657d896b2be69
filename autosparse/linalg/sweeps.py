"""Sweeps: several vector operations in one pass over memory (`_native/runtime/sweeps`).

A sweep is a list of steps on vectors of one length and dtype. It is executed chunk by chunk, so that each vector is
read and written once; the threads of the pool share the chunks. A dot product is the sum of the chunks' sums in the
order of the chunks: its bits depend neither on the number of threads nor on the instruction set. Products of float32
(complex64) are summed in float64 (complex128).

Only one thread at a time may call a sweep. The runtime must be available.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final

from numpy.typing import NDArray

from autosparse import light
from autosparse._native import python_objects
from autosparse.linalg.solves.tracing import VECTORS, observed

Vector = NDArray[Any]  # float32, float64, complex64 or complex128
Run = Callable[..., tuple[Any, ...]]  # floats, or complex numbers

CODES: Final = {"f": 0, "d": 1, "F": 2, "D": 3}
"""dtype character -> code in the runtime."""
_compile: Final = python_objects.compile_sweep


_NO_OPTIONS: Final = (None, None)


def _first_options() -> Any:  # Any: a tuple of `autosparse.config`
    """Return the options that decide between kernels; before the library is loaded, no option is set."""
    global decisive_options
    if (config := sys.modules.get("autosparse.config")) is None or not light.is_complete:
        return _NO_OPTIONS
    decisive_options = config.decisive_options
    return decisive_options()


decisive_options: Callable[[], Any] = _first_options
"""Function that returns the options that decide between kernels. It changes when the library has been loaded."""


class _Step(tuple[Any, ...]):
    """Step of a sweep: a tuple with named items, without the methods that a NamedTuple compiles at each import."""

    __slots__ = ()


class Combine(_Step):
    """Step out = sum_i c_i * terms[i] with 1 to 4 terms.

    Each call supplies the coefficients c_i. `out` may be a term.
    """

    __slots__ = ()
    out: Vector = property(itemgetter(0))  # type: ignore[assignment]
    terms: tuple[Vector, ...] = property(itemgetter(1))  # type: ignore[assignment]

    def __new__(cls, out: Vector, terms: tuple[Vector, ...]) -> Combine:
        """Return the step."""
        return tuple.__new__(cls, (out, terms))


class Scale(_Step):
    """Step out = d * v, elementwise; `d` has the dtype of `v`, or the real dtype of the same precision.

    In a `ColumnSweep`, `d` has one element per row.
    """

    __slots__ = ()
    out: Vector = property(itemgetter(0))  # type: ignore[assignment]
    d: Vector = property(itemgetter(1))  # type: ignore[assignment]
    v: Vector = property(itemgetter(2))  # type: ignore[assignment]

    def __new__(cls, out: Vector, d: Vector, v: Vector) -> Scale:
        """Return the step."""
        return tuple.__new__(cls, (out, d, v))


class Dot(_Step):
    """Step that returns sum_i conj(u_i) * v_i: a float, or a complex for complex vectors."""

    __slots__ = ()
    u: Vector = property(itemgetter(0))  # type: ignore[assignment]
    v: Vector = property(itemgetter(1))  # type: ignore[assignment]

    def __new__(cls, u: Vector, v: Vector) -> Dot:
        """Return the step."""
        return tuple.__new__(cls, (u, v))


Step = Combine | Scale | Dot


class Sweep:
    """Steps compiled for given vectors; a call executes them and returns the tuple of dot products in order.

    >>> x, p = np.zeros(3), np.ones(3)
    >>> Sweep([Combine(x, (x, p)), Dot(x, x)])(1.0, 2.0)
    (12.0,)
    """

    __slots__ = ("after", "bind", "run")

    run: Run
    """The call itself; a builtin without a Python frame if the runtime provides one."""
    bind: Callable[[int, Vector], object]
    """Function (position, vector) that replaces a vector; positions follow the first appearance in the steps."""
    after: Callable[..., tuple[Any, ...] | None] | None
    """Function that executes the steps in a product's pass over memory (`operators`), if there is an extension."""

    def __init__(self, steps: Sequence[Step]) -> None:
        made = None if _compile is None else _compile(tuple(steps), decisive_options()[1] or 0)
        if made is None:
            encoded = importlib.import_module("autosparse.linalg.encoded_sweeps")  # by name: it imports this module
            slow = encoded.SlowSweep(steps)
            run, self.bind, self.after = slow.run, slow.bind, None
        else:
            run, self.bind, self.after = made
        self.run = observed(VECTORS, run)

    def __call__(self, *coefficients: complex) -> tuple[Any, ...]:
        """Execute the steps with one coefficient per term of each Combine; return the dot products."""
        return self.run(*coefficients)
