"""Ways of holding a matrix: what a program keeps of it, and what it reads and writes between two products.

A way takes a library (`Library`) and a SciPy matrix of its own, and returns the product that is timed. It runs with
SciPy, with the default kernel and with a tuned matrix, so all three include the same costs besides the product.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse

Step = Callable[[], Any]


@dataclass(frozen=True)
class Library:
    """Functions by which a program makes matrices and multiplies, for SciPy or autosparse."""

    is_ours: bool
    x: np.ndarray  # the dense operand

    def csr(self, given: Any, *, copy: bool | None = None, shape: tuple[int, int] | None = None) -> Any:
        """Call `autosparse.csr`, or make a SciPy matrix in the equivalent way."""
        if not self.is_ours:
            made = scipy.sparse.csr_array(given, shape=shape)
            return made.copy() if copy else made
        import autosparse

        asked = {} if copy is None else {"copy": copy}
        return autosparse.csr(given, **asked) if shape is None else autosparse.csr(given, shape=shape, **asked)

    def csr_array(self, given: Any) -> Any:
        """Call the constructor of the class, which shares arrays."""
        import autosparse

        return (autosparse if self.is_ours else scipy.sparse).csr_array(given)

    def matmul(self, A: Any, x: np.ndarray) -> Any:
        """Call the function `autosparse.matmul`, or SciPy's operator."""
        import autosparse

        return autosparse.matmul(A, x) if self.is_ours else A @ x


@dataclass(frozen=True)
class Held:
    """A timed product, and the matrix to tune (None if no matrix lives longer than a product)."""

    step: Step
    A: Any = None


@dataclass(frozen=True)
class Way:
    """One way of holding a matrix; `make` receives a SciPy matrix of its own."""

    name: str
    what: str
    make: Callable[[Library, Any], Held]
    owns: bool = False  # A owns its arrays, and none was exported since the last product
    writes: bool = False  # values change between products
    anew: bool = False  # a matrix is made for each product, so only lazy tuning can help


def plain(make: Callable[[Library, Any], Any]) -> Callable[[Library, Any], Held]:
    """Return a way whose step is ``A @ x``."""

    def held(lib: Library, m: Any) -> Held:
        A = make(lib, m)
        return Held(lambda: A @ lib.x, A)

    return held


def between(act: Callable[[Any, int], Any]) -> Callable[[Library, Any], Held]:
    """Return a way that calls ``act(A, number of the product)`` on an owned A before each product."""

    def held(lib: Library, m: Any) -> Held:
        A, turn = lib.csr(m, copy=True), [0]

        def step() -> Any:
            turn[0] += 1
            act(A, turn[0])
            return A @ lib.x

        return Held(step, A)

    return held


def keeping(make: Callable[[Library, Any], Any], keep: Callable[[Any, Any], Any]) -> Callable[[Library, Any], Held]:
    """Return a way that keeps a reference to something of A, or of its source matrix, while products run."""

    def held(lib: Library, m: Any) -> Held:
        A = make(lib, m)
        kept = keep(A, m)
        return Held(lambda kept=kept: A @ lib.x, A)  # type: ignore[misc]

    return held


def _deleted_between(lib: Library, m: Any) -> Held:
    owner, turn = [m.copy()], [0]
    A = lib.csr(owner[0])

    def step() -> Any:
        turn[0] += 1
        if turn[0] == 50:
            owner.clear()
        return A @ lib.x

    return Held(step, A)


def _made_of_arrays(lib: Library, m: Any) -> Held:
    values, indices, indptr, shape = m.data, m.indices, m.indptr, m.shape
    return Held(lambda: lib.csr((values, indices, indptr), shape=shape) @ lib.x)


def _in_a_function(lib: Library, m: Any) -> Held:
    A = lib.csr(m, copy=True)

    def solve(given: Any) -> Any:
        return lib.csr(given) @ lib.x

    return Held(lambda: solve(A), A)


def _unpickled(lib: Library, m: Any) -> Any:
    return pickle.loads(pickle.dumps(lib.csr(m)))  # noqa: S301 (our own bytes)


def _mapped(lib: Library, m: Any) -> Any:
    folder = Path(tempfile.mkdtemp(prefix="autosparse-holding-"))
    arrays = []
    for name in ("data", "indices", "indptr"):
        np.save(folder / name, getattr(m, name))
        arrays.append(np.load(folder / f"{name}.npy", mmap_mode="r"))
    return lib.csr(tuple(arrays), shape=m.shape)


def _set_all(A: Any, turn: int) -> None:
    A.data[:] = A.data.dtype.type(1 + turn % 7)


def _scaled(A: Any, turn: int) -> None:
    A.data *= A.data.dtype.type(1 + 1e-6 * (-1) ** turn)


def _put(A: Any, turn: int) -> None:
    A.data = A.data * A.data.dtype.type(1 + 1e-6 * (-1) ** turn)


def _set_one(A: Any, turn: int) -> None:
    A.data[turn * 997 % A.data.size] = turn


def _read_attributes(A: Any, _: int) -> Any:
    return A.data, A.indptr


def _shared_and_written(lib: Library, m: Any) -> Held:
    A, turn = lib.csr(m, copy=False), [0]

    def step() -> Any:
        turn[0] += 1
        m.data[:] = m.data.dtype.type(1 + turn[0] % 7)
        return A @ lib.x

    return Held(step, A)


WAYS: Final[Mapping[str, Way]] = {
    way.name: way
    for way in (
        Way("owned", "`csr(m, copy=True)`", plain(lambda lib, m: lib.csr(m, copy=True)), owns=True),
        Way("m alive", "`csr(m)`, `m` is kept", keeping(lambda lib, m: lib.csr(m), lambda A, m: m), owns=True),
        Way("del m", "`csr(m)`, `del m` between products", _deleted_between, owns=True),
        Way(
            "arrays alive",
            "`csr((vals, indices, indptr))`, the arrays are kept",
            keeping(lambda lib, m: lib.csr((m.data, m.indices, m.indptr), shape=m.shape), lambda A, m: m),
            owns=True,
        ),
        Way("shared", "`csr(m, copy=False)`", keeping(lambda lib, m: lib.csr(m, copy=False), lambda A, m: m)),
        Way("class", "`csr_array(m)`", keeping(lambda lib, m: lib.csr_array(m), lambda A, m: m)),
        Way("copied", "`A.copy()`", plain(lambda lib, m: lib.csr(m).copy()), owns=True),
        Way("unpickled", "`pickle.loads(...)`", plain(_unpickled), owns=True),
        Way("map", "arrays are a read-only map of a file", plain(_mapped)),
        Way("anew", "`csr((vals, indices, indptr)) @ x`, each time", _made_of_arrays, anew=True),
        Way("in a function", "`csr(A) @ x` in a function", _in_a_function, owns=True),
        Way("matmul", "`matmul(m, x)`", lambda lib, m: Held(lambda: lib.matmul(m, lib.x)), anew=True),
        Way("data kept", "`d = A.data` is kept", keeping(lambda lib, m: lib.csr(m, copy=True), lambda A, m: A.data)),
        Way("indptr kept", "`A.indptr` is kept", keeping(lambda lib, m: lib.csr(m, copy=True), lambda A, m: A.indptr)),
        Way(
            "base kept",
            "`A.base` is kept",
            keeping(lambda lib, m: lib.csr(m, copy=True), lambda A, m: getattr(A, "base", A)),
        ),
        Way("attributes", "reads `A.data` and `A.indptr`", between(_read_attributes)),
        Way("sum", "`A.data.sum()`", between(lambda A, _: A.data.sum())),
        Way("set one", "`A.data[i] = v`", between(_set_one), writes=True),
        Way("set all", "`A.data[:] = new`", between(_set_all), writes=True),
        Way("scaled", "`A.data *= c`", between(_scaled), writes=True),
        Way("put", "`A.data = A.data * c`", between(_put), writes=True),
        Way("m written", "`csr(m, copy=False)`, `m.data[:] = new`", _shared_and_written, writes=True),
    )
}
