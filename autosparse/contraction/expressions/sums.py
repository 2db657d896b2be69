"""Request of a sum of einsum terms: checked terms and operands, and the sum as an array or by merging rows."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from autosparse import light
from autosparse._native import memory
from autosparse.config import get_options
from autosparse.contraction import results
from autosparse.contraction.expressions.request import EinsumRequest
from autosparse.contraction.expressions.semirings import named
from autosparse.contraction.expressions.terms import Term, parse
from autosparse.contraction.kinds import AnyArray, OperandKind, arrays_of, as_array, cast, is_sparse, is_tensor
from autosparse.contraction.routes import paid
from autosparse.contraction.routes.elementwise import by_rows, of_arrays
from autosparse.contraction.subscripts import Subscripts, read
from autosparse.errors import EinsumError, InputTypeError


def einsum_of_sum(text: str, operands: Sequence[Any], format: str | None, semiring: str) -> Any:
    """Return the sum of the terms of `text`, in `format` or the default one."""
    request = SumRequest(text, operands, format, semiring)
    result = request.sparse() if request.is_sparse else request.dense()
    return results.converted(result, request.format, request.semiring)


class SumRequest:
    """Checked sum of terms with its operands in their common dtype, and the format of its result."""

    def __init__(self, text: str, given: Sequence[Any], format: str | None, semiring: str) -> None:
        """Check text, operands and semiring; raise EinsumError, a ValueError, if they do not fit together."""
        self.expression, self.semiring = parse(text), named(semiring)
        operands = tuple(map(as_array, given))
        shapes = [tuple(one.shape) for one in operands]
        whole = read(self.expression.as_product, shapes)
        self.subscripts = Subscripts(whole.inputs, whole.output, whole.extents, self.semiring.name)
        common = np.result_type(*(one.dtype for one in operands))
        self.dtype = self.semiring.dtype(common)
        self._check_signs()
        self.operands = tuple(one if one.dtype == common else cast(one, common, "unsafe") for one in operands)
        covering = [self._covers(*each) for each in self.terms]
        if format is None:
            output = whole.output
            format = results.default_format(output, set(output) if all(covering) else set(), self.dtype)
        results.check_format(format, len(whole.output), self.dtype)
        self.format = format
        self.is_sparse = all(covering) and format != "dense"

    def _check_signs(self) -> None:
        if all(term.sign == "+" for term in self.expression.terms):
            return
        if not self.semiring.is_ordinary:
            raise EinsumError.refused(
                f"semiring {self.semiring.name!r} has no differences", f"Terms: {self.expression}.", hint="use '+' only"
            )
        if self.dtype.kind == "b":
            raise InputTypeError.refused(
                "numpy boolean subtract, the `-` operator, is not supported", given="booleans", hint="use integers"
            )

    @property
    def how_added(self) -> str:
        """Text that says how the terms are added."""
        n = len(self.expression.terms)
        return f"the union of the entries of {n} terms" if self.is_sparse else f"{n} dense arrays, added by NumPy"

    @property
    def terms(self) -> list[tuple[Term, tuple[Any, ...]]]:
        """Terms, each with its operands."""
        found, at = [], 0
        for term in self.expression.terms:
            found.append((term, self.operands[at : at + len(term.inputs)]))
            at += len(term.inputs)
        return found

    def _covers(self, term: Term, operands: Sequence[Any]) -> bool:
        """Return whether sparse operands of the term have each index of the output, in its full extent."""
        shape = self.subscripts.extents
        pairs = [
            (index, extent)
            for letters, one in zip(term.inputs, operands, strict=True) if is_sparse(one)
            for index, extent in zip(letters, one.shape, strict=True)
        ]  # fmt: skip
        return {index for index, extent in pairs if extent == shape[index]} >= set(self.expression.output)

    def request(self, term: Term, operands: Sequence[Any], format: str | None) -> EinsumRequest:
        """Return the einsum of one term, whose output are the indices of the whole output that it has."""
        return EinsumRequest(term.text(self.expression.output), operands, format, self.semiring.name)

    def dense(self) -> AnyArray:
        """Return the sum as an array; terms without an index of the output are repeated along it."""
        output, how = self.expression.output, self.semiring
        total = how.filled(self.subscripts.shape, self.dtype)
        for term, operands in self.terms:
            value = np.asarray(self.request(term, operands, "dense").result())
            own = term.output(output)
            value = np.expand_dims(value, tuple(mode for mode, index in enumerate(output) if index not in own))
            combine = np.subtract if term.sign == "-" else how.add
            combine(total, value.astype(self.dtype, copy=False), out=total)
        return total

    def sparse(self) -> Any:
        """Return the sum with an entry wherever a term has one, in the first calls by merging rows where possible."""
        account = paid.account_of((str(self.expression), *map(OperandKind.of, self.operands)))
        if not (account.is_paid or paid.is_sure() or get_options().deterministic):
            made = account.timed(self.merged)
            if made is not None:
                return made
        unions = importlib.import_module("autosparse.contraction.expressions.unions")  # not needed for merging
        return unions.union(self)

    def merged(self, computed: Mapping[int, Any] = MappingProxyType({})) -> Any:
        """Return the sum as CSR by merging the rows of two terms at a time; None where the C runtime cannot.

        `computed`: matrices of terms by their numbers.
        """
        runtime, terms = light.runtime(), self.terms
        is_plain = self.semiring.is_ordinary and self.dtype.char in light.KERNEL_TYPES and len(terms) > 1
        if runtime is None or not is_plain or len(self.expression.output) != 2 or any(map(is_tensor, self.operands)):
            return None
        parts = [
            arrays_of(by_rows(computed[n] if n in computed else self._matrix(*each))) for n, each in enumerate(terms)
        ]
        index = np.result_type(*(array.dtype for part in parts for array in part[:2]))
        if sum(part[1].size for part in parts) > np.iinfo(index).max:
            return None
        first, *others = ((*(array.astype(index, copy=False) for array in part[:2]), part[2]) for part in parts)
        total = (*first[:2], -first[2]) if terms[0][0].sign == "-" else first
        for (term, _), part in zip(terms[1:], others, strict=True):
            total = runtime.sum_of(term.sign, (total, part), memory.empty_output, get_options().threads or 0)
            if total is None:
                return None
        return of_arrays(self.subscripts.shape, total)

    def _matrix(self, term: Term, operands: Sequence[Any]) -> Any:
        """Return a term as a sparse matrix."""
        if term.inputs == (self.expression.output,):
            return operands[0]
        return self.request(term, operands, "csr").result()
