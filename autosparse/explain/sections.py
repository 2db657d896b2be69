"""Build the sections of an explanation from a report: problem, plan, reason, cost, memory and candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from autosparse.core.composite import Composite
from autosparse.core.pattern import TensorPattern
from autosparse.core.plan import EFFORT_IS_OFF, Plan
from autosparse.core.problem import Problem
from autosparse.explain.candidates import candidates_section, predicted
from autosparse.explain.loop_nest import choice_name, default_name, format_lines, format_name, nest_lines, words_of
from autosparse.explain.parts import parts_section
from autosparse.explain.section import Section
from autosparse.explain.units import UNKNOWN, count, n_bytes, seconds, shape
from autosparse.ops import OPS

if TYPE_CHECKING:
    from autosparse.operands.holding import Holding
    from autosparse.tuning.report import Report


NO_LOOK = "products do not check for writes"
LOOK = "a product that reads a packed copy first checks them for writes"


def memory_section(report: Report) -> Section | None:
    """Return the section on memory, or None if the report has no facts about the arrays' owner."""
    holding = report.holding
    if holding is None:
        return None
    theirs, own = holding.caller_bytes, holding.own_bytes
    if_kept = " while the caller keeps them" if holding.copied_bytes else ""
    facts = [
        ("arrays", f"{_whose(holding)}; {NO_LOOK if holding.is_frozen or holding.is_alone else LOOK}"),
        ("to avoid the check", _remedy(holding)),
        ("caller's arrays", f"{n_bytes(theirs)}{if_kept}" if theirs else "none"),
        ("own arrays", f"{n_bytes(own)}{', copied' if holding.copied_bytes else ''}" if own else "none"),
        ("packed copies", n_bytes(report.packed_bytes) if report.packed_bytes else "none"),
    ]
    return Section(title="Memory", facts=tuple(fact for fact in facts if fact[1]))


def _whose(holding: Holding) -> str:
    if holding.is_frozen:
        return "frozen: declared read-only by the caller"
    if not holding.is_owned:
        return "shared with the caller"
    if holding.copied_bytes:
        return "owned, copied from the caller's by the constructor"
    return "owned"


def _remedy(holding: Holding) -> str:
    if holding.is_frozen or holding.is_alone:
        return ""
    if holding.is_owned:
        return "delete references to the arrays that were read from the matrix (A.data, A.indices, A.indptr)"
    return "asp.csr(m) without copy=False, asp.csr(m, copy=False, frozen=True), or delete the caller's references"


SHOWN_BLOCKS: Final = ((2, 2), (3, 3), (4, 4), (8, 8))
"""Block sizes (rows, columns) whose fraction of filled cells is shown."""
IMPLEMENTATIONS: Final = {
    "runtime": "runtime (compiled at installation)",
    "c": "c (generated, compiled by a C compiler)",
    "numba": "numba (generated, compiled by LLVM)",
    "parts": "several, one for each part",
}
"""Description of each implementation, by its name."""
SHOWN_SLICES: Final = ((16, 1), (16, 512), (16, 8192))
"""Pairs (rows of a slice, rows of a sorting window) whose stored cells per entry are shown."""

RACED_AGAIN: Final = "The time of the one that runs is from a last race, which also had results in new memory."
"""Line below the candidates if others appear faster: the first races time repeated products into one result."""


def sections(report: Report) -> tuple[Section, ...]:
    """Return all sections that have content."""
    made = (one(report) for one in SECTIONS)
    return tuple(section for section in made if section is not None)


def title(report: Report) -> str:
    """Return the title, such as ``matmul: A.T @ B, B 32 columns``."""
    problem = report.problem
    A = "A.T" if problem.transposed else "A"
    width = "a vector" if problem.n_dense_cols == 1 else f"{problem.n_dense_cols:,} columns"
    what = words_of(problem.operation).title.format(A=A, width=width, mode=problem.mode)
    return f"{problem.operation}: {what}"


def _problem(report: Report) -> Section:
    problem = report.problem
    if isinstance(problem.pattern, TensorPattern):
        return _tensor_problem(report)
    pattern = problem.matrix
    lengths = pattern.row_lengths
    n_rows, n_cols = pattern.shape[::-1] if problem.transposed else pattern.shape
    A, row = ("A.T", "row of A") if problem.transposed else ("A", "row")
    formula = OPS[problem.operation].formula.replace("A[", f"{A}[")
    sizes = f"{lengths.min():,} to {lengths.max():,}" if lengths.size else "none"
    return Section(
        title=title(report),
        facts=(
            ("computes", formula),
            (A, f"{shape(n_rows, n_cols)}, {pattern.nnz:,} entries, {problem.dtype}, {pattern.index_dtype} indices"),
            ("", f"{pattern.nnz / max(1, pattern.n_rows):.3g} entries per {row} on average, {sizes}"),
            _dense(problem, n_rows, n_cols),
            ("machine", f"{problem.target.cpu}, {problem.target.isa}, at most {_threads(problem)}"),
            ("machine rates", report.rates_source or UNKNOWN),
        ),
    )


def _dense(problem: Problem, n_rows: int, n_cols: int) -> tuple[str, str]:
    """Return the fact (label, text) on the shapes of the dense operands and the number of operations of a product."""
    work = f"one product is {problem.n_flops:,} operations"
    words = words_of(problem.operation)
    extents = {"n_rows": n_rows, "n_cols": n_cols, "n_vecs": problem.n_dense_cols}
    return words.dense, f"{words.dense_shapes.format(**{name: f'{n:,}' for name, n in extents.items()})}; {work}"


def _tensor_problem(report: Report) -> Section:
    problem = report.problem
    pattern = problem.tensor
    extents = " x ".join(f"{n:,}" for n in pattern.shape)
    return Section(
        title=title(report),
        facts=(
            ("computes", f"{OPS[problem.operation].formula}, i over mode {problem.mode}"),
            ("T", f"{extents}, {pattern.nnz:,} entries, {problem.dtype}"),
            ("factors", f"{problem.n_dense_cols:,} columns; one product is {problem.n_flops:,} operations"),
            ("machine", f"{problem.target.cpu}, {problem.target.isa}, at most {_threads(problem)}"),
        ),
    )


def _pattern(report: Report) -> Section | None:
    """Return the section on the pattern's statistics, which cost models use."""
    facts = report.facts
    if facts is None or not facts.nnz:
        return None
    fills = ", ".join(f"{r} x {c} {facts.fill(r, c):.0%}" for r, c in SHOWN_BLOCKS)
    cells = ", ".join(f"{sigma:,}: {facts.cells_per_entry(lanes, sigma):.2f}" for lanes, sigma in SHOWN_SLICES)
    lanes, spread = SHOWN_SLICES[0][0], f"deviation {facts.row_cv:.2f} of the mean"
    per_column, per_line = 1 / facts.columns_per_entry, 1 / facts.lines_per_entry
    return Section(
        title="Pattern",
        facts=(
            ("rows", f"longest {facts.max_row:,}, {spread}, {facts.empty_rows:.0%} empty"),
            ("columns", f"{facts.mean_gap:,.3g} apart on average within a row"),
            ("16 rows share", f"{per_column:.3g} entries per column, {per_line:.3g} per cache line of x"),
            ("blocks filled", fills),
            ("cells per entry", f"in slices of {lanes} rows, sorted within {cells}"),
            ("on few diagonals", f"{facts.diagonal_share:.0%} of the entries"),
        ),
    )


def _neighbours(report: Report) -> Section | None:
    """Return a section of advice on competing threads of the process; None unless the pool found contended cores."""
    if not report.cores_are_contended:
        return None
    return Section(
        title="Neighbours",
        facts=(
            ("contended cores", "threads of this process waited for cores between products, so helpers sleep at once"),
            ("likely cause", "threads of BLAS, which stay busy for about 50 ms after each threaded call of NumPy"),
            ("what helps", "OPENBLAS_NUM_THREADS=1, or threadpoolctl.threadpool_limits(1, user_api='blas')"),
        ),
    )


def _threads(problem: Problem) -> str:
    plural = "" if problem.threads == 1 else "s"
    return f"{problem.threads} thread{plural}" + (", one order of summation" if problem.deterministic else "")


def _plan(report: Report) -> Section:
    plan = report.plan
    facts = [
        ("runs", f"{plan.served_by}'s own code" if plan.served_by else choice_name(plan.choice)),
        ("implementation", IMPLEMENTATIONS.get(report.implementation, report.implementation)),
        ("why", plan.why),
        ("proposed by", plan.proposed_by),
        ("effort", _effort(plan)),
        ("not remembered", plan.not_remembered),
        ("measured", "" if plan.is_default else seconds(plan.measured_s)),
        ("predicted", predicted(plan, report.default_s)),
        ("default kernel", _against(report)),
        ("serves now", _served(report)),
    ]
    facts += [("failed", failure) for failure in report.failures]
    return Section(title="Plan", facts=_known(facts))


def _served(report: Report) -> str:
    """Return a text: which kernel serves now, and the time per product for checking for writes and repacking."""
    served = report.served
    if served is None or not (served.look_rate or served.n_changes):
        return ""
    cost_s = served.look_rate * served.look_s + served.repack_rate * served.repack_s
    per_product = f"checking the arrays and repacking changed values take {seconds(cost_s)} a product"
    saves = f"; the packed copy saves {seconds(served.gain_s)}" if served.gain_s else ""
    other = "a kernel on the arrays themselves" if report.has_in_place else "the default kernel"
    return f"{'the packed copy' if served.serves_packed else other}: {per_product}{saves}"


def _was_tuned(plan: Plan) -> bool:
    """Return whether tuning was done, including a search that its budget ended early."""
    return not plan.is_default or plan.effort != "off"


def _effort(plan: Plan) -> str:
    if not _was_tuned(plan):
        return "off" if EFFORT_IS_OFF in plan.why else "none so far"
    name = plan.effort if plan.effort != "off" else "search not finished"
    return f"{name}, {'remembered from an earlier run' if plan.remembered else 'found in this process'}"


def _against(report: Report) -> str:
    plan = report.plan
    if plan.default_s is None or plan.measured_s is None or plan.is_default:
        return seconds(plan.default_s or report.default_s)
    return f"{seconds(plan.default_s)}: {plan.default_s / plan.measured_s:.2f} times as long"


def _known(facts: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the facts (label, text) whose text is neither empty nor the dash of an unknown value."""
    return tuple(fact for fact in facts if fact[1] and fact[1] != UNKNOWN)


def _price(report: Report) -> Section | None:
    plan = report.plan
    if not report.is_planned:
        return None
    csr = report.problem.operand_bytes
    share = f" = {plan.packed_bytes / csr:.2f} of A itself" if csr and plan.packed_bytes else ""
    was_tuned = _was_tuned(plan)
    facts = [
        ("products so far", f"{count(report.n_calls)}, {seconds(report.product_s)} in all"),
        ("products expected", count(report.runs_expected)),
        ("spent, saved", _balance(report)),
        (
            "tuning",
            _in_products(plan.tune_s, report) + (" (paid by an earlier run)" if plan.remembered else "")
            if was_tuned
            else "",
        ),
        ("conversion", _in_products(plan.pack_s, report) if was_tuned else ""),
        ("break-even", _break_even(report)),
        ("packed copy", n_bytes(plan.packed_bytes) + share),
        ("packed in all", f"{n_bytes(report.packed_bytes)} of {n_bytes(report.packed_limit_bytes)} allowed"),
        ("next", report.verdict),
    ]
    if not was_tuned:
        facts.insert(3, ("would cost", ", ".join(f"{step} {seconds(s)}" for step, s in report.prices_s.items())))
    return Section(title="Price", facts=_known(facts))


def _in_products(time_s: float, report: Report) -> str:
    """Return a text: a time in seconds and in the equal number of products by the default kernel."""
    default_s = report.plan.default_s or report.default_s
    if not default_s or time_s <= 0:
        return seconds(time_s)
    return f"{seconds(time_s)} = {time_s / default_s:,.3g} default products"


def _tiers(report: Report) -> Section | None:
    """Return a table of the tuning efforts with their cost, expected saving and break-even; None if unknown."""
    default_s = report.plan.default_s or report.default_s
    if not report.tiers or not default_s:
        return None
    header = ("", "takes", "default products", "expected to save", "paid back after")
    rows = [
        (
            tier.name,
            seconds(tier.price_s),
            f"{tier.price_s / default_s:,.3g}",
            f"{tier.gain:.0%}",
            f"{count(tier.price_s / (tier.gain * default_s))} products" if tier.gain > 0 else "never",
        )
        for tier in report.tiers
    ]
    return Section(title="Tiers of tuning", table=(header, *rows))


def _balance(report: Report) -> str:
    if report.tuning_s <= 0 and report.saved_s <= 0:
        return ""
    return f"{seconds(report.tuning_s)} on tuning between products, {seconds(report.saved_s)} by faster products"


def _break_even(report: Report) -> str:
    """Return a text: the number of products after which tuning pays off, an expectation if nothing was tuned."""
    runs = report.break_even_runs
    if runs is None:
        return ""
    if _was_tuned(report.plan):
        as_predicted = " if the model is right" if report.plan.measured_s is None else ""
        return f"{count(runs)} products{as_predicted}"
    return f"about {count(runs)} products, if tuning saves {report.expected_gain:.0%} as expected"


def _storage(report: Report) -> Section | None:
    if not report.is_planned:
        return None
    schedule = report.plan.schedule
    if not report.plan.is_default and schedule is None:
        return Section(title="Storage", lines=(f"what the solver {report.plan.solver} keeps",))
    if schedule is None:
        return Section(title="Storage", lines=(default_name(report.problem.operation),))
    if isinstance(schedule, Composite):
        return parts_section(report, schedule)
    fmt = schedule.format
    lines = [f"{format_name(fmt)}    {fmt}", *format_lines(fmt)]
    if fmt.has_padding:
        lines.append("Blocks are filled up with zeros; a result that is not finite is computed again without them.")
    return Section(title="Storage", lines=tuple(lines))


def _loops(report: Report) -> Section | None:
    if not report.is_planned:
        return None
    schedule, operation, turned = report.plan.schedule, report.problem.operation, report.problem.transposed
    if schedule is None and not report.plan.is_default:
        return None
    if not isinstance(schedule, Composite):
        return Section(title="Loops", lines=tuple(nest_lines(schedule, operation, transposed=turned)))
    lines: list[str] = []
    for part in schedule.parts:
        lines += [f"{part.select}:", *(f"  {line}" for line in nest_lines(part.schedule, operation))]
    return Section(title="Loops", lines=tuple(lines))


def _candidates(report: Report) -> Section | None:
    plan = report.plan
    if not plan.candidates:
        return None
    found = candidates_section(plan.candidates, plan.choice, plan.default_s or report.default_s)
    times_s = [one.measured_s for one in plan.candidates if one.measured_s and not one.choice.is_default]
    if plan.choice.is_default or not plan.measured_s or min(times_s, default=plan.measured_s) == plan.measured_s:
        return found
    return replace(found, lines=(*found.lines, RACED_AGAIN))


SECTIONS: Final[tuple[Callable[[Report], Section | None], ...]] = (
    _problem,
    _pattern,
    _plan,
    _price,
    memory_section,
    _tiers,
    _neighbours,
    _storage,
    _loops,
    _candidates,
)
"""Builders of the sections, in the order in which they are shown."""
