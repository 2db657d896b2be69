"""Section on memory: the owner of a matrix's arrays, and the bytes of the caller's, own and packed arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosparse.explain.section import Section
from autosparse.explain.units import n_bytes

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
