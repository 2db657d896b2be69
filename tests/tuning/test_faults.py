"""Programming errors of the tuner: raised in strict mode, contained and reported once in production."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from autosparse._native import runtime_api

import autosparse as asp
from autosparse import config, containment
from autosparse.dispatch import fast_path
from autosparse.errors import TUNING_FAILURES, BuildError
from autosparse.notices import FallbackWarning
from autosparse.tuning import live, session, setup
from autosparse.tuning.trials.kernel_trial import KernelTrial
from tests.tuning.forcing import close, dense, force, make, schedule_of, state_of, until

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")

PLACES: dict[str, tuple[Any, str]] = {
    "setup": (setup, "live_tuner_of"),
    "look": (live.LiveTuner, "_go_on"),
    "identify": (session.TuningSession, "_identify"),
    "search": (session, "search_for"),
}
"""Functions of the tuner that run beside products, in the thread of the product."""

PROGRAMMING_ERRORS = (
    TypeError,
    AssertionError,
    AttributeError,
    NameError,
    KeyError,
    IndexError,
    ValueError,
    ZeroDivisionError,
)


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*given: Any, **hints: Any) -> Any:
        raise error

    return fail


def products(n: int = 60) -> asp.csr_array:
    """Return a matrix after products that tuning may begin beside, each compared with SciPy's."""
    plain = make(300, 300)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    wanted = plain @ B
    with asp.options(cache=False, runs=10**10, overhead=1.0, effort="measure", budget_s=1e6):
        for _ in range(n):
            close(A @ B, wanted)
    return A


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_error_propagates_in_strict_mode(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.is_strict()
    monkeypatch.setattr(*PLACES[place], raising(TypeError("planted")))
    with pytest.raises(TypeError, match="planted"):
        products()


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_error_is_logged_once_in_production(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AUTOSPARSE_STRICT", "0")
    monkeypatch.setattr(*PLACES[place], raising(TypeError("planted")))
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING, "autosparse"):
        warnings.simplefilter("always")
        for _ in range(2):  # results are compared with SciPy's inside
            products()
    assert [one.category for one in caught] == [FallbackWarning]
    assert "planted" in str(caught[0].message)
    traced = [record for record in caplog.records if record.exc_info]
    assert len(traced) == 1
    assert traced[0].exc_info is not None
    assert isinstance(traced[0].exc_info[1], TypeError)
    assert traced[0].exc_info[2] is not None


def test_a_planted_error_in_the_background_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilers run in a thread of their own: in strict mode `threading.excepthook` gets the error."""
    seen: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    monkeypatch.setattr(KernelTrial, "build", raising(TypeError("planted")))
    products()
    for _ in until(lambda: bool(seen)):
        pass
    assert seen[0].exc_type is TypeError
    monkeypatch.setenv("AUTOSPARSE_STRICT", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        state = state_of(products(), 8)
        for _ in until(lambda: state.live_tuner.failure is not None):
            pass
    assert "planted" in state.live_tuner.failure
    assert len(seen) == 1


def test_a_planted_error_in_a_fast_path_is_contained_unless_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make(300, 300)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    state = state_of(A, 8)
    state.fast_path_due, state.next_look_ns = 1, 1 << 62
    monkeypatch.setattr(fast_path, "arm", raising(TypeError("planted")))
    with pytest.raises(TypeError, match="planted"):
        _ = [A @ B for _ in range(3)]
    monkeypatch.setenv("AUTOSPARSE_STRICT", "0")
    with pytest.warns(FallbackWarning, match="planted"):
        _ = [close(A @ B, plain @ B) for _ in range(3)]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals of POSIX")
@pytest.mark.parametrize("strict", ["0", "1"])
@pytest.mark.parametrize("place", PLACES)
def test_what_a_signal_handler_raises_is_the_users(place: str, strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def ring(*_: Any) -> None:
        raise TimeoutError("time is up")

    monkeypatch.setenv("AUTOSPARSE_STRICT", strict)
    monkeypatch.setattr(*PLACES[place], lambda *_, **hints: signal.raise_signal(signal.SIGUSR1))
    old = signal.signal(signal.SIGUSR1, ring)
    try:
        with pytest.raises(TimeoutError, match="time is up"):
            products()
    finally:
        signal.signal(signal.SIGUSR1, old)
    monkeypatch.undo()
    close(products(1) @ dense(make(300, 300), 8), make(300, 300) @ dense(make(300, 300), 8))


def test_a_failing_kernel_leaves_the_default_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make(300, 300)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    force(A, schedule_of("csr", 8), columns=8)
    state_of(A, 8).serving._bound_to = None
    monkeypatch.setattr(KernelTrial, "_bind_live", raising(TypeError("planted")))
    with pytest.raises(TypeError, match="planted"):
        A @ B
    monkeypatch.setenv("AUTOSPARSE_STRICT", "0")
    with pytest.warns(FallbackWarning, match="planted"):
        close(A @ B, plain @ B)


@pytest.mark.parametrize("error", PROGRAMMING_ERRORS)
def test_no_programming_error_is_an_expected_failure(error: type[Exception]) -> None:
    assert not issubclass(error, TUNING_FAILURES)
    assert not issubclass(error, containment.contained())


def test_errors_of_triton_are_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    class TritonError(Exception):
        """Base class of Triton's own errors."""

    monkeypatch.delitem(sys.modules, "triton.errors", raising=False)
    assert containment.expected() == TUNING_FAILURES
    monkeypatch.setitem(sys.modules, "triton.errors", SimpleNamespace(TritonError=TritonError))
    assert containment.contained() == (*TUNING_FAILURES, TritonError)
    assert containment.new_fault(TritonError()) is None


def test_expected_failures_are_contained_in_strict_mode_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (BuildError("no compiler"), OSError("no space left"), MemoryError()):
        monkeypatch.setattr(setup, "live_tuner_of", raising(error))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)
            assert state_of(products(), 8).serving is None


@pytest.mark.parametrize(("value", "is_strict"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_strict_mode_is_off_by_default(value: str | None, is_strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOSPARSE_STRICT")
    if value is not None:
        monkeypatch.setenv("AUTOSPARSE_STRICT", value)
    assert config.is_strict() is is_strict
    assert containment.contained() == (containment.expected() if is_strict else (Exception,))
