"""The line of `progress=True` on a terminal's stderr: iterations, residual, and predicted end of a solve."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

from autosparse.config import in_continuous_integration
from autosparse.linalg.solves.convergence import Left

SHOWN_AFTER_S: Final = 0.5
"""Seconds that a solve runs before the line is drawn."""
INTERVAL_S: Final = 0.1
"""Seconds between two drawings."""


class SolveProgress:
    """The progress line of one solve; drawn only on a terminal, and never in continuous integration."""

    __slots__ = ("_begun_s", "_clock", "_due_s", "_is_drawn", "_is_watched", "_quantity", "_stream", "name")

    def __init__(
        self, name: str, *, quantity: str = "residual", stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.name, self._quantity, self._clock = name, quantity, clock
        self._stream = sys.stderr if stream is None else stream
        self._begun_s = clock()
        self._due_s = self._begun_s + SHOWN_AFTER_S
        self._is_watched = self._stream.isatty() and not in_continuous_integration()
        self._is_drawn = False

    def show(self, n_done: int, residual: float, left: Left, limit: float) -> None:
        """Draw the line if it is due: `n_done` iterations of at most `limit`, residual, expected time left."""
        now_s = self._clock()
        if not self._is_watched or now_s < self._due_s:
            return
        self._due_s, self._is_drawn = now_s + INTERVAL_S, True
        most = f" of at most {limit:,.0f}" if limit < float("inf") else ""
        self._draw(f"iteration {n_done:,}{most}, {self._quantity} {residual:.3g}, {self._end(n_done, left, now_s)}")

    def end(self, n_done: int, best: float) -> None:
        """Replace the line, if it was drawn, by iterations, total time and the residual `best`, and end it."""
        if self._is_drawn:
            self._draw(
                f"{n_done:,} iterations in {_duration(self._clock() - self._begun_s)}, {self._quantity} {best:.3g}",
                "\n",
            )

    def _end(self, n_done: int, left: Left, now_s: float) -> str:
        """Return text on the expected time to the end of the solve, `left` iterations after `n_done`."""
        if left.certain <= 0.0 or not n_done:
            return "end unknown"
        return f"about {_duration(left.likely * (now_s - self._begun_s) / n_done)} left"

    def _draw(self, text: str, end: str = "\r") -> None:
        self._stream.write(f"\r{self.name}: {text[:110]}\x1b[K{end}")
        self._stream.flush()


def _duration(value_s: float) -> str:
    """Return the text of a duration: ``12 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    seconds = round(value_s)
    if seconds < 60:
        return f"{max(1, seconds)} s"
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
