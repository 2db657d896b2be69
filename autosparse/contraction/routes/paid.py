"""When a kernel is compiled: once calls have taken long enough that it may pay, aside, while they go on without it.

The first calls of an expression are served by products and entrywise operations (`routes.existing`) or by joins
(`routes.joins`). Nothing here imports what chooses and compiles programs before calls have paid for that.
"""

from __future__ import annotations

import contextvars
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from autosparse import config, forking
from autosparse.errors import BuildError

T = TypeVar("T")

COMPILE_S: Final = 1.0
"""Seconds that calls must have taken before a kernel is compiled for them: choice and compiler take about a third."""
SURE_RUNS: Final = 1000
"""Runs promised by the option `runs` from which on a kernel is compiled at the first call."""
MAX_PAIRS: Final = 1 << 20
"""Pairs of entries up to which joins serve first calls: more take longer than a compiler."""
TRIALS: Final = 3
"""Calls that a kernel serves before it is compared with what served before."""
MAX_ACCOUNTS: Final = 256


class ExpressionCalls:
    """Calls of one expression: how many, the seconds that they took in all, and the least."""

    def __init__(self) -> None:
        self.n_calls = 0
        self.served_s = 0.0
        self.least_s = float("inf")
        self.compiling_in = 0  # the process in whose background a kernel is being compiled
        self.is_ready = False  # a kernel was compiled
        self.failure: BuildError | None = None
        self.n_trials = 0
        self.trial_s = float("inf")  # the least that the kernel took

    @property
    def is_paid(self) -> bool:
        """Return whether these calls, or those that the option `runs` promises, take as long as a compilation."""
        if not self.n_calls:
            return False
        promised = config.get_options().runs or 0
        return max(self.served_s, promised * self.served_s / self.n_calls) >= COMPILE_S

    @property
    def prefers_kernel(self) -> bool:
        """Return whether the next call is the kernel's: it was faster, or is still on trial."""
        if not self.is_ready:
            return False
        is_on_trial = self.n_trials < TRIALS and (self.n_trials == 0 or self.trial_s < 2 * self.least_s)
        return is_on_trial or self.trial_s < self.least_s

    def timed(self, serve: Callable[[], T]) -> T:
        """The result of a call without a kernel, counted."""
        start = time.perf_counter()
        result = serve()
        elapsed_s = time.perf_counter() - start
        self.n_calls += 1
        self.served_s += elapsed_s
        self.least_s = min(self.least_s, elapsed_s)
        return result

    def tried(self, serve: Callable[[], T]) -> T:
        """The result of a call of the kernel, timed while it is on trial."""
        if self.n_trials >= TRIALS:
            return serve()
        start = time.perf_counter()
        result = serve()
        self.trial_s = min(self.trial_s, time.perf_counter() - start)
        self.n_trials += 1
        return result

    def compile_in_background(self, compile_kernel: Callable[[], Any]) -> None:
        """Compile in the background thread of tuning; calls go on without the kernel."""
        if self.compiling_in == os.getpid() or self.is_ready or self.failure is not None:
            return
        self.compiling_in = os.getpid()
        context = contextvars.copy_context()
        if not submit(lambda: context.run(self._compile, compile_kernel)):
            self.compiling_in = 0

    def _compile(self, compile_kernel: Callable[[], Any]) -> None:
        try:
            compile_kernel()
            self.is_ready = True
        except BuildError as err:
            self.failure = err
        except (MemoryError, OSError) as err:  # calls go on as they did
            from autosparse.log import event

            event("fallback", f"einsum: no kernel was compiled: {err}")
        finally:
            self.compiling_in = 0


def submit(job: Callable[[], None]) -> bool:
    """Run `job` in the background thread of tuning."""
    from autosparse.tuning import background

    return background.submit(job)


def is_sure() -> bool:
    """Return whether so many runs are promised that a kernel is compiled at the first call."""
    return (config.get_options().runs or 0) >= SURE_RUNS


_accounts: Final[OrderedDict[object, ExpressionCalls]] = OrderedDict()
_mutex: Final = forking.lock()


def account_of(key: object) -> ExpressionCalls:
    """The account of an expression; the ones that were opened first go first."""
    found = _accounts.get(key)
    if found is None:
        with _mutex:
            found = _accounts.setdefault(key, ExpressionCalls())
            while len(_accounts) > MAX_ACCOUNTS:
                _accounts.popitem(last=False)
    return found


def known_account(key: object) -> ExpressionCalls | None:
    """The account of an expression, if it has one."""
    return _accounts.get(key)
