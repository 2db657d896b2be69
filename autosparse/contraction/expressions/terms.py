"""Parse sums of terms in einsum subscripts, such as ``"ij,jk - ik -> ik"``.

    expression = ["+" | "-"] term {("+" | "-") term} "->" output
    term       = factor {"," factor}

A factor is the subscripts of one operand, letters only, and is empty for a scalar. Each term is an einsum of its own:
indices that the output lacks are summed within the term.
"""

# No `from __future__ import annotations`: a NamedTuple would then compile each annotation string at import.

import string
from typing import NamedTuple

from autosparse.errors import EinsumError


class Term(NamedTuple):
    """Term of a sum: its sign (``+`` or ``-``) and the subscripts of its operands."""

    sign: str
    inputs: tuple[str, ...]

    def output(self, whole: str) -> str:
        """Return the indices of the output `whole` that the term has; it is constant along the others."""
        return "".join(index for index in whole if any(index in letters for letters in self.inputs))

    def text(self, whole: str) -> str:
        """Return the subscripts of the term as an einsum of its own, in a sum with the output `whole`."""
        return f"{','.join(self.inputs)}->{self.output(whole)}"


class SumOfTerms(NamedTuple):
    """Parsed sum: its terms in order, and the indices of the output."""

    terms: tuple[Term, ...]
    output: str

    @property
    def as_product(self) -> str:
        """Subscripts of one product of all operands, which a product and the sum check alike."""
        return f"{','.join(letters for term in self.terms for letters in term.inputs)}->{self.output}"

    def __str__(self) -> str:
        first, *others = self.terms
        text = ("-" if first.sign == "-" else "") + ",".join(first.inputs)
        return text + "".join(f" {sign} {','.join(inputs)}" for sign, inputs in others) + f" -> {self.output}"


def is_sum(text: str) -> bool:
    """Return whether subscripts with an arrow contain another sign; without an arrow, a sign is NumPy's error."""
    return "->" in text and ("+" in text or text.count("-") > text.count("->"))


def parse(text: str) -> SumOfTerms:
    """Return the sum that `text` describes; raise EinsumError, which shows the position of a fault."""
    end = text.index("->")
    for at in range(end + 2, len(text)):
        if text[at] not in string.ascii_letters + " ":
            raise _fault(f"invalid subscript {text[at]!r} in the output of a sum", text, at, hint="use letters only")
    terms: list[Term] = []
    sign, first = "+", 0
    for at in range(end + 1):
        if at < end and text[at] not in string.ascii_letters + " ,+-":
            hint = "use letters, ',' between factors, '+' and '-' between terms; compute a sum in parentheses first"
            raise _fault(f"invalid subscript {text[at]!r} in a sum of terms", text, at, hint=hint)
        if at < end and text[at] not in "+-":
            continue
        term = text[first:at].replace(" ", "")
        if term:
            terms.append(Term(sign, tuple(term.split(","))))
        elif terms or first or at == end:
            raise _fault("a term of the sum is missing", text, at, hint="write a term after each sign (',': a scalar)")
        if at < end:
            sign, first = text[at], at + 1
    return SumOfTerms(tuple(terms), text[end + 2 :].replace(" ", ""))


def _fault(what: str, text: str, at: int, *, hint: str) -> EinsumError:
    """Return the error for a fault at position `at` of the subscripts."""
    return EinsumError.refused(f"{what}, at position {at}", repr(text), " " * (at + 1) + "^", hint=hint)
