"""Containment of faults: an error in tuning does not cost the user a product.

Tuning is called beside products, and each such call is a boundary. A boundary catches what `contained` returns: every
exception in production, so that the default kernel computes the product, and expected failures alone in strict mode
(AUTOSPARSE_STRICT=1), so that tests fail where the tuner has a programming error. What the program's own handler of a
signal raises, such as a time limit, is never contained.
"""

from __future__ import annotations

import sys
from typing import Any

from autosparse.config import is_strict
from autosparse.errors import TUNING_FAILURES

_traced: set[tuple[type[BaseException], int]] = set()
"""Type and last line of each programming error whose traceback was logged in this process."""


def expected() -> tuple[type[Exception], ...]:
    """Return the exception types of tuning failures that are no bugs: `TUNING_FAILURES`, and Triton's if loaded."""
    triton = getattr(sys.modules.get("triton.errors"), "TritonError", None)
    return TUNING_FAILURES if triton is None else (*TUNING_FAILURES, triton)


def contained() -> tuple[type[Exception], ...]:
    """Return the exception types to catch around tuning: all, or in strict mode only those of `expected`.

    In an ``except`` clause, return none if a handler of a signal raised the exception.
    """
    if _is_of_a_signal_handler(sys.exc_info()[1]):
        return ()
    return expected() if is_strict() else (Exception,)


def _is_of_a_signal_handler(error: BaseException | None) -> bool:
    """Return whether the traceback of `error` leads through the code of a handler that is installed for a signal."""
    signal: Any = sys.modules.get("signal")
    if error is None or signal is None:
        return False
    handlers = [getattr(one, "func", one) for one in map(signal.getsignal, signal.valid_signals()) if callable(one)]
    codes = {getattr(part, "__code__", None) for one in handlers for part in (one, type(one).__call__)}
    place = error.__traceback__
    while place is not None and place.tb_frame.f_code not in codes:
        place = place.tb_next
    return place is not None


def new_fault(error: BaseException) -> BaseException | None:
    """Return `error` if it is a programming error not reported before, whose traceback is to be logged; else None."""
    if isinstance(error, expected()):
        return None
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = (type(error), 0 if last is None else last.tb_lineno)
    if place in _traced:
        return None
    _traced.add(place)
    return error
