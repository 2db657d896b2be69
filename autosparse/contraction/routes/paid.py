"""Decide when to compile a kernel: in the background, once calls without it have taken long enough.

The first calls of an expression are computed by products and elementwise operations (`routes.existing`) or by joins
(`routes.joins`). This module imports nothing that chooses or compiles programs.
"""

from __future__ import annotations

import contextvars
import os
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from autosparse import config
from autosparse.core.calls import Recent, ServedCalls
from autosparse.errors import BuildError

T = TypeVar("T")

COMPILE_S: Final = 1.0
"""Total seconds of calls after which a kernel is compiled. Choosing and compiling take about a third of this."""
SURE_RUNS: Final = 1000
"""Value of the option `runs` from which on a kernel is compiled at the first call."""
MAX_PAIRS: Final = 1 << 20
"""Maximum number of pairs of entries for which joins serve the first calls; more take longer than a compilation."""
TRIALS: Final = 3
"""Number of kernel calls that are timed before the kernel is compared with the calls before it."""
MAX_ACCOUNTS: Final = 256
"""Maximum number of accounts kept in a process."""


class ExpressionCalls(ServedCalls):
    """Number, total and fastest seconds of one expression's calls without a kernel, and the state of its kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.least_s = float("inf")
        self.compiling_in = 0  # id of the process in whose background a kernel is being compiled, or 0
        self.is_ready = False  # True once a kernel was compiled
        self.failure: BuildError | None = None
        self.n_trials = 0
        self.trial_s = float("inf")  # fastest time of the kernel, in seconds

    @property
    def is_paid(self) -> bool:
        """Return whether these calls, or those announced by the option `runs`, take as long as a compilation."""
        return self.expected_s() >= COMPILE_S

    @property
    def prefers_kernel(self) -> bool:
        """Return whether the next call should use the kernel: it was faster, or is still being tried."""
        if not self.is_ready:
            return False
        is_on_trial = self.n_trials < TRIALS and (self.n_trials == 0 or self.trial_s < 2 * self.least_s)
        return is_on_trial or self.trial_s < self.least_s

    def timed(self, serve: Callable[[], T]) -> T:
        """Return `serve()`, which computes a call without a kernel, and count and time the call."""
        start = time.perf_counter()
        result = serve()
        elapsed_s = time.perf_counter() - start
        self.count(elapsed_s)
        self.least_s = min(self.least_s, elapsed_s)
        return result

    def tried(self, serve: Callable[[], T]) -> T:
        """Return `serve()`, which computes a call by the kernel, and time it if it is among the first trial calls."""
        if self.n_trials >= TRIALS:
            return serve()
        start = time.perf_counter()
        result = serve()
        self.trial_s = min(self.trial_s, time.perf_counter() - start)
        self.n_trials += 1
        return result

    def compile_in_background(self, compile_kernel: Callable[[], Any]) -> None:
        """Run `compile_kernel` once, in the background tuning thread; calls meanwhile continue without the kernel."""
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
        except (MemoryError, OSError) as err:  # calls continue without a kernel
            from autosparse.log import event

            event("fallback", f"einsum: no kernel was compiled: {err}")
        finally:
            self.compiling_in = 0


def submit(job: Callable[[], None]) -> bool:
    """Run `job` in the background tuning thread; return whether it was accepted."""
    from autosparse.tuning import background

    return background.submit(job)


def is_sure() -> bool:
    """Return whether the option `runs` announces enough calls to compile a kernel at the first one."""
    return (config.get_options().runs or 0) >= SURE_RUNS


_failed: Final[set[str | None]] = set()  # values of the option `compiler` with which no kernel was compiled


def note_failure() -> None:
    """Record that the compiler of the options is missing or failed: routes then serve the calls that have one."""
    _failed.add(config.get_options().compiler)


def has_failed() -> bool:
    """Return whether `note_failure` was called with the compiler of the options."""
    return config.get_options().compiler in _failed


_accounts: Final[Recent[object, ExpressionCalls]] = Recent(MAX_ACCOUNTS)


def account_of(key: object) -> ExpressionCalls:
    """Return the account of an expression, creating it if necessary; the oldest accounts are dropped."""
    return _accounts.get(key) or _accounts.keep(key, ExpressionCalls())
