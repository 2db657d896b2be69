"""Containment of faults: an error in tuning does not cost the user a product.

Tuning is called beside products, and each such call is a boundary. A boundary catches what `contained` returns: every
exception in production, so that the default kernel computes the product, and expected failures alone in strict mode
(AUTOSPARSE_STRICT=1), so that tests fail where the tuner has a programming error.
"""

from __future__ import annotations

import sys

from autosparse.config import is_strict
from autosparse.errors import TUNING_FAILURES

_traced: set[tuple[type[BaseException], int]] = set()
"""Type and last line of each programming error whose traceback was logged in this process."""


def expected() -> tuple[type[Exception], ...]:
    """Return the exception types of tuning failures that are no bugs: `TUNING_FAILURES`, and Triton's if loaded."""
    triton = getattr(sys.modules.get("triton.errors"), "TritonError", None)
    return TUNING_FAILURES if triton is None else (*TUNING_FAILURES, triton)


def contained() -> tuple[type[Exception], ...]:
    """Return the exception types to catch around tuning: all, or in strict mode only those of `expected`."""
    return expected() if is_strict() else (Exception,)


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
