"""Operands and arguments shared by the commands: matrices from files, right-hand sides, checked paths, options."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse

import autosparse
from autosparse.cli.show import CommandError
from autosparse.config import Effort, Options, options
from autosparse.scalar import DOUBLE, VALUE_CODES

SUFFIXES: Final = (".npz", ".mtx", ".mtx.gz")
"""File name endings of matrix files."""
DTYPES: Final = tuple(VALUE_CODES)
"""Dtypes for which there are kernels."""


@dataclass(frozen=True)
class Pair:
    """One matrix in two classes, to be compared: `ours` is autosparse's, `theirs` is SciPy's."""

    name: str
    ours: Any  # Any: csr_array or csr_matrix of autosparse
    theirs: Any

    @classmethod
    def of(cls, matrix: Any, *, name: str, dtype: str | None = None) -> Pair:
        """Create a pair from `matrix` as CSR; dtypes without kernels become float64 unless `dtype` is given."""
        kept = matrix.dtype.name if matrix.dtype.name in DTYPES else DOUBLE.name
        theirs = scipy.sparse.csr_array(matrix, dtype=dtype or kept, copy=True)
        return cls(name, autosparse.csr(theirs), theirs)

    @classmethod
    def read(cls, path: Path, dtype: str | None = None) -> Pair:
        """Read a pair from a file; raise CommandError for paths such as pipes, which would block."""
        if path.exists() and not path.is_file():
            raise CommandError(f"{str(path)!r} is not a file", hint=f"pass a file that ends in {', '.join(SUFFIXES)}")
        matrix = autosparse.csr(path)
        if len(matrix.shape) != 2:
            what = f"{str(path)!r} holds an array of shape {matrix.shape}, not a matrix"
            raise CommandError(what, hint="pass a file with a matrix (two dimensions)")
        return cls.of(matrix, name=path.name, dtype=dtype)

    def dense(self, n_columns: int, *, transposed: bool = False) -> Any:
        """Return a random vector (one column) or matrix to multiply with, of fixed seed and the matrix's dtype."""
        n_rows = self.theirs.shape[0 if transposed else 1]
        shape = (n_rows,) if n_columns == 1 else (n_rows, n_columns)
        return np.random.default_rng(0).standard_normal(shape).astype(self.theirs.dtype)

    def __str__(self) -> str:
        n_rows, n_columns = self.theirs.shape
        return f"{self.name}: {n_rows:,} x {n_columns:,}, {self.theirs.nnz:,} nonzeros, {self.theirs.dtype}"


def files(path: Path) -> Iterator[Path]:
    """Yield `path` itself, or the matrix files in the folder `path` in the order of their names."""
    if not path.exists():
        raise CommandError(
            f"there is no {str(path)!r}", hint=f"pass a file ({', '.join(SUFFIXES)}) or a folder of such files"
        )
    if not path.is_dir():
        yield path
        return
    found = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
    if not found:
        raise CommandError(f"no matrix in {str(path)!r}", hint=f"pass a folder with {', '.join(SUFFIXES)} files")
    yield from found


def add_common(parser: argparse.ArgumentParser, *, effort: str | None = None, budget_s: float | None = None) -> None:
    """Add the arguments of all measuring commands: dtype, threads, effort and budget."""
    parser.add_argument("--dtype", choices=DTYPES, help="convert the matrix to this dtype (default: keep its dtype)")
    add_count(parser, "--threads", "maximum number of threads per product")
    parser.add_argument(
        "--effort",
        choices=[e.value for e in Effort],
        default=effort,
        help="maximum work of tuning: off, estimate (cost model), measure (time a few candidates) or full (search)",
    )
    parser.add_argument(
        "--budget-s", type=read_seconds, default=budget_s, metavar="S", help="maximum seconds of one search"
    )


def add_columns(parser: argparse.ArgumentParser, *, default: str, note: str = "") -> None:
    """Add the argument for the numbers of columns of B."""
    parser.add_argument(
        "--columns",
        type=columns,
        default=columns(default),
        metavar="N,N",
        help=f"numbers of columns of B, separated by commas (default: {default}{note})",
    )


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the expected number of products, which has no default."""
    what = "expected number of products; steps of tuning that N products would not repay are skipped"
    add_count(parser, "--runs", what)


def _fault_of(path: Path) -> str | None:
    """Return the reason why the file `path` could not be written, such as "is a folder"; None if it can be."""
    target = Path(os.path.realpath(path))
    folder = target.parent
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.lstat(target)  # raises OSError for names that no file can have, which newer versions of Path suppress
    if path.is_dir():
        return "is a folder"
    if target.is_symlink():
        return "is a link that leads back to itself"
    if path.exists() and not path.is_file():  # a pipe or device, which is written to directly
        return None if os.access(path, os.W_OK) else "is not writable"
    if not folder.is_dir():
        return f"cannot be written: there is no folder {str(folder)!r}"
    if not os.access(folder, os.W_OK):
        return f"cannot be written: the folder {str(folder)!r} is not writable"
    return None


def writable(option: str, path: Path) -> None:
    """Raise CommandError if the file `path`, given by the command-line option `option`, could not be written."""
    try:
        fault = _fault_of(path)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        fault = f"cannot be written: {error}"
    if fault is not None:
        raise CommandError(f"{option} {str(path)!r} {fault}", hint=f"pass {option} with a file in an existing folder")


def folder_to_write(option: str, path: Path) -> None:
    """Create the folder `path`, given by the command-line option `option`; raise CommandError on failure."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{option} {str(path)!r} is not writable: {error}", hint="pass another folder") from None


def columns(text: str) -> list[int]:
    """Parse text such as ``1,32,256`` to numbers of columns (argparse type)."""
    return [at_least(1)(item) for item in text.split(",")]


def chosen_options(arguments: argparse.Namespace) -> AbstractContextManager[Options]:
    """Return a context manager that applies the options given on the command line."""
    names = ("threads", "effort", "budget_s", "hybrid")
    return options(**{name: value for name in names if (value := getattr(arguments, name, None)) is not None})


def add_count(
    parser: argparse._ActionsContainer, name: str, what: str, *, least: int = 1, default: int | None = None,
    metavar: str = "N",
) -> None:  # fmt: skip
    """Add an argument for an integer of at least `least`; its help is `what`, and the default if there is one."""
    help_text = what if default is None else f"{what} (default: {default:,})"
    parser.add_argument(name, type=at_least(least), default=default, metavar=metavar, help=help_text)


def at_least(least: int) -> Callable[[str], int]:
    """Return an argparse type that accepts integers of at least `least`."""

    def read(text: str) -> int:
        number = int(text) if text.strip().isdecimal() else -1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer >= {least}")
        return number

    return read


def read_seconds(text: str) -> float:
    """Parse a finite, non-negative number of seconds (argparse type)."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds >= 0")
    return number
