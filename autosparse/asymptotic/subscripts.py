"""Subscripts of an einsum, read and checked against the operands' shapes as ``np.einsum`` does."""

from __future__ import annotations

import functools
import operator
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from autosparse.errors import EinsumError, InputTypeError

LETTERS: Final = string.ascii_uppercase + string.ascii_lowercase
"""Of the numbers in index lists: in the order in which an output that is not given lists them."""


@dataclass(frozen=True, slots=True)
class Subscripts:
    """Index letters of each operand and of the output, and the extent of each index."""

    inputs: tuple[str, ...]
    output: str
    extents: dict[str, int]

    def __str__(self) -> str:
        return f"{','.join(self.inputs)}->{self.output}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(self.extents[index] for index in self.output)


def interleaved(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Subscripts as text, and the operands: from ``(text, *operands)`` or ``(operand, sublist, ..., [sublist])``."""
    if len(arguments) == 1 and not isinstance(arguments[0], str):
        raise EinsumError.refused("must provide at least an operand and a subscripts list to einsum", "got an operand")
    if len(arguments) < 2:
        raise EinsumError.refused(
            "must specify the einstein sum subscripts string and at least one operand, "
            "or at least one operand and its corresponding subscripts list"
        )
    if isinstance(arguments[0], str):
        return arguments[0], tuple(arguments[1:])
    operands, sublists = arguments[0:-1:2], arguments[1::2]
    text = ",".join(map(_letters, sublists))
    if len(arguments) % 2:
        text += f"->{_letters(arguments[-1])}"
    return text, tuple(operands)


def _letters(sublist: Any) -> str:
    fault = "the subscripts for each operand must be a list or a tuple"
    try:
        entries = list(sublist)
        fault = "each subscript must be either an integer or an ellipsis"
        return "".join("..." if entry is Ellipsis else LETTERS[_number(entry)] for entry in entries)
    except TypeError:
        cure = "a list of numbers from 0 to 51 after each operand"
        raise InputTypeError.refused(fault, given=f"{sublist!r:.80}", cure=cure) from None


def _number(entry: Any) -> int:
    number = operator.index(entry)
    if not 0 <= number < len(LETTERS):
        raise EinsumError.refused("subscript is not within the valid range [0, 52)", f"got {number}")
    return number


def read(text: str, shapes: Sequence[tuple[int, ...]]) -> Subscripts:
    """The subscripts of operands of these shapes; EinsumError (ValueError) in NumPy's words where they do not fit."""
    try:
        return _read(text, tuple(shapes))
    except EinsumError as err:
        raise EinsumError(_numpys_words(text, shapes) or str(err)) from None


@functools.lru_cache(maxsize=1024)
def _read(text: str, shapes: tuple[tuple[int, ...], ...]) -> Subscripts:
    if "." in text.replace("...", ""):
        raise EinsumError.refused(
            "einstein sum subscripts string contains a '.' that is not part of an ellipsis ('...')"
        )
    left, arrow, right = text.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(shapes):
        more = "more" if len(shapes) > len(inputs) else "fewer"
        raise EinsumError.refused(
            f"{more} operands provided to einstein sum function than specified in the subscripts string",
            f"{len(shapes)} operands, {len(inputs)} in {text!r}",
        )
    inputs, dots = _without_dots(inputs, shapes)
    letters = "".join(inputs)
    output = right.replace("...", dots) if arrow else dots + "".join(
        index for index in sorted(set(letters) - set(dots)) if letters.count(index) == 1
    )  # fmt: skip
    for index in letters + output:
        if index not in string.ascii_letters and index not in dots:
            raise EinsumError.refused(f"invalid subscript {index!r} in einstein sum subscripts string", f"in {text!r}")
    for index in output:
        if output.count(index) > 1 or index not in letters:
            raise EinsumError.refused(f"output subscript {index!r} is repeated, or in no input", f"in {text!r}")
    return Subscripts(tuple(inputs), output, _extents(inputs, shapes))


def _without_dots(inputs: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """Inputs with letters of their own for what ``...`` stands for (digits cannot clash with the user's)."""
    found: list[str] = []
    longest = ""
    for subscript, shape in zip(inputs, shapes, strict=True):
        n_dots = len(shape) - len(subscript.replace("...", ""))
        if n_dots < 0 or (n_dots and "..." not in subscript):
            raise EinsumError.refused(
                "subscripts and dimensions of an operand disagree", f"{subscript!r} for an operand of shape {shape}"
            )
        if n_dots > len(string.digits):
            raise EinsumError.refused("too many dimensions in '...'", f"shape {shape}")
        dots = string.digits[::-1][len(string.digits) - n_dots :]
        longest = max(longest, dots, key=len)
        found.append(subscript.replace("...", dots))
    return found, longest


def _extents(inputs: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for subscript, shape in zip(inputs, shapes, strict=True):
        own: dict[str, int] = {}
        for index, extent in zip(subscript, shape, strict=True):
            known = own.setdefault(index, extent)
            if known != extent and 1 not in (known, extent):
                raise EinsumError.refused(
                    f"dimensions for collapsing index {index!r} don't match ({known} != {extent})"
                )
            own[index] = max(known, extent) if 1 in (known, extent) and known * extent else extent
        for index, extent in own.items():
            known = extents.setdefault(index, extent)
            if known != extent and 1 not in (known, extent):
                raise EinsumError.refused(
                    "operands could not be broadcast together", f"{index!r} has extents {known} and {extent}"
                )
            if known == 1:
                extents[index] = extent
    return extents


def _numpys_words(text: str, shapes: Sequence[tuple[int, ...]]) -> str | None:
    """What NumPy says of operands of these shapes; it complains before it computes."""
    if len(shapes) == 0:
        return None
    zeros = [np.broadcast_to(np.int8(0), shape) for shape in shapes]
    try:
        np.einsum(text, *zeros)
    except ValueError as err:
        facts = ", ".join(map(str, shapes))
        return f"{err}\n  Subscripts {text!r}, operands of shapes {facts}."
    return None
