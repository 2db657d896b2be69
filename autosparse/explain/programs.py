"""Explain an einsum: its programs by estimated cost, and the chosen program's loops as C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from scipy.sparse import issparse

from autosparse.contraction.choice import RankedPrograms, choose, is_computable
from autosparse.contraction.expressions.request import EinsumRequest
from autosparse.contraction.expressions.semirings import PLUS_TIMES, Semiring, named
from autosparse.contraction.expressions.sums import SumRequest
from autosparse.contraction.expressions.terms import is_sum
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import Operand, Sparse, prepare
from autosparse.contraction.path import is_short
from autosparse.contraction.race import PROGRAM, candidate_of
from autosparse.contraction.remembered import RememberedProgram, peek
from autosparse.contraction.routes.existing import PRODUCT, Route, ours
from autosparse.contraction.routes.paid import COMPILE_S, ExpressionCalls
from autosparse.contraction.routes.triangles import triangles
from autosparse.contraction.serving import account_of, takes
from autosparse.contraction.subscripts import Subscripts, interleaved
from autosparse.contraction.surface import loops
from autosparse.core.plan import Candidate, Plan
from autosparse.core.solver import DEFAULT, Choice
from autosparse.explain.candidates import candidates_section
from autosparse.explain.program_explanation import ProgramExplanation
from autosparse.explain.section import Section
from autosparse.explain.sparse_products import sections_of_operands
from autosparse.explain.units import seconds
from autosparse.ops import EINSUM


def explain_einsum(*arguments: Any, format: str | None = None, semiring: str = PLUS_TIMES) -> ProgramExplanation:
    """Explain an `einsum` with these arguments, with its errors; compile, run and remember nothing."""
    text, operands = interleaved(arguments)
    if is_sum(text):
        return _of_sum(SumRequest(text, operands, format, semiring))
    return _of_product(EinsumRequest(text, operands, format, semiring))


def _of_sum(request: SumRequest) -> ProgramExplanation:
    """Explain a sum: how terms are added, and each term."""
    title = f"{EINSUM.name}: {request.expression}"
    facts = [("computes", f"a sum of {len(request.expression.terms)} terms"), *_semiring(request.semiring)]
    if request.is_sparse:
        facts.append(
            ("kernel", "terms without summed indices are fused into one, once calls have paid for compiling it")
        )
    sections = [_section(title, facts, request.how_added)]
    for term, given in request.terms:
        sections += _of_product(request.request(term, given, None)).sections
    return ProgramExplanation(title, tuple(sections))


def _semiring(semiring: Semiring) -> list[tuple[str, str]]:
    return [] if semiring.is_ordinary else [("semiring", f"{semiring.name}: {semiring.says}")]


def _of_product(request: EinsumRequest) -> ProgramExplanation:
    """Explain an einsum of one term."""
    known = request.signature
    title = f"{EINSUM.name}: {known.subscripts}"
    extents = ", ".join(f"{index} < {extent}" for index, extent in known.subscripts.extents.items())
    semiring = named(known.subscripts.semiring)
    facts = [("computes", EINSUM.formula), *_semiring(semiring), ("indices", extents)]
    if not known.is_contracted:
        return ProgramExplanation(title, (_section(title, facts, f"{EINSUM.library}: no operand is sparse"),))
    begun = "first calls are joins in NumPy"
    if known.direct is not None:
        route, given = known.direct.route, known.direct.arguments(request.operands)
        if takes(known.direct, given):
            account = account_of(given, known.subscripts)
            if not route.begins or not account.prefers_kernel:
                section = _section(title, facts + _calls(route, account), route.says)
                return ProgramExplanation(title, (section, *_rivals(route, account), *_solvers(route, given)))
            begun = f"{route.says}, at first"
    prepared = prepare(request.operands, known.subscripts, known.dtype)
    subscripts = known.subscripts
    if not any(isinstance(operand, Sparse) for operand in prepared):
        return ProgramExplanation(title, (_section(title, facts, f"NumPy, by blocks: the {semiring.says}"),))
    halved = triangles(prepared, subscripts) if semiring.is_ordinary else None
    if halved is not None:
        prepared, subscripts = halved.operands, halved.subscripts
        facts += [("symmetric", "one matrix, equal to its transpose: six times the sum over its strict lower part")]
    facts += [("begins", begun), ("operands", "; ".join(_operand(n, one) for n, one in enumerate(prepared)))]
    if not is_short(prepared, subscripts.output):
        server = (
            "programs of fewer operands, after pairs were contracted along a path: there are too many for all at once"
        )
        return ProgramExplanation(title, (_section(title, facts, server),))
    if not is_computable(prepared):
        return ProgramExplanation(title, (_section(title, facts, "joins of two operands at a time in NumPy"),))
    return _of_programs(title, facts, subscripts, prepared, is_dense=known.format == "dense")


def _solvers(route: Route, given: Sequence[Any]) -> list[Section]:
    """Return the sections on the solvers of a product of two sparse matrices."""
    return sections_of_operands(*map(ours, given)) if route is PRODUCT and all(map(issparse, given)) else []


def _rivals(route: Route, account: ExpressionCalls) -> list[Section]:
    """Return the section that lists the route and the kernel that competes with it; none if no kernel does."""
    if not route.begins:
        return []
    way_s, kernel_s = (one if math.isfinite(one) else None for one in (account.least_s, account.trial_s))
    failed = None if account.failure is None else str(account.failure)
    way = Candidate(choice=DEFAULT, name=route.says, measured_s=way_s)
    kernel = Candidate(choice=Choice(PROGRAM), name="a generated program", measured_s=kernel_s, failed=failed)
    return [candidates_section((way, kernel), way.choice)]


def _calls(route: Route, account: ExpressionCalls) -> list[tuple[str, str]]:
    """Return facts, as (label, text), on the route's calls so far and when a kernel replaces the route."""
    if not route.begins:
        return []
    if account.is_ready:
        return [("kernel", f"compiled; {account.n_trials} of its calls were timed")]
    spent = f"{account.n_calls} calls took {seconds(account.served_s)}"
    if account.failure is not None:
        return [("kernel", f"none: {account.failure}")]
    return [("kernel", f"compiled in the background once calls have taken {seconds(COMPILE_S)}; {spent}")]


def _of_programs(
    title: str, facts: list[tuple[str, str]], subscripts: Subscripts, prepared: list[Operand], *, is_dense: bool
) -> ProgramExplanation:
    known = peek(prepared, subscripts, is_dense_output=is_dense)
    choice = choose(prepared, subscripts, is_dense_output=is_dense)
    timed: Sequence[Candidate] = ()
    plan = choice.plan
    if isinstance(known, RememberedProgram):
        timed, plan = known.plan.candidates, known.program.plan
    elif known is not None:
        timed, plan = known[0].candidates, known[1]
    facts += [
        ("considered", f"{choice.found.n_programs} programs, of which {len(choice.plans)} are beaten by none"),
        ("why", _why(known)),
    ]
    return ProgramExplanation(
        title,
        (
            _section(title, facts, "a generated program"),
            _candidates(choice, plan, timed),
            Section(title="The loops of the chosen program, as C", lines=tuple(loops(plan))),
        ),
    )


def _section(title: str, facts: list[tuple[str, str]], server: str) -> Section:
    return Section(title=title, facts=(*facts, ("served by", server)))


def _operand(n: int, operand: Operand) -> str:
    if isinstance(operand, Sparse):
        return f"T{n}[{','.join(operand.indices)}] sparse, {operand.nnz:,} entries"
    return f"T{n}[{','.join(operand.indices)}] dense"


def _why(known: RememberedProgram | tuple[Plan, EinsumPlan] | None) -> str:
    if known is None:
        return "no call with these patterns yet; its estimated cost is the least"
    if not isinstance(known, RememberedProgram):
        return f"remembered on disk for these patterns: {known[0].why}"
    from_disk = ", remembered on disk" if known.plan.remembered else ""
    untimed = "" if known.plan.candidates else ", none was timed yet"
    return f"{known.n_calls} calls in this process; {known.plan.why}{untimed}{from_disk}"


def _candidates(ranked: RankedPrograms, chosen: EinsumPlan, timed: Sequence[Candidate]) -> Section:
    """Return the section that lists the programs: the `timed` ones, then the others by estimated cost."""
    known = {one.choice for one in timed}
    others = [candidate_of(plan, tasks) for tasks, plan, _ in ranked.plans]
    everyone = [*timed, *(one for one in others if one.choice not in known)]
    return candidates_section(everyone, Choice(PROGRAM, chosen.text))
