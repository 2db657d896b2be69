"""Every error autosparse raises: exception types and their templates (warnings: notices.py).

An error says what happened, the two facts that disagree, and what to do. Where SciPy raises for the same mistake,
the type derives from SciPy's and SciPy's first line is kept, so that ``except ValueError`` in existing code still
works.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final


def shown(value: object) -> str:
    """The beginning of `repr`; the type's name where there is none (Python refuses to write out very long integers)."""
    try:
        return f"{value!r:.100}"
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}>"


class AutosparseError(Exception):
    """Base of every exception that autosparse raises itself.

    >>> try:
    ...     asp.csr([[1.0, 2.0]]) @ np.ones(3)
    ... except asp.AutosparseError as error:
    ...     isinstance(error, ValueError)  # as SciPy's is
    True
    """


class EinsumError(AutosparseError, ValueError):
    """Subscripts, operands or programs of an einsum that do not fit together; first lines are NumPy's."""

    @classmethod
    def refused(cls, first_line: str, *facts: str, cure: str = "") -> EinsumError:
        """What is wrong, the two facts that disagree, what to do."""
        return cls("\n  ".join((first_line, *facts, *([f"Hint: {cure}."] if cure else []))))

    def worded(self, first_line: str | None, *facts: str) -> EinsumError:
        """The same with another first line, where there is one, and more facts behind it."""
        own, *rest = str(self).split("\n  ")
        return EinsumError("\n  ".join((first_line or own, *facts, *rest)))

    @classmethod
    def unreadable(cls, text: str, *, at: str) -> EinsumError:
        """A program's text that the parser does not understand."""
        return cls(f"this is no program in concrete index notation: {text!r}\n  It cannot be read from {at!r} on.")


class ShapeError(AutosparseError, ValueError):
    """Two shapes that must agree do not."""

    @classmethod
    def matmul(cls, a_shape: Sequence[int], b_shape: Sequence[int]) -> ShapeError:
        """``A @ B`` where the columns of A are not the rows of B; the first line is SciPy's own."""
        n, k = a_shape
        rest = f",{'m' if len(b_shape) > 1 else '1?'}"
        n_rows = b_shape[0] if b_shape else 0
        return cls(
            f"matmul: dimension mismatch with signature (n,k={k}),(k={n_rows}{rest})->(n{rest})\n"
            f"  A has {k} columns (shape {n} x {k}); B has {n_rows} rows (shape {'x'.join(map(str, b_shape))}).\n"
            f"  Hint: pass B with {k} rows, or transpose one of the operands."
        )

    @classmethod
    def out(cls, *, wanted: Sequence[int], got: Sequence[int]) -> ShapeError:
        """``out=`` of another shape than the product."""
        return cls(
            f"out has shape {tuple(got)}, but the product has shape {tuple(wanted)}.\n"
            f"  Hint: out=np.empty({tuple(wanted)}, dtype=...), or omit out=."
        )

    @classmethod
    def mismatch(cls, first_line: str, *, left: Sequence[int], right: Sequence[int]) -> ShapeError:
        """``left @ right`` with shapes that do not fit; `first_line` is what SciPy says."""
        n_columns, n_rows = left[-1] if left else 1, right[0] if right else 1
        return cls(
            f"{first_line}\n"
            f"  The left operand has {n_columns} columns (shape {tuple(left)}); "
            f"the right one has {n_rows} rows (shape {tuple(right)}).\n"
            f"  Hint: a right operand with {n_columns} rows, or transpose one of the two."
        )

    @classmethod
    def explained(cls, shape: Sequence[int], *, n_rows: int) -> ShapeError:
        """``explain(B)`` for a B that the product would not take."""
        return cls(
            f"B has shape {tuple(shape)}, but the product needs {n_rows} rows.\n"
            f"  Hint: pass B with {n_rows} rows, or its number of columns as an integer."
        )

    @classmethod
    def unfit(cls, what: str, *, wanted: str, **shapes: Sequence[int]) -> ShapeError:
        """Operands of `what` whose shapes do not satisfy `wanted`."""
        given = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        return cls(f"{what}: shapes do not fit: {given}.\n  Hint: {wanted}.")

    @property
    def first_line(self) -> str:
        """The line that SciPy would have said."""
        return str(self).split("\n", 1)[0]


class LayoutError(AutosparseError, ValueError):
    """An array whose memory cannot be used as asked."""

    @classmethod
    def out_readonly(cls) -> LayoutError:
        """``out=`` that may not be written."""
        return cls(
            "output array is read-only: out.flags.writeable is False, but the product is written to it.\n"
            "  Hint: out=np.empty(shape, dtype=...), or omit out=."
        )

    @classmethod
    def out_strides(cls, *, strides: Sequence[int], itemsize: int) -> LayoutError:
        """``out=`` whose rows have gaps between their entries."""
        return cls(
            f"out has strides {tuple(strides)}, but entries of a row must follow each other every {itemsize} bytes "
            f"and rows must start a multiple of {itemsize} bytes apart.\n"
            f"  Hint: out in C order (out=np.empty(shape, dtype=...)), or rows of such an array."
        )


class StructureError(AutosparseError, ValueError):
    """indptr and indices that point outside the matrix or outside the arrays; first lines are SciPy's."""

    @classmethod
    def indptr_size(cls, size: int, *, wanted: int) -> StructureError:
        """Indptr of the wrong length."""
        return cls(
            f"index pointer size {size} should be {wanted}\n"
            f"  indptr has {size} entries; {wanted - 1} compressed rows need {wanted}.\n"
            f"  Hint: an indptr with {wanted} entries, or another shape."
        )

    @classmethod
    def too_short(cls, n_stored: int, *, n_indices: int, n_data: int) -> StructureError:
        """More entries promised by indptr than there are."""
        return cls(
            "Last value of index pointer should be less than the size of index and data arrays\n"
            f"  indptr ends at {n_stored}; indices has {n_indices} entries and data {n_data}.\n"
            "  Hint: indices and data with at least indptr[-1] entries."
        )

    @classmethod
    def first_pointer(cls, value: int) -> StructureError:
        """Indptr that does not start at 0."""
        return cls(
            f"index pointer should start with 0\n  indptr[0] is {value}.\n"
            "  Hint: subtract indptr[0] from indptr and slice indices and data accordingly."
        )

    @classmethod
    def decreasing(cls, row: int, *, start: int, end: int) -> StructureError:
        """Indptr that falls."""
        return cls(
            f"indptr must be a non-decreasing sequence\n"
            f"  indptr[{row}] is {start}, but indptr[{row + 1}] is {end}.\n"
            "  Hint: indptr must be the running total of entries per compressed row."
        )

    @classmethod
    def index_too_large(cls, index: int, *, extent: int) -> StructureError:
        """An index beyond the matrix."""
        return cls(
            f"indices must be < {extent}\n  indices holds {index}; the matrix has {extent} along that axis.\n"
            "  Hint: a larger shape=, or indices counted from 0."
        )

    @classmethod
    def index_negative(cls, index: int) -> StructureError:
        """An index below zero."""
        return cls(
            f"indices must be >= 0\n  indices holds {index}; the smallest index is 0.\n"
            "  Hint: count indices from 0 (negative indices do not wrap around here)."
        )

    @classmethod
    def index_dtypes(cls, indptr: object, indices: object) -> StructureError:
        """Index arrays that hold no integers."""
        return cls(
            "unsupported data types in input\n"
            f"  indptr has dtype {indptr}, indices has dtype {indices}; both must hold integers.\n"
            "  Hint: A.indptr = A.indptr.astype(np.int32), and A.indices likewise."
        )

    @classmethod
    def unsound(cls, fault: str, *, shape: Sequence[int], n_stored: int) -> StructureError:
        """Compressed rows that a kernel must not follow; `fault` is what a look at them found."""
        return cls(
            f"a sparse tensor's structure is not valid: {fault}\n"
            f"  It has {shape[0]} rows (compressed), {shape[1]} columns and {n_stored} stored entries.\n"
            f"  Hint: starts of rows that rise from 0 to {n_stored}, and columns from 0 to {shape[1] - 1}."
        )


class InputError(AutosparseError, ValueError):
    """Something that a sparse matrix cannot be made from."""

    @classmethod
    def refused(cls, first_line: str, *, given: str, cure: str) -> InputError:
        """SciPy (or we) said `first_line` to an input that reads `given`."""
        return cls(f"{first_line}\n  Given: {given}.\n  Hint: {cure}.")


class InputTypeError(AutosparseError, TypeError):
    """An input of a type that a sparse matrix cannot be made from, or that an argument cannot take."""

    @classmethod
    def refused(cls, first_line: str, *, given: str, cure: str) -> InputTypeError:
        """SciPy (or we) said `first_line` to an input that reads `given`."""
        return cls(f"{first_line}\n  Given: {given}.\n  Hint: {cure}.")


class DtypeError(AutosparseError, TypeError):
    """An operand whose dtype the operation cannot take."""

    @classmethod
    def out(cls, *, wanted: Any, got: Any) -> DtypeError:
        """``out=`` of another dtype than the product (dtypes print themselves)."""
        return cls(
            f"out has dtype {got}, but the product has dtype {wanted}.\n"
            f"  Hint: out=np.empty(shape, dtype={str(wanted)!r})."
        )

    @classmethod
    def unserved(cls, what: str, *, dtypes: Iterable[object], known: Iterable[object]) -> DtypeError:
        """Operands of `what` that differ in dtype, or have one that it does not compute in."""
        return cls(
            f"{what}: operands have dtypes {', '.join(map(str, dtypes))}.\n"
            f"  Hint: convert them to one of {', '.join(map(str, known))}."
        )


class OptionError(AutosparseError, ValueError):
    """An option, argument or environment variable with a value outside its domain."""

    @classmethod
    def unknown(cls, name: str, known: Iterable[str]) -> OptionError:
        """A name that no setting has."""
        return cls(f"unknown option {name!r}; the options are {', '.join(sorted(known))}.")

    @classmethod
    def bad_value(cls, name: str, value: object, *, domain: str, source: str = "option") -> OptionError:
        """A value that the setting `name` cannot take; `source` says where it came from."""
        return cls(
            f"{source} {name}={shown(value)} is not valid: it must be {domain}.\n  Hint: set {name} to {domain}."
        )

    @classmethod
    def other_run(cls, path: Path | str, differences: str) -> OptionError:
        """A checkpoint of a run with other settings or data."""
        return cls(
            f"{str(path)!r} is the checkpoint of another run: {differences}.\n"
            "  Hint: another --out, the settings of that run, or remove the checkpoint to begin anew."
        )


class ScheduleError(AutosparseError, ValueError):
    """A format or schedule that does not parse or is not legal."""

    @classmethod
    def illegal(cls, schedule: object, reason: str) -> ScheduleError:
        """A schedule that `is_legal` refuses; `reason` is its answer."""
        return cls(f"schedule {schedule} is not legal: {reason}")

    @classmethod
    def unparsable(cls, text: str, *, expected: str) -> ScheduleError:
        """Text that is no format or schedule."""
        return cls(f"cannot read {text!r}: expected {expected}")

    @classmethod
    def not_in_space(cls, parameter: str, value: object, known: object) -> ScheduleError:
        """A schedule, value or code that a space of schedules does not have."""
        return cls(f"{parameter} = {value!r} is not in this space of schedules: it has {known}")


class InputFileError(AutosparseError, ValueError):
    """A file that should hold a sparse matrix and does not."""

    @classmethod
    def unreadable(cls, path: Path | str, *, reason: str) -> InputFileError:
        """A file of a known kind that does not parse."""
        return cls(
            f"cannot read a sparse matrix from {str(path)!r}: {reason}\n"
            f"  Hint: a Matrix Market file (.mtx, .mtx.gz, .mtx.bz2, .tar.gz), one written by "
            f"scipy.sparse.save_npz (.npz), or a tensor by its entries (.tns)."
        )

    @classmethod
    def unknown_suffix(cls, path: Path | str, *, known: Iterable[str]) -> InputFileError:
        """A file name that tells no format."""
        return cls(
            f"cannot tell the format of {str(path)!r} from its name: known suffixes are {', '.join(known)}.\n"
            f"  Hint: rename the file, or read it yourself and pass the matrix."
        )


_CPU_BUILDS: dict[str, str] = {
    "torch": "; without a GPU, before it: pip install torch --index-url https://download.pytorch.org/whl/cpu"
}
"""Package -> how to have it without gigabytes for GPUs."""


class MissingExtraError(AutosparseError, ImportError):
    """An optional package that this call needs is not installed."""

    @classmethod
    def needed(cls, package: str, *, extra: str, purpose: str) -> MissingExtraError:
        """`purpose` needs `package`, which the extra `extra` installs."""
        first = _CPU_BUILDS.get(package, "")
        cure = f"  Hint: pip install 'autosparse[{extra}]'{first}"
        return cls(f"{purpose} needs {package}, which is not installed.\n{cure}")

    @classmethod
    def by_hand(cls, package: str, *, purpose: str, how: str) -> MissingExtraError:
        """`purpose` needs `package`, which no extra can install: `how` says what to do."""
        return cls(f"{purpose} needs {package}, which is not installed.\n  Hint: {how}.")


class BuildError(AutosparseError, RuntimeError):
    """A kernel could not be compiled or loaded. Products never raise this: they fall back (see FallbackWarning)."""

    def __init__(self, message: str, *, key: str = "", log: str = "", is_cancelled: bool = False) -> None:
        super().__init__(message)
        self.key = key
        self.log = log
        self.is_cancelled = is_cancelled  # which says nothing about the kernel


class PackError(AutosparseError, MemoryError):
    """A format that would not fit: refused before any memory is taken."""

    @classmethod
    def too_large(cls, fmt: object, *, needed_bytes: int, limit_bytes: int) -> PackError:
        """The packed operand would exceed the bound on extra memory."""
        return cls(
            f"format {fmt} needs {needed_bytes:,} bytes for this pattern, more than the {limit_bytes:,} allowed.\n"
            f"  Hint: raise options(extra_memory=...) or choose another format."
        )

    @classmethod
    def unfit(cls, fmt: object, reason: str) -> PackError:
        """A pattern that the format's index types cannot describe."""
        return cls(f"format {fmt} cannot hold this pattern: {reason}.\n  Hint: wider index bits or another format.")


class RoomError(AutosparseError, MemoryError):
    """A copy of the caller's arrays that would not fit: refused before any memory is taken."""

    @classmethod
    def copy(cls, *, needed_bytes: int, available_bytes: int | None) -> RoomError:
        """The arrays that a matrix would own need more than there is (None: NumPy could not allocate them)."""
        there_is = "more than there is" if available_bytes is None else f"and {available_bytes:,} bytes are available"
        return cls(
            f"the matrix would own a copy of its arrays, which takes {needed_bytes:,} bytes, {there_is}.\n"
            f"  Hint: copy=False shares the arrays of the caller, or free memory first."
        )


class CacheError(AutosparseError, OSError):
    """The cache cannot be used for what was explicitly asked (export, import, clear, a folder for a kernel)."""

    @classmethod
    def failed(cls, what: str, path: Path | str, *, reason: str, cure: str) -> CacheError:
        """`what` ("import wisdom from", ...) could not be done with `path`."""
        return cls(f"cannot {what} {str(path)!r}: {reason}\n  Hint: {cure}")


class RecordError(AutosparseError, ValueError):
    """A cache record that is broken or does not say what its kind must say: treated as absent."""

    @classmethod
    def broken(cls, name: str, *, reason: str) -> RecordError:
        """The entry `name` cannot be believed."""
        return cls(f"cache entry {name}: {reason}")

    @classmethod
    def bad_field(cls, kind: str, field: str, value: object, *, expected: str) -> RecordError:
        """A field with a value that its record type cannot have."""
        return cls(f"{kind} record: {field}={shown(value)} must be {expected}")


TUNING_FAILURES: Final = (
    AutosparseError, FloatingPointError, ImportError, MemoryError, OSError, RuntimeError, Warning,
)  # fmt: skip
"""Exceptions that compiling, loading, packing, timing and the cache may raise although the tuner has no fault.

RuntimeError is raised by LLVM, by torch and for threads that cannot be started; FloatingPointError and Warning by the
user's own ``np.errstate`` and warning filters. Everything else is a programming error (`containment.contained`).
"""
