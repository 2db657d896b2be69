"""Warning categories of autosparse, their message templates, and functions that show them."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

from autosparse.errors import BuildError


class FallbackWarning(RuntimeWarning):
    """Warning that the tuned path failed and that the default kernel or SciPy computed the product instead.

    >>> warnings.simplefilter("error", asp.FallbackWarning)  # where every product should be a tuned one
    """

    @staticmethod
    def no_runtime(fault: str, *, hint: str) -> str:
        """Return the message for an installation without the C runtime; `fault` is the reason."""
        return f"SciPy computes every product: {fault}.\n  Results are right, but no faster.\n  Hint: {hint}."

    @staticmethod
    def not_built(error: BuildError) -> str:
        """Return the message for a kernel that could not be compiled, with the hint of `error` where it has one."""
        first, *rest = str(error).split("\n")
        hints = [line for line in rest if line.startswith("  Hint:")]
        return "\n".join([f"a kernel could not be built, the default kernel is used: {first}", *hints])

    @staticmethod
    def wrong_kernel(compiler: str, difference: str) -> str:
        """Return the message for a generated kernel whose result differs from the default kernel's."""
        return (
            f"a generated kernel was compared with the default kernel and is not used: {difference}\n"
            f"  Results are unaffected. Compiler: {compiler}.\n"
            f"  Hint: set AUTOSPARSE_CC to another compiler; with a compiler that you trust, please report this."
        )


class CacheWarning(RuntimeWarning):
    """Warning that the disk cache is unusable: results are unaffected, but nothing is remembered after this process.

    >>> warnings.simplefilter("ignore", asp.CacheWarning)  # where no folder can be written
    """

    @staticmethod
    def unusable(folder: Path | str, *, reason: str, readable: bool) -> str:
        """Return the message for a folder that is no longer written (`readable`: its content is still used)."""
        kept = "What it holds is still used, n" if readable else "N"
        return (
            f"the autosparse cache in {str(folder)!r} cannot be {'written' if readable else 'used'}: {reason}\n"
            f"  Results are unaffected. {kept}othing new is remembered after this process.\n"
            f"  Hint: set AUTOSPARSE_CACHE_DIR to a folder that only you can write, or options(cache=False)."
        )

    @staticmethod
    def unreadable_rates(path: Path, *, reason: str) -> str:
        """Return the message for a file of the setting `rates` that holds no record."""
        return (
            f"AUTOSPARSE_RATES names {str(path)!r}, which is no record of a machine's rates: {reason}\n"
            f"  Results are unaffected; cost models use the shipped rates.\n"
            f"  Hint: write a record, DIR/rates.json, by python -m autosparse calibrate --out DIR."
        )

    @staticmethod
    def unserialisable(kind: str, *, reason: str) -> str:
        """Return the message for a record that is not JSON, which is a bug of autosparse; results are unaffected."""
        return f"a {kind} record could not be remembered: {reason}. Please report this as a bug of autosparse."


class SnapshotWarning(UserWarning):
    """Warning that a torch tensor was written after a matrix was made from it, and the matrix is still multiplied.

    The matrix holds a snapshot of the tensor's values.

    >>> warnings.simplefilter("ignore", asp.SnapshotWarning)  # where a snapshot is intended
    """

    @staticmethod
    def written(tensor: str) -> str:
        """Return the message for `tensor`, a text that `describe` made."""
        return (
            f"the matrix holds the values that the tensor had when csr() was called, and the tensor was written since\n"
            f"  Given: {tensor}.\n"
            f"  Hint: use csr(tensor, copy=False), which follows the tensor, or call csr(tensor) again."
        )


_warned: set[tuple[type[Warning], str]] = set()


def warn_once(category: type[Warning], key: str, message: str) -> None:
    """Warn once per process for each (category, key), so that a failing cache does not fill the user's log.

    Where a filter turns the warning into an error, the message is logged instead: results are unaffected, and an
    exception would discard a correct product.
    """
    if (category, key) not in _warned:
        _warned.add((category, key))
        warn(category, message, stacklevel=4)


def warn(category: type[Warning], message: str, *, stacklevel: int) -> None:
    """Warn as `warnings.warn` does; log the message instead where a filter turns it into an error (see `warn_once`)."""
    try:
        warnings.warn(message, category, stacklevel=stacklevel)
    except category:
        logging.getLogger("autosparse").warning("%s: %s", category.__name__, message, stacklevel=stacklevel)


def forget_warnings() -> None:
    """Forget which warnings were shown, so that each is shown again (for tests)."""
    _warned.clear()


MODELS = ("boosted", "waco", "statistics")
"""Values of the option `model`."""


def model_named(value: object) -> str:
    """Return `value` if it is in MODELS, or the present name for an old one, with a warning; else raise ValueError."""
    name = str(value)
    if name == "waconet":
        what = 'model="waconet" is now model="waco"; the old name will be removed in the release after 0.3'
        warnings.warn(what, DeprecationWarning, stacklevel=2)
        name = "waco"
    return MODELS[MODELS.index(name)]


_FORWARDING = frozenset({"autosparse.interop.solver_names", "autosparse.light.solves"})
"""Names of the modules whose functions only call a solver: with `install`, or before the library is loaded."""


def warn_at(level: int, what: str, category: type[Warning]) -> None:
    """Emit a warning at the frame `level` (1: of the caller), not counting frames of the modules `_FORWARDING`."""
    frame, stacklevel = sys._getframe(1), 2
    while level > 1 and (caller := frame.f_back) is not None:
        frame, stacklevel = caller, stacklevel + 1
        level -= frame.f_globals.get("__name__") not in _FORWARDING
    warnings.warn(what, category, stacklevel=stacklevel + level - 1)
