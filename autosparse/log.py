"""Log records under the logger `autosparse`, each with a tag, and the progress line of a tuning.

Nothing is shown unless the application asks for it:

>>> logging.basicConfig(); logging.getLogger("autosparse").setLevel("DEBUG")

Each record has `record.event` (a key of `EVENTS`) and `record.facts` (a dict), so that a handler can filter without
parsing text.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, TextIO

from autosparse.config import in_continuous_integration
from autosparse.containment import new_fault

LOGGER: Final = logging.getLogger("autosparse")
LOGGER.addHandler(logging.NullHandler())  # a library must not print "no handlers could be found"

EVENTS: Final[Mapping[str, int]] = {
    "plan": logging.INFO,  # a plan was chosen or remembered
    "tune": logging.INFO,  # a tuning began, advanced or ended
    "build": logging.DEBUG,  # a kernel was compiled or loaded
    "pack": logging.DEBUG,  # an operand was stored in another format
    "divide": logging.DEBUG,  # rules for parts of a matrix were considered
    "cache": logging.DEBUG,  # a record or kernel was read, written or quarantined
    "fallback": logging.WARNING,  # the tuned path failed; the default kernel or SciPy served the product
}
"""Tag -> logging level of its records."""


def event(tag: str, message: str = "", *, error: BaseException | None = None, **facts: object) -> None:
    """Log one record `tag: message key=value ...`; costs a dictionary lookup and a comparison when no handler is set.

    The record has a traceback if `error` is a programming error that has not been logged before.
    """
    level = EVENTS[tag]
    if LOGGER.isEnabledFor(level):
        text = " ".join([message, *(f"{name}={value}" for name, value in facts.items())]).strip()
        fault = None if error is None else new_fault(error)
        LOGGER.log(level, "%s: %s", tag, text, exc_info=fault, extra={"event": tag, "facts": facts}, stacklevel=2)


Progress = Callable[[float, str], None]
"""Progress callback: receives the fraction done in [0, 1] and a short text."""


def progress_line(
    stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic, interval_s: float = 0.1
) -> Progress:
    """Return a Progress that redraws one line of `stream` (stderr), at most once per `interval_s` seconds.

    It draws nothing if the stream is no terminal, and in continuous integration. Fraction 1 ends the line; until then
    the cursor stays at the beginning of the line, so that later output replaces it.
    """
    out = stream if stream is not None else sys.stderr
    if not out.isatty() or in_continuous_integration():
        return lambda fraction, text: None
    drawn_s = float("-inf")

    def show(fraction: float, text: str) -> None:
        nonlocal drawn_s
        now_s = clock()
        done = fraction >= 1.0
        if not done and now_s - drawn_s < interval_s:
            return
        drawn_s = now_s
        width = 24
        bar = "#" * round(width * min(max(fraction, 0.0), 1.0))
        out.write(f"\r[{bar:<{width}}] {fraction:4.0%} {text[:80]}\x1b[K" + ("\n" if done else "\r"))
        out.flush()

    return show
