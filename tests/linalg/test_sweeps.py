"""Tests that sweeps equal their NumPy references; their bits depend neither on threads nor on the instruction set."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from autosparse._native import runtime_api

import autosparse as asp
from autosparse.linalg import sweeps
from autosparse.linalg.encoded_sweeps import ColumnSweep
from autosparse.linalg.sweeps import Combine, Dot, Scale, Step, Sweep
from tests.linalg import sweep_reference
from tests.native.hooks import on_several_threads

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")

DTYPES = ("f", "d", "F", "D")
CHUNKS = {"f": 2048, "d": 1024, "F": 1024, "D": 512}
"""Number of elements in a chunk of 8192 bytes, by dtype."""


def lengths(code: str) -> list[int]:
    chunk = CHUNKS[code]
    return [0, 1, 2, 3, 7, 8, 9, 31, 33, 40, chunk - 1, chunk, chunk + 1, 7 * chunk + 5, 40 * chunk]


def random(shape: int | tuple[int, ...], code: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if code in "FD" else values).astype(code)


def close(found: Any, wanted: Any, code: str, scale: float = 1.0) -> None:
    eps = np.finfo(code).eps
    np.testing.assert_allclose(found, wanted, rtol=20 * eps, atol=40 * eps * scale)


def steps_on(v: Sequence[Any], d: Any) -> list[Step]:
    """Return each kind of step with one to four terms, with results among terms, and with vectors written before."""
    return [
        Combine(v[0], (v[0], v[1])),
        Dot(v[0], v[0]),
        Combine(v[2], (v[3],)),
        Scale(v[3], d, v[0]),
        Combine(v[1], (v[0], v[1], v[2])),
        Dot(v[1], v[3]),
        Combine(v[3], (v[0], v[1], v[2], v[3])),
        Scale(v[2], d, v[2]),
        Dot(v[2], v[3]),
    ]


def coefficients(code: str) -> list[complex]:
    values = [1.0, -0.5, 2.0, 0.25, -1.5, 0.75, 1.25, -0.125, 0.5, 1.0]
    return [c * (1 + 0.5j) if code in "FD" and at % 3 else c for at, c in enumerate(values)]


@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("has_builtins", [True, False])
def test_a_sweep_is_its_steps(monkeypatch: pytest.MonkeyPatch, code: str, has_builtins: bool) -> None:
    if not has_builtins:
        monkeypatch.setattr(sweeps, "_compile", None)
    for n in lengths(code):
        for is_d_real in (True, False):
            vectors = [random(n, code, seed) for seed in range(4)]
            d = random(n, code.lower() if is_d_real else code, 9)
            others, other_d = copy.deepcopy(vectors), d.copy()
            found = Sweep(steps_on(vectors, d))(*coefficients(code))
            wanted = sweep_reference.run(steps_on(others, other_d), coefficients(code))
            for one, other in zip(vectors, others, strict=True):
                close(one, other, code)
            assert all(type(dot) is (complex if code in "FD" else float) for dot in found)
            close(found, wanted, code, scale=10 * n + 1)


@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 17, 130])
def test_columns_are_sweeps_of_each(code: str, k: int) -> None:
    for n in (0, 1, 2, 9, CHUNKS[code] // k + 1, 5 * CHUNKS[code] // k + 3):
        for is_d_real in (True, False):
            vectors = [random((n, k), code, seed) for seed in range(4)]
            d = random(n, code.lower() if is_d_real else code, 9)
            others = copy.deepcopy(vectors)
            each: list[Any] = [c * np.linspace(0.5, 1.5, k) for c in coefficients(code)]
            each[3] = 0.25
            found = ColumnSweep(steps_on(vectors, d))(*each)
            wanted = sweep_reference.run(steps_on(others, d), each)
            for one, other in zip(vectors, others, strict=True):
                close(one, other, code)
            assert [dot.dtype for dot in found] == [np.dtype("D" if code in "FD" else "d")] * 3
            for dot, other in zip(found, wanted, strict=True):
                close(dot, other, code, scale=10 * n + 1)


def everything(code: str, n: int) -> list[bytes]:
    """Return the bytes of all vectors and dot products after each kind of sweep."""
    vectors = [random(n, code, seed) for seed in range(4)]
    dots = Sweep(steps_on(vectors, random(n, code.lower(), 9)))(*coefficients(code))
    squares = [random((n // 6, 6), code, seed) for seed in range(4)]
    found = ColumnSweep(steps_on(squares, random(n // 6, code, 9)))(*coefficients(code))
    every = [*vectors, np.array(dots), *squares, *found]
    return [array.tobytes() for array in every]


@pytest.mark.parametrize("code", DTYPES)
def test_bits_do_not_depend_on_threads(code: str) -> None:
    n = 37 * CHUNKS[code] + 5
    with asp.options(threads=1):
        alone = everything(code, n)
    for threads in range(2, 6):
        with asp.options(threads=threads), on_several_threads():
            assert everything(code, n) == alone, threads


@pytest.mark.parametrize("code", DTYPES)
def test_bits_do_not_depend_on_the_instruction_set(code: str) -> None:
    for n in (11, 3 * CHUNKS[code] + 29):
        each = []
        for isa in ("baseline", "avx2", "avx512"):
            with asp.options(isa=isa):
                each.append(everything(code, n))
        assert each[0] == each[1] == each[2]


def test_a_bound_vector_can_be_exchanged() -> None:
    x, p, other = np.zeros(5), np.ones(5), np.full(5, 3.0)
    sweep = Sweep([Combine(x, (x, p)), Dot(x, p)])
    sweep(1.0, 2.0)
    sweep.bind(1, other)
    assert sweep(1.0, 1.0) == (5 * 5 * 3.0,)
    np.testing.assert_array_equal(x, 5.0)
    with pytest.raises(ValueError, match="vector"):
        sweep.bind(0, np.zeros(4))


def test_without_the_builtin_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, z = np.arange(4.0), np.arange(4.0) + 1j
    fast = [Sweep([Dot(x, x)])(), Sweep([Combine(z, (z,)), Dot(z, z)])(1j)]
    monkeypatch.setattr(sweeps, "_compile", None)
    assert [Sweep([Dot(x, x)])(), Sweep([Combine(z, (z,)), Dot(z, z)])(1.0)] == fast
    with pytest.raises(TypeError, match="takes 0 coefficients"):
        Sweep([Dot(x, x)])(1.0)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: Sweep([Combine(np.zeros(3), (np.zeros(4),))]), ValueError),
        (lambda: Sweep([Dot(np.zeros(3), np.zeros(3, "f"))]), ValueError),
        (lambda: Sweep([Dot(np.zeros(6)[::2], np.zeros(3))]), ValueError),
        (lambda: Sweep([Dot(np.zeros((3, 1)), np.zeros((3, 1)))]), ValueError),
        (lambda: Sweep([Combine(np.zeros(3), (np.zeros(3),) * 5)]), ValueError),
        (lambda: Sweep([Scale(np.zeros(3), np.zeros(3, "D"), np.zeros(3))]), ValueError),
        (lambda: Sweep([Dot(np.zeros(3), np.ones(3)) for _ in range(20)]), ValueError),
        (lambda: ColumnSweep([Dot(np.zeros((3, 0)), np.zeros((3, 0)))]), ValueError),
        (lambda: Sweep([Dot(np.zeros(3), np.zeros(3))])(1.0), TypeError),
        (lambda: Sweep([Combine(x := np.zeros(3), (x,))])(1j), TypeError),
    ],
)
def test_mismatched_operands_are_refused(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()


@pytest.mark.parametrize("effort", ["off", "measure"])
def test_records_hold_the_number_of_threads_in_the_options(effort: str) -> None:
    x = np.ones((8, 2))
    for threads in (1, 3):
        with asp.options(threads=threads, effort=effort):
            assert ColumnSweep([Dot(x, x)])._record.n_threads == threads
