"""Exception types of autosparse and their message templates (warnings: notices.py).

A message says what happened, the two facts that disagree, and what to do. Where SciPy raises for the same mistake, the
type derives from SciPy's and SciPy's first line is kept, so that ``except ValueError`` in existing code still works.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final


def shown(value: object) -> str:
    """Return the first 100 characters of ``repr(value)``; of an array type and shape; the type where repr fails."""
    try:
        shape = None if isinstance(value, type) else getattr(value, "shape", None)
        return f"<{type(value).__name__} of shape {tuple(shape)}>" if shape else f"{value!r:.100}"
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"


def nearest(given: object, known: Iterable[str]) -> str:
    """Return "did you mean ...?" with the known name that resembles `given`; "" where none does."""
    import difflib  # only where there is a mistake to explain

    found = difflib.get_close_matches(given, tuple(known), n=1) if isinstance(given, str) else []
    return f"did you mean {found[0]}?" if found and found[0] != given else ""


class AutosparseError(Exception):
    """Base of every exception that autosparse raises itself.

    >>> try:
    ...     asp.csr([[1.0, 2.0]]) @ np.ones(3)
    ... except asp.AutosparseError as error:
    ...     isinstance(error, ValueError)  # as SciPy's is
    True
    """


class EinsumError(AutosparseError, ValueError):
    """Error for subscripts, operands or programs of an einsum that do not fit together; first lines are NumPy's."""

    @classmethod
    def refused(cls, first_line: str, *facts: str, hint: str = "") -> EinsumError:
        """Build the error from what is wrong, the facts that disagree, and what to do."""
        return cls("\n  ".join((first_line, *facts, *([f"Hint: {hint}."] if hint else []))))

    def worded(self, first_line: str | None, *facts: str) -> EinsumError:
        """Return a copy of the error with another first line (where given) and with more facts after it."""
        own, *rest = str(self).split("\n  ")
        return EinsumError("\n  ".join((first_line or own, *facts, *rest)))

    @classmethod
    def unreadable(cls, text: str, *, at: str) -> EinsumError:
        """Build the error for a program whose text the parser cannot read from `at` on."""
        return cls(f"not a program in concrete index notation: {text!r}\n  It cannot be read from {at!r} on.")


class ShapeError(AutosparseError, ValueError):
    """Error for two shapes that must agree and do not."""

    @classmethod
    def matmul(cls, a_shape: Sequence[int], b_shape: Sequence[int]) -> ShapeError:
        """Build the error for ``A @ B`` where the columns of A are not the rows of B; the first line is SciPy's."""
        k = a_shape[-1]
        rest = f",{'m' if len(b_shape) > 1 else '1?'}"
        n_rows = b_shape[0] if b_shape else 0
        first_line = f"matmul: dimension mismatch with signature (n,k={k}),(k={n_rows}{rest})->(n{rest})"
        return cls.mismatch(first_line, left=a_shape, right=b_shape)

    @classmethod
    def out(cls, *, wanted: Sequence[int], got: Sequence[int]) -> ShapeError:
        """Build the error for ``out=`` of another shape than the product."""
        return cls(
            f"out has shape {tuple(got)}, but the product has shape {tuple(wanted)}.\n"
            f"  Hint: pass out=np.empty({tuple(wanted)}, dtype=...), or omit out=."
        )

    @classmethod
    def mismatch(cls, first_line: str, *, left: Sequence[int], right: Sequence[int]) -> ShapeError:
        """Build the error for ``left @ right`` with shapes that do not fit; `first_line` is SciPy's message."""
        n_columns, n_rows = left[-1] if left else 0, right[0] if right else 0
        return cls(
            f"{first_line}\n"
            f"  The left operand has {n_columns} columns (shape {tuple(left)}); "
            f"the right one has {n_rows} rows (shape {tuple(right)}).\n"
            f"  Hint: pass a right operand with {n_columns} rows, or transpose one of the two."
        )

    @classmethod
    def explained(cls, shape: Sequence[int], *, n_rows: int) -> ShapeError:
        """Build the error for ``explain(B)`` with a B that the product would not accept."""
        return cls(
            f"B has shape {tuple(shape)}, but the product needs {n_rows} rows.\n"
            f"  Hint: pass B with {n_rows} rows, or its number of columns as an integer."
        )

    @classmethod
    def unfit(cls, what: str, *, wanted: str, **shapes: Sequence[int]) -> ShapeError:
        """Build the error for operands of `what` whose shapes do not satisfy `wanted`."""
        given = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        return cls(f"{what}: shapes do not fit: {given}.\n  Hint: pass {wanted}.")

    @property
    def first_line(self) -> str:
        """First line of the message, which is SciPy's."""
        return str(self).split("\n", 1)[0]


class LayoutError(AutosparseError, ValueError):
    """Error for an array whose memory layout or flags do not allow the requested use."""

    @classmethod
    def out_readonly(cls) -> LayoutError:
        """Build the error for a read-only ``out=``."""
        return cls(
            "output array is read-only: out.flags.writeable is False, but the product is written to it.\n"
            "  Hint: pass out=np.empty(shape, dtype=...), or omit out=."
        )

    @classmethod
    def out_strides(cls, *, strides: Sequence[int], itemsize: int) -> LayoutError:
        """Build the error for ``out=`` whose rows have gaps between their entries."""
        return cls(
            f"out has strides {tuple(strides)}, but entries of a row must follow each other every {itemsize} bytes "
            f"and rows must start a multiple of {itemsize} bytes apart.\n"
            f"  Hint: pass out in C order (out=np.empty(shape, dtype=...)), or rows of such an array."
        )


class StructureError(AutosparseError, ValueError):
    """Error for indptr and indices that point outside the matrix or outside the arrays; first lines are SciPy's."""

    @classmethod
    def indptr_size(cls, size: int, *, wanted: int) -> StructureError:
        """Build the error for an indptr of the wrong length."""
        return cls(
            f"index pointer size {size} should be {wanted}\n"
            f"  indptr has {size} entries; {wanted - 1} compressed rows need {wanted}.\n"
            f"  Hint: pass an indptr with {wanted} entries, or another shape."
        )

    @classmethod
    def too_short(cls, n_stored: int, *, n_indices: int, n_data: int) -> StructureError:
        """Build the error for an indptr that ends beyond indices or data."""
        return cls(
            "Last value of index pointer should be less than the size of index and data arrays\n"
            f"  indptr ends at {n_stored}; indices has {n_indices} entries and data {n_data}.\n"
            "  Hint: pass indices and data with at least indptr[-1] entries."
        )

    @classmethod
    def first_pointer(cls, value: int) -> StructureError:
        """Build the error for an indptr that does not start at 0."""
        return cls(
            f"index pointer should start with 0\n  indptr[0] is {value}.\n"
            "  Hint: subtract indptr[0] from indptr and slice indices and data accordingly."
        )

    @classmethod
    def decreasing(cls, row: int, *, start: int, end: int) -> StructureError:
        """Build the error for an indptr that decreases."""
        return cls(
            f"indptr must be a non-decreasing sequence\n"
            f"  indptr[{row}] is {start}, but indptr[{row + 1}] is {end}.\n"
            "  Hint: pass as indptr the running total of entries per compressed row."
        )

    @classmethod
    def index_too_large(cls, index: int, *, extent: int) -> StructureError:
        """Build the error for an index beyond the matrix."""
        return cls(
            f"indices must be < {extent}\n  indices holds {index}; the matrix has {extent} along that axis.\n"
            "  Hint: pass a larger shape=, or count indices from 0."
        )

    @classmethod
    def index_negative(cls, index: int) -> StructureError:
        """Build the error for a negative index."""
        return cls(
            f"indices must be >= 0\n  indices holds {index}; the smallest index is 0.\n"
            "  Hint: count indices from 0 (negative indices do not wrap around here)."
        )

    @classmethod
    def index_dtypes(cls, indptr: object, indices: object) -> StructureError:
        """Build the error for index arrays that hold no integers."""
        return cls(
            "unsupported data types in input\n"
            f"  indptr has dtype {indptr}, indices has dtype {indices}; both must hold integers.\n"
            "  Hint: set A.indptr = A.indptr.astype(np.intc), and A.indices likewise."
        )

    @classmethod
    def unsound(cls, fault: str, *, shape: Sequence[int], n_stored: int) -> StructureError:
        """Build the error for a sparse tensor with an invalid structure; `fault` says what was found."""
        return cls(
            f"a sparse tensor's structure is not valid: {fault}\n"
            f"  It has {shape[0]} rows (compressed), {shape[1]} columns and {n_stored} stored entries.\n"
            f"  Hint: pass row starts that rise from 0 to {n_stored}, and columns from 0 to {shape[1] - 1}."
        )


class InputError(AutosparseError, ValueError):
    """Error for an object that no sparse matrix can be made from."""

    @classmethod
    def refused(cls, first_line: str, *, given: str, hint: str) -> InputError:
        """Build the error from SciPy's (or autosparse's) first line, a description of the input, and what to do."""
        return cls(f"{first_line}\n  Given: {given}.\n  Hint: {hint}.")


class InputTypeError(AutosparseError, TypeError):
    """Error for an input of a type that no sparse matrix can be made from, or that an argument does not accept."""

    @classmethod
    def refused(cls, first_line: str, *, given: str, hint: str) -> InputTypeError:
        """Build the error from SciPy's (or autosparse's) first line, a description of the input, and what to do."""
        return cls(f"{first_line}\n  Given: {given}.\n  Hint: {hint}.")


class DtypeError(AutosparseError, TypeError):
    """Error for an operand whose dtype the operation does not support."""

    @classmethod
    def out(cls, *, wanted: Any, got: Any) -> DtypeError:
        """Build the error for ``out=`` of another dtype than the product (dtypes format themselves)."""
        return cls(
            f"out has dtype {got}, but the product has dtype {wanted}.\n"
            f"  Hint: pass out=np.empty(shape, dtype={str(wanted)!r})."
        )

    @classmethod
    def unserved(cls, what: str, *, dtypes: Iterable[object], known: Iterable[object]) -> DtypeError:
        """Build the error for operands of `what` whose dtypes differ or are not supported."""
        return cls(
            f"{what}: operands have dtypes {', '.join(map(str, dtypes))}.\n"
            f"  Hint: convert them to one of {', '.join(map(str, known))}."
        )


class OptionError(AutosparseError, ValueError):
    """Error for an option, argument or environment variable with a value outside its domain."""

    @classmethod
    def unknown(cls, name: str, known: Iterable[str]) -> OptionError:
        """Build the error for a name that no setting has."""
        names = sorted(known)
        hint = nearest(name, names) or "help(autosparse.Options) describes them."
        return cls(f"unknown option {name!r}\n  The options are {', '.join(names)}.\n  Hint: {hint}")

    @classmethod
    def bad_value(cls, name: str, value: object, *, domain: str, source: str = "option") -> OptionError:
        """Build the error for a value outside the domain of setting `name`; `source` says where the value came from."""
        choices = () if domain.startswith(("a ", "an ", "the ")) else {*domain.replace(",", "").split()} - {"one", "of"}
        hint = nearest(value, choices) or f"set {name} to {domain}."
        return cls(f"{source} {name}={shown(value)} is not valid: it must be {domain}.\n  Hint: {hint}")

    @classmethod
    def other_run(cls, path: Path | str, differences: str) -> OptionError:
        """Build the error for a checkpoint of a run with other settings or data."""
        return cls(
            f"{str(path)!r} is the checkpoint of another run: {differences}.\n"
            "  Hint: pass another --out or the settings of that run, or remove the checkpoint."
        )


class ScheduleError(AutosparseError, ValueError):
    """Error for a format or schedule that does not parse or is not legal."""

    @classmethod
    def illegal(cls, schedule: object, reason: str) -> ScheduleError:
        """Build the error for a schedule that `is_legal` rejects with `reason`."""
        return cls(f"schedule {schedule} is not legal: {reason}")

    @classmethod
    def unparsable(cls, text: str, *, expected: str) -> ScheduleError:
        """Build the error for text that is no format or schedule."""
        return cls(f"cannot read {text!r}: expected {expected}")

    @classmethod
    def not_in_space(cls, parameter: str, value: object, known: object) -> ScheduleError:
        """Build the error for a schedule, value or code outside a space of schedules."""
        return cls(f"{parameter} = {value!r} is not in this space of schedules: it has {known}")


class InputFileError(AutosparseError, ValueError):
    """Error for a file that should hold a sparse matrix and does not."""

    @classmethod
    def unreadable(cls, path: Path | str, *, reason: str) -> InputFileError:
        """Build the error for a file of a known kind that does not parse."""
        return cls(
            f"cannot read a sparse matrix from {str(path)!r}: {reason}\n"
            f"  Hint: pass a Matrix Market file (.mtx, .mtx.gz, .mtx.bz2, .tar.gz), one written by "
            f"scipy.sparse.save_npz (.npz), or a tensor by its entries (.tns)."
        )

    @classmethod
    def unknown_suffix(cls, path: Path | str, *, known: Iterable[str]) -> InputFileError:
        """Build the error for a file whose suffix names no known format."""
        return cls(
            f"cannot tell the format of {str(path)!r} from its name: known suffixes are {', '.join(known)}.\n"
            f"  Hint: rename the file, or read it yourself and pass the matrix."
        )


class MissingExtraError(AutosparseError, ImportError):
    """Error for an optional package that this call needs and that is not installed."""

    @classmethod
    def needed(cls, package: str, *, extra: str, purpose: str) -> MissingExtraError:
        """Build the error for `purpose`, which needs `package` from the extra `extra`."""
        first = "; without a GPU, before it: pip install torch --index-url https://download.pytorch.org/whl/cpu"
        hint = f"  Hint: pip install 'autosparse[{extra}]'{first if package == 'torch' else ''}"
        return cls(f"{purpose} needs {package}, which is not installed.\n{hint}")

    @classmethod
    def by_hand(cls, package: str, *, purpose: str, how: str) -> MissingExtraError:
        """Build the error for `purpose`, which needs `package`; no extra installs it, `how` says what to do."""
        return cls(f"{purpose} needs {package}, which is not installed.\n  Hint: {how}.")


class BuildError(AutosparseError, RuntimeError):
    """Error for a kernel that could not be compiled or loaded.

    Products never raise it: they use the default kernel instead (see FallbackWarning).
    """

    def __init__(self, message: str, *, key: str = "", log: str = "", is_cancelled: bool = False) -> None:
        super().__init__(message)
        self.key = key
        self.log = log
        self.is_cancelled = is_cancelled  # a cancelled build says nothing about the kernel


class PackError(AutosparseError, MemoryError):
    """Error for a format whose packed operand would not fit; raised before memory is allocated."""

    @classmethod
    def too_large(cls, fmt: object, *, needed_bytes: int, limit_bytes: int) -> PackError:
        """Build the error for a packed operand that would exceed the limit on extra memory."""
        return cls(
            f"format {fmt} needs {needed_bytes:,} bytes for this pattern, more than the {limit_bytes:,} allowed.\n"
            f"  Hint: raise options(extra_memory=...) or choose another format."
        )

    @classmethod
    def unfit(cls, fmt: object, reason: str) -> PackError:
        """Build the error for a pattern that the format's index types cannot represent."""
        return cls(f"format {fmt} cannot hold this pattern: {reason}.\n  Hint: use wider index bits or another format.")


class RoomError(AutosparseError, MemoryError):
    """Error for a copy of the caller's arrays that would not fit in memory; raised before memory is allocated."""

    @classmethod
    def copy(cls, *, needed_bytes: int, available_bytes: int | None) -> RoomError:
        """Build the error for arrays larger than the available memory (None: NumPy could not allocate them)."""
        limit = "more than is available" if available_bytes is None else f"and {available_bytes:,} bytes are available"
        return cls(
            f"the matrix would own a copy of its arrays, which needs {needed_bytes:,} bytes, {limit}.\n"
            f"  Hint: copy=False shares the arrays of the caller, or free memory first."
        )


class CacheError(AutosparseError, OSError):
    """Error for an explicit cache request that failed (export, import, clear, a folder for a kernel)."""

    @classmethod
    def failed(cls, what: str, path: Path | str, *, reason: str, hint: str) -> CacheError:
        """Build the error for an action `what` ("import wisdom from", ...) that failed on `path`."""
        return cls(f"cannot {what} {str(path)!r}: {reason}\n  Hint: {hint}")


class RecordError(AutosparseError, ValueError):
    """Error for a cache record that is malformed or invalid for its kind. Readers treat such a record as absent."""

    @classmethod
    def broken(cls, name: str, *, reason: str) -> RecordError:
        """Build the error for the malformed entry `name`."""
        return cls(f"cache entry {name}: {reason}")

    @classmethod
    def bad_field(cls, kind: str, field: str, value: object, *, expected: str) -> RecordError:
        """Build the error for a field whose value its record type cannot have."""
        return cls(f"{kind} record: {field}={shown(value)} must be {expected}")


TUNING_FAILURES: Final = (
    AutosparseError, FloatingPointError, ImportError, MemoryError, OSError, RuntimeError, Warning,
)  # fmt: skip
"""Exceptions that compiling, loading, packing, timing and the cache may raise although the tuner has no fault.

RuntimeError is raised by LLVM, by torch and for threads that cannot be started; FloatingPointError and Warning by the
user's own ``np.errstate`` and warning filters. Everything else is a programming error (`containment.contained`).
"""
