"""Every warning autosparse shows: categories, templates, and how they are shown."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

from autosparse.errors import BuildError


class FallbackWarning(RuntimeWarning):
    """The tuned path failed and the product was computed by the default kernel or SciPy instead.

    >>> warnings.simplefilter("error", asp.FallbackWarning)  # where every product should be a tuned one
    """

    @staticmethod
    def no_runtime(fault: str, *, cure: str) -> str:
        """Message for an installation without the C runtime, for the reason `fault`."""
        return f"SciPy computes every product: {fault}.\n  Results are right, but no faster.\n  Cure: {cure}."

    @staticmethod
    def not_built(error: BuildError) -> str:
        """Message for a kernel that could not be compiled: what happened, and the cure where there is one to name."""
        first, *rest = str(error).split("\n")
        cures = [line for line in rest if line.startswith("  Cure:")]
        return "\n".join([f"a kernel could not be built, the default kernel is used: {first}", *cures])

    @staticmethod
    def wrong_kernel(compiler: str, difference: str) -> str:
        """Message for a generated kernel whose result is not the default kernel's."""
        return (
            f"a generated kernel was compared with the default kernel and is not used: {difference}\n"
            f"  Results are unaffected. Compiler: {compiler}.\n"
            f"  Cure: set AUTOSPARSE_CC to another compiler; with a compiler that you trust, please report this."
        )


class CacheWarning(RuntimeWarning):
    """The on-disk cache is unusable; results are unaffected, but nothing is remembered after this process.

    >>> warnings.simplefilter("ignore", asp.CacheWarning)  # where there is no folder to write to, and that is known
    """

    @staticmethod
    def unusable(folder: Path | str, *, reason: str, readable: bool) -> str:
        """Message for a folder that is no longer written (`readable`: what it holds is still used)."""
        kept = "What it holds is still used, n" if readable else "N"
        return (
            f"the autosparse cache in {str(folder)!r} cannot be {'written' if readable else 'used'}: {reason}\n"
            f"  Results are unaffected. {kept}othing new is remembered after this process.\n"
            f"  Cure: set AUTOSPARSE_CACHE_DIR to a folder that only you can write, or options(cache=False)."
        )

    @staticmethod
    def unserialisable(kind: str, *, reason: str) -> str:
        """Message for a record that is not JSON: a bug of ours, reported without costing the user a product."""
        return f"a {kind} record could not be remembered: {reason}. Please report this as a bug of autosparse."


class SnapshotWarning(UserWarning):
    """A torch tensor was written after a matrix was made from it, and the matrix, a snapshot, is still multiplied.

    >>> warnings.simplefilter("ignore", asp.SnapshotWarning)  # where the values of that moment are meant
    """

    @staticmethod
    def written(tensor: str) -> str:
        """Message for `tensor`, as `describe` tells it."""
        return (
            f"the matrix holds the values that the tensor had when csr() was called, and the tensor was written since\n"
            f"  Given: {tensor}.\n"
            f"  Cure: csr(tensor, copy=False) follows the tensor; csr(tensor) again takes its values of now."
        )


_warned: set[tuple[type[Warning], str]] = set()


def warn_once(category: type[Warning], key: str, message: str) -> None:
    """Warn once per process for each (category, key): a failing cache must not fill a user's log.

    Where a filter turns the warning into an error it is logged instead: all our warnings say that results are
    unaffected, and an error in their place would take a product that is right away from who asked for it
    (docs/design/cache-and-trust.md).
    """
    if (category, key) not in _warned:
        _warned.add((category, key))
        warn(category, message, stacklevel=4)


def warn(category: type[Warning], message: str, *, stacklevel: int) -> None:
    """Warn as `warnings.warn` does; where a filter makes an error of it, log it instead, as `warn_once` explains."""
    try:
        warnings.warn(message, category, stacklevel=stacklevel)
    except category:
        logging.getLogger("autosparse").warning("%s: %s", category.__name__, message, stacklevel=stacklevel)


def forget_warnings() -> None:
    """Let every warning be shown again (used by tests)."""
    _warned.clear()
