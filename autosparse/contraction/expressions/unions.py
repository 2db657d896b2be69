"""Evaluate sums and differences of einsum terms.

Sparse terms without summed indices are fused into one kernel that visits the union of their entries, once calls have
paid for its compilation. Before that, and for all other terms, each term is an einsum of its own, and the entries of
all terms are sorted together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from autosparse.config import get_options
from autosparse.contraction.candidates import name_of
from autosparse.contraction.choice import large
from autosparse.contraction.cin.nodes import Assign, Expression, Loop, OperatorCall, TensorAccess
from autosparse.contraction.expressions.sums import SumRequest
from autosparse.contraction.expressions.terms import Term
from autosparse.contraction.kinds import AnyArray, entries
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import Operand, Sparse, distinct, prepare
from autosparse.contraction.results import default_format
from autosparse.contraction.routes import paid
from autosparse.contraction.routes.patterns import key_of
from autosparse.contraction.subscripts import Subscripts
from autosparse.errors import BuildError
from autosparse.notices import FallbackWarning, warn_once
from autosparse.ops import EINSUM

MAX_OPERANDS: Final = 8
"""Maximum number of operands of one kernel; a loop over a union tests each of them at each coordinate."""


@dataclass(frozen=True, eq=False, slots=True)
class Factors:
    """Terms whose factors have indices of the output only, each once; `operands` are the factors of all terms."""

    terms: tuple[Term, ...]
    operands: list[Operand]
    subscripts: Subscripts

    @property
    def has_kernel(self) -> bool:
        """Return whether one kernel can add the terms: each has all indices in sparse factors, in one C type."""
        from autosparse.contraction.lower.emit import C_TYPES

        dtypes = {one.dtype if isinstance(one, Sparse) else one.array.dtype for one in self.operands}
        is_small = len(self.terms) >= 2 and len(self.operands) <= MAX_OPERANDS
        return is_small and len(dtypes) == 1 and dtypes.pop().name in C_TYPES and all(map(self._covers, self.parts()))

    def parts(self) -> list[list[tuple[int, Operand]]]:
        """Return the numbered operands of each term."""
        numbered = list(enumerate(self.operands))
        found, at = [], 0
        for term in self.terms:
            found.append(numbered[at : at + len(term.inputs)])
            at += len(term.inputs)
        return found

    def _covers(self, part: Sequence[tuple[int, Operand]]) -> bool:
        reached = {index for _, one in part if isinstance(one, Sparse) for index in one.indices}
        return reached == set(self.subscripts.output) and all(
            one.indices or not isinstance(one, Sparse) for _, one in part
        )

    def plan(self) -> EinsumPlan:
        """Return the plan of the kernel, whose loops visit the union of the terms' entries in the output's order."""
        signed: list[Expression] = []
        accesses = [TensorAccess(name_of(n), tuple(one.indices)) for n, one in enumerate(self.operands)]
        for term, part in zip(self.terms, self.parts(), strict=True):
            reads = tuple(accesses[n] for n, _ in part)
            product: Expression = OperatorCall("*", reads) if len(reads) > 1 else reads[0]
            signed.append(OperatorCall("-", (product,)) if term.sign == "-" else product)
        output = self.subscripts.output
        result = TensorAccess("R", tuple(output))
        sparse = {n for n, one in enumerate(self.operands) if isinstance(one, Sparse)}
        return EinsumPlan(
            Loop(tuple(output), Assign(result, "+", OperatorCall("+", tuple(signed)))),
            {accesses[n]: "s" * len(accesses[n].indices) for n in sparse}, result, False,
            tuple(name_of(n) for n in sorted(sparse)),
            tuple(access for n, access in enumerate(accesses) if n not in sparse),
            output, frozenset(), large(self.subscripts.extents), self.subscripts.semiring,
        )  # fmt: skip


def union(request: SumRequest) -> Any:
    """Return the sum of a request whose terms are sparse, with an entry wherever a term has one."""
    factors, computed = _factors(request)
    if not factors.has_kernel:
        return _joined(request, computed)
    if paid.is_sure() or get_options().deterministic:
        return _by_kernel(request, factors, computed)
    key = key_of(factors.operands, factors.subscripts, is_dense_output=False)
    account = paid.account_of((str(request.expression), key))
    if account.prefers_kernel:
        return account.tried(lambda: _by_kernel(request, factors, computed))
    result = account.timed(lambda: _joined(request, computed))
    if account.is_paid:
        account.compile_in_background(lambda: _compiled(factors))
    return result


def _factors(request: SumRequest) -> tuple[Factors, dict[int, Any]]:
    """Return the terms with factors to fuse, and the results, by the terms' numbers, of terms with summed indices."""
    output = request.expression.output
    terms: list[Term] = []
    arguments: list[Any] = []
    computed: dict[int, Any] = {}
    for n, (term, given) in enumerate(request.terms):
        if all(set(letters) <= set(output) and len(set(letters)) == len(letters) for letters in term.inputs):
            terms.append(term)
            arguments += given
            continue
        computed[n] = request.request(term, given, _format(request)).result()
        terms.append(Term(term.sign, (output,)))
        arguments.append(computed[n])
    inputs = tuple(letters for term in terms for letters in term.inputs)
    subscripts = Subscripts(inputs, output, request.subscripts.extents, request.semiring.name)
    return Factors(tuple(terms), prepare(arguments, subscripts, request.dtype), subscripts), computed


def _format(request: SumRequest) -> str:
    """Return the sparse format in which terms are computed."""
    output = request.expression.output
    return default_format(output, set(output), request.dtype) if len(output) > 1 else "tensor"


def _joined(request: SumRequest, computed: dict[int, Any]) -> Any:
    """Return the sum by merging rows, else by sorting the entries of all terms together."""
    merged = request.merged(computed)
    if merged is not None:
        return merged
    found: list[tuple[AnyArray, AnyArray]] = []
    for n, (term, given) in enumerate(request.terms):
        result = computed.get(n)
        if result is None:
            result = request.request(term, given, _format(request)).result()
        coords, values = entries(result)
        found.append((coords, _signed(values.astype(request.dtype, copy=False), term.sign)))
    coords, values = (np.concatenate(one, axis=-1) for one in zip(*found, strict=True))
    return distinct(request.expression.output, coords, values, request.subscripts.shape, request.semiring)


def _signed(values: AnyArray, sign: str) -> AnyArray:
    return np.negative(values) if sign == "-" else values


def _compiled(factors: Factors) -> Any:
    from autosparse.contraction.lower.kernel import compiled

    named_operands = {name_of(n): one for n, one in enumerate(factors.operands)}
    return compiled(factors.plan(), named_operands, factors.subscripts.extents)


def _by_kernel(request: SumRequest, factors: Factors, computed: dict[int, Any]) -> Any:
    """Return the sum of the terms by one compiled kernel, or by sorting entries if the kernel cannot be compiled."""
    from autosparse.contraction.lower.kernel import execute

    try:
        program = _compiled(factors)
    except BuildError as err:
        warn_once(FallbackWarning, EINSUM.name, f"einsum {request.expression}: NumPy sorts the entries, because {err}")
        return _joined(request, computed)
    operands = {name_of(n): one for n, one in enumerate(factors.operands)}
    n_entries = sum(one.nnz for one in factors.operands if isinstance(one, Sparse))
    result = execute(program, operands, factors.subscripts.extents, tasks=float(n_entries))
    assert isinstance(result, Sparse)
    return result
