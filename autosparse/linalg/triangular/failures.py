"""Errors of triangular solves and incomplete factorizations."""

from __future__ import annotations

from numpy.linalg import LinAlgError

from autosparse.errors import AutosparseError


class SingularError(AutosparseError, LinAlgError):
    """Error for a matrix that cannot be factorized or inverted because of one of its rows."""

    @classmethod
    def pivot(cls, what: str, row: int, fault: str, hint: str) -> SingularError:
        """Build the error for the row at which `what` failed, what was found there, and what to do."""
        return cls(f"{what}: no valid pivot in row {row}: {fault}.\n  Hint: {hint}.")


class RuntimeMissingError(AutosparseError, RuntimeError):
    """Error for a function that exists only in the C runtime where that was not built."""

    @classmethod
    def needed(cls, what: str, *, fault: str) -> RuntimeMissingError:
        """Build the error for `what`; `fault` says why there is no runtime."""
        return cls(f"{what} needs the C runtime: {fault}.\n  Hint: install a wheel, or a C compiler, and reinstall.")
