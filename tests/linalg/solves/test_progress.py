"""Tests of `progress=True`: one redrawn line on a terminal, and only for a long solve."""

from __future__ import annotations

import io

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.linalg.solves import progress as module
from autosparse.linalg.solves.convergence import NOTHING, Left
from autosparse.linalg.solves.progress import SolveProgress
from tests.tuner.fakes import FakeClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "in_continuous_integration", lambda: False)


def run(stream: io.StringIO, *, iteration_s: float, n: int = 100) -> str:
    clock = FakeClock()
    shown = SolveProgress("cg", stream=stream, clock=clock)
    for k in range(n):
        clock.spend(iteration_s)
        shown.show(k, 10.0**-k, Left(likely=n - k, certain=1.0), 1000)
    shown.end(n, 1e-9)
    return stream.getvalue()


def test_a_short_solve_draws_nothing() -> None:
    assert run(Terminal(), iteration_s=1e-3) == ""


def test_a_long_solve_draws_one_line_that_ends() -> None:
    text = run(Terminal(), iteration_s=0.05)
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert "cg: iteration 50 of at most 1,000, residual 1e-50, about 3 s left" in text
    assert "100 iterations in 5 s, residual 1e-09" in text
    assert 30 <= text.count("residual") <= 52  # one drawing per 0.1 s


def test_no_progress_is_shown_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(io.StringIO(), iteration_s=1.0) == ""
    monkeypatch.setattr(module, "in_continuous_integration", lambda: True)
    assert run(Terminal(), iteration_s=1.0) == ""


def test_an_end_that_is_unknown_is_said_to_be() -> None:
    stream, clock = Terminal(), FakeClock()
    shown = SolveProgress("lsqr", stream=stream, clock=clock)
    clock.spend(10.0)
    shown.show(7, 1.0, NOTHING, float("inf"))
    assert "lsqr: iteration 7, residual 1, end unknown" in stream.getvalue()


def test_progress_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN_AFTER_S", 0.0)
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    A = asp.csr(sps.diags_array([-np.ones(99), 2.1 * np.ones(100), -np.ones(99)], offsets=[-1, 0, 1]))
    b = np.ones(100)
    plain, shown = asp.linalg.cg(A, b), asp.linalg.cg(A, b, progress=True)
    np.testing.assert_array_equal(plain[0], shown[0])
    assert plain[1] == shown[1]
    assert stream.getvalue().startswith("\rcg: iteration")


def test_solvers_print_nothing_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    asp.linalg.cg(asp.csr(np.eye(3)), np.ones(3))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "quantity"),
    [("cg", "residual"), ("gmres", "residual")] + [(name, "criterion") for name in ("minres", "lsqr", "lsmr")],
)
def test_progress_names_the_displayed_quantity(monkeypatch: pytest.MonkeyPatch, name: str, quantity: str) -> None:
    monkeypatch.setattr(module, "SHOWN_AFTER_S", 0.0)
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    A = asp.csr(sps.diags_array([-np.ones(99), 2.1 * np.ones(100), -np.ones(99)], offsets=[-1, 0, 1]))
    getattr(asp.linalg, name)(A, np.ones(100), progress=True)
    assert f", {quantity} " in stream.getvalue()
