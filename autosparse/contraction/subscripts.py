"""Parse the subscripts of an einsum and check them against the operands' shapes, with the rules of ``np.einsum``."""

# No `from __future__ import annotations`: a NamedTuple would then compile each annotation string at import.

import functools
import operator
import string
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from autosparse.core.dtypes import Sign
from autosparse.errors import EinsumError, InputTypeError
from autosparse.interop.einsum_operands import operands as known_operands

LETTERS: Final = string.ascii_uppercase + string.ascii_lowercase
"""Letters for the integers 0 to 51 in sublists, in the order in which NumPy sorts the indices of an implicit output."""


class Subscripts(NamedTuple):
    """Parsed subscripts: letters of each operand and of the output, the extent of each index, and the semiring."""

    inputs: tuple[str, ...]
    output: str
    extents: dict[str, int]
    semiring: str = "plus_times"

    def __str__(self) -> str:
        return f"{','.join(self.inputs)}->{self.output}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(self.extents[index] for index in self.output)


def interleaved(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Return subscripts text and operands from ``(text, *operands)`` or ``(operand, sublist, ..., [sublist])``."""
    if len(arguments) == 1 and not isinstance(arguments[0], str | bytes):
        raise EinsumError.refused("must provide at least an operand and a subscripts list to einsum", "got an operand")
    if len(arguments) < 2:
        raise EinsumError.refused(
            "must specify the einstein sum subscripts string and at least one operand, "
            "or at least one operand and its corresponding subscripts list"
        )
    if isinstance(arguments[0], str):
        return arguments[0], known_operands(arguments[1:])
    if isinstance(arguments[0], bytes):  # NumPy accepts bytes, too
        return arguments[0].decode(), known_operands(arguments[1:])
    operands, sublists = arguments[0:-1:2], arguments[1::2]
    text = ",".join(map(_letters, sublists))
    if len(arguments) % 2:
        text += f"->{_letters(arguments[-1])}"
    return text, known_operands(operands)


def _letters(sublist: Any) -> str:
    fault = "the subscripts for each operand must be a list or a tuple"
    try:
        entries = list(sublist)
        fault = "each subscript must be either an integer or an ellipsis"
        return "".join("..." if entry is Ellipsis else LETTERS[_number(entry)] for entry in entries)
    except TypeError:
        hint = "pass a list of numbers from 0 to 51 after each operand"
        raise InputTypeError.refused(fault, given=f"{sublist!r:.80}", hint=hint) from None


def _number(entry: Any) -> int:
    number = operator.index(entry)
    if not 0 <= number < len(LETTERS):
        raise EinsumError.refused(
            "subscript is not within the valid range [0, 52)", f"got {number}", hint="use numbers from 0 to 51"
        )
    return number


def read(text: str, shapes: Sequence[tuple[int, ...]]) -> Subscripts:
    """Parse subscripts for operands of these shapes; raise EinsumError with NumPy's message on a mismatch."""
    try:
        return _read(text, tuple(shapes))
    except EinsumError as err:
        facts = f"Subscripts {text!r}, operands of shapes {', '.join(map(str, shapes))}."
        raise err.worded(_numpys_words(text, shapes), facts) from None


@functools.lru_cache(maxsize=1024)
def _read(text: str, shapes: tuple[tuple[int, ...], ...]) -> Subscripts:
    if any("." in part.replace("...", "", 1) for part in text.replace("->", ",").split(",")):
        raise EinsumError.refused(
            "einstein sum subscripts string contains a '.' that is not part of an ellipsis ('...')",
            hint="write three dots, once in an operand and once in the output",
        )
    _check_signs(text)
    left, arrow, right = text.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(shapes):
        more = "more" if len(shapes) > len(inputs) else "fewer"
        raise EinsumError.refused(
            f"{more} operands provided to einstein sum function than specified in the subscripts string",
            f"Number of operands: {len(shapes)}; of subscripts: {len(inputs)}.",
            hint="write subscripts for each operand, with commas between them",
        )
    for index in "".join((*inputs, right)).replace("...", ""):
        if index not in string.ascii_letters:
            raise EinsumError.refused(
                f"invalid subscript {index!r} in einstein sum subscripts string",
                hint="use letters from a to z or A to Z",
            )
    inputs, dots = _without_dots(inputs, shapes)
    letters = "".join(inputs)
    if arrow and dots and "..." not in right:
        raise EinsumError.refused(
            "output has more dimensions than subscripts given in einstein sum, but no '...' ellipsis provided",
            f"'...' stands for {len(dots)} dimensions, which the output {right!r} does not have.",
            hint="write '...' in the output, or letters for the dimensions that are summed over",
        )
    output = right.replace("...", dots) if arrow else dots + "".join(
        index for index in sorted(set(letters) - set(dots)) if letters.count(index) == 1
    )  # fmt: skip
    _check_output(output, letters)
    names = str.maketrans(dict(zip(dots, (one for one in string.ascii_letters if one not in letters), strict=False)))
    inputs = [one.translate(names) for one in inputs]
    return Subscripts(tuple(inputs), output.translate(names), _extents(inputs, shapes))


def _check_signs(text: str) -> None:
    """Raise EinsumError if subscripts without an arrow contain a sign."""
    sign = next((at for at, letter in enumerate(text) if letter in "+-"), -1)
    if sign >= 0 and "->" not in text:
        raise EinsumError.refused(
            f"invalid subscript {text[sign]!r} in einstein sum subscripts string",
            f"The sign at position {sign} makes a sum of terms, which has no output subscripts.",
            hint="write '->' and the output's subscripts",
        )


def _check_output(output: str, letters: str) -> None:
    for index in output:
        if index not in letters:
            raise EinsumError.refused(
                f"einstein sum subscripts string included output subscript {index!r} which never appeared in an input",
                f"The inputs have {', '.join(map(repr, dict.fromkeys(letters))) or 'no subscripts'}.",
                hint="write an output with subscripts of the inputs only",
            )
        if output.count(index) > 1:
            raise EinsumError.refused(
                f"einstein sum subscripts string includes output subscript {index!r} multiple times",
                f"{index!r} comes {output.count(index)} times.",
                hint="write each subscript once in the output",
            )


def _without_dots(inputs: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """Return the inputs with each ``...`` replaced by a digit per dimension, and the longest of the replacements."""
    found: list[str] = []
    longest = ""
    for number, (subscript, shape) in enumerate(zip(inputs, shapes, strict=True)):
        n_letters = len(subscript.replace("...", ""))
        n_dots = len(shape) - n_letters
        if n_dots < 0 or (n_dots and "..." not in subscript):
            raise EinsumError.refused(
                "subscripts and dimensions of an operand disagree",
                f"Operand {number} has {len(shape)} dimensions, {subscript!r} has {n_letters} subscripts.",
                hint="write a letter for each dimension, or '...' for dimensions without a letter",
            )
        if n_dots > len(string.digits):
            raise EinsumError.refused(
                "too many dimensions in '...'",
                f"It would stand for {n_dots} of operand {number}, and can for {len(string.digits)}.",
                hint="write letters for some of them",
            )
        dots = string.digits[::-1][len(string.digits) - n_dots :]
        longest = max(longest, dots, key=len)
        found.append(subscript.replace("...", dots))
    return found, longest


def _extents(inputs: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for number, (subscript, shape) in enumerate(zip(inputs, shapes, strict=True)):
        own: dict[str, int] = {}
        for index, extent in zip(subscript, shape, strict=True):
            known = own.setdefault(index, extent)
            if known != extent and not (1 in (known, extent) and _ones_meet_others()):
                raise EinsumError.refused(
                    f"dimensions for collapsing index {index!r} don't match ({known} != {extent})",
                    f"{index!r} has the extents {known} and {extent} of operand {number}.",
                    hint="use two letters, or an operand whose extents agree",
                )
            own[index] = max(known, extent) if 1 in (known, extent) and known * extent else extent
        for index, extent in own.items():
            known = extents.setdefault(index, extent)
            if known != extent and 1 not in (known, extent):
                raise EinsumError.refused(
                    "operands could not be broadcast together",
                    f"{index!r} has extent {known}, and {extent} in operand {number}.",
                    hint="use two letters, or operands whose extents agree",
                )
            if known == 1:
                extents[index] = extent
    return extents


@functools.cache
def _ones_meet_others() -> bool:
    """Return whether this NumPy version lets an extent of 1 broadcast when one operand repeats the index (``"ii"``)."""
    return _numpys_words("ii->i", [(1, 2)]) is None


def _numpys_words(text: str, shapes: Sequence[tuple[int, ...]]) -> str | None:
    """Return NumPy's error message for operands of these shapes, or None; NumPy checks shapes before it computes."""
    if len(shapes) == 0:
        return None
    zeros = [np.broadcast_to(Sign(0), shape) for shape in shapes]
    try:
        np.einsum(text, *zeros)
    except ValueError as err:
        return str(err)
    return None
