"""What the commands multiply: a matrix from a file as autosparse and as SciPy hold it, and dense right-hand sides."""

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

SUFFIXES: Final = (".npz", ".mtx", ".mtx.gz")
DTYPES: Final = ("float32", "float64", "complex64", "complex128")


@dataclass(frozen=True)
class Pair:
    """The same matrix twice: `ours` (autosparse), made as users make it, and `theirs` (SciPy), which stays alive."""

    name: str
    ours: Any  # Any: csr_array or csr_matrix of autosparse
    theirs: Any

    @classmethod
    def of(cls, matrix: Any, *, name: str, dtype: str | None = None) -> Pair:
        """`matrix` in CSR, as float64 where its dtype has no kernel and none was asked for."""
        kept = matrix.dtype.name if matrix.dtype.name in DTYPES else "float64"
        theirs = scipy.sparse.csr_array(matrix, dtype=dtype or kept, copy=True)
        return cls(name, autosparse.csr(theirs), theirs)

    @classmethod
    def read(cls, path: Path, dtype: str | None = None) -> Pair:
        """The matrix in a file. CommandError for what is neither a file nor absent: reading a pipe would never end."""
        if path.exists() and not path.is_file():
            raise CommandError(f"{str(path)!r} is not a file", cure=f"a file that ends in {', '.join(SUFFIXES)}")
        matrix = autosparse.csr(path)
        if len(matrix.shape) != 2:
            what = f"{str(path)!r} holds an array of shape {matrix.shape}, not a matrix"
            raise CommandError(what, cure="a file with a matrix, of two dimensions")
        return cls.of(matrix, name=path.name, dtype=dtype)

    def dense(self, n_columns: int, *, transposed: bool = False) -> Any:
        """A vector (one column) or matrix to multiply with: normal deviates of a fixed seed, the matrix's dtype."""
        n_rows = self.theirs.shape[0 if transposed else 1]
        shape = (n_rows,) if n_columns == 1 else (n_rows, n_columns)
        return np.random.default_rng(0).standard_normal(shape).astype(self.theirs.dtype)

    def __str__(self) -> str:
        n_rows, n_columns = self.theirs.shape
        return f"{self.name}: {n_rows:,} x {n_columns:,}, {self.theirs.nnz:,} nonzeros, {self.theirs.dtype}"


def files(path: Path) -> Iterator[Path]:
    """`path` itself, or the matrix files in the folder `path`, by name."""
    if not path.exists():
        raise CommandError(
            f"there is no {str(path)!r}", cure=f"a file ({', '.join(SUFFIXES)}) or a folder of such files"
        )
    if not path.is_dir():
        yield path
        return
    found = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
    if not found:
        raise CommandError(f"no matrix in {str(path)!r}", cure=f"files that end in {', '.join(SUFFIXES)}")
    yield from found


def add_common(parser: argparse.ArgumentParser, *, effort: str | None = None, budget_s: float | None = None) -> None:
    """Arguments that every measuring command has."""
    parser.add_argument(
        "--dtype", choices=DTYPES, help="convert the matrix to this dtype first (default: keep its dtype)"
    )
    parser.add_argument("--threads", type=at_least(1), metavar="N", help="largest number of threads")
    parser.add_argument(
        "--effort",
        choices=[e.value for e in Effort],
        default=effort,
        help="how far tuning may go: off, estimate (cost model), measure (a few candidates) or full (search)",
    )
    parser.add_argument(
        "--budget-s", type=read_seconds, default=budget_s, metavar="S", help="largest number of seconds for one search"
    )


def add_columns(parser: argparse.ArgumentParser, *, default: str, note: str = "") -> None:
    """The argument of commands that multiply by B: its widths."""
    parser.add_argument(
        "--columns",
        type=columns,
        default=columns(default),
        metavar="N,N",
        help=f"numbers of columns of B, separated by commas (default: {default}{note})",
    )


def add_runs(parser: argparse.ArgumentParser) -> None:
    """The argument of commands that tune: how many products there will be, which nobody assumes for the user."""
    parser.add_argument(
        "--runs",
        type=at_least(1),
        metavar="N",
        help="expected number of products; steps of tuning that N products would not repay are skipped",
    )


def _fault_of(path: Path) -> str | None:
    """Why the file `path` could not be written, or None."""
    target = Path(os.path.realpath(path))
    folder = target.parent
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.lstat(target)  # of a name that no file can have OSError, which newer versions of Path keep to themselves
    if path.is_dir():
        return "is a folder"
    if target.is_symlink():
        return "is a link that leads back to itself"
    if path.exists() and not path.is_file():  # a pipe or a device: it is written to as it is
        return None if os.access(path, os.W_OK) else "is not yours to write"
    if not folder.is_dir():
        return f"cannot be written: there is no folder {str(folder)!r}"
    if not os.access(folder, os.W_OK):
        return f"cannot be written: the folder {str(folder)!r} is not yours to write"
    return None


def writable(option: str, path: Path) -> None:
    """CommandError, before any work is done, where the file `path` that `option` names could not be written."""
    try:
        fault = _fault_of(path)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        fault = f"cannot be written: {error}"
    if fault is not None:
        raise CommandError(f"{option} {str(path)!r} {fault}", cure=f"{option} with a file in a folder that there is")


def folder_to_write(option: str, path: Path) -> None:
    """Make the folder `path` that `option` names, before any work is done; CommandError where that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{option} {str(path)!r} is no folder to write to: {error}", cure="another folder") from None


def folder_to_read(option: str, path: Path | None) -> None:
    """CommandError where `path`, if given, is no folder."""
    if path is not None and not path.is_dir():
        raise CommandError(f"{option}: there is no folder {str(path)!r}", cure=f"{option} with a folder that there is")


def columns(text: str) -> list[int]:
    """`1,32,256` as numbers (argparse type)."""
    return [at_least(1)(item) for item in text.split(",")]


def chosen_options(arguments: argparse.Namespace) -> AbstractContextManager[Options]:
    """The options named on the command line, for a ``with`` block."""
    names = ("threads", "effort", "budget_s", "hybrid")
    return options(**{name: value for name in names if (value := getattr(arguments, name, None)) is not None})


def at_least(least: int) -> Callable[[str], int]:
    """Reads an integer of an argument; what is none, or below `least`, is an error of the command line."""

    def read(text: str) -> int:
        number = int(text) if text.strip().isdecimal() else -1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer >= {least}")
        return number

    return read


def read_seconds(text: str) -> float:
    """Reads seconds of an argument: not negative, and finite."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds >= 0")
    return number
