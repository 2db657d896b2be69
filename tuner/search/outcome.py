"""Results of a search: its candidates, measured or not, and the plan."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from typing import Final

from autosparse.tuner.search.search import Search

from autosparse.config import Effort
from autosparse.core.composite import Schedule
from autosparse.core.plan import Candidate, Plan
from autosparse.core.solver import choice_of

N_NAMED: Final = 10
"""Minimum number of candidates, measured or predicted, that a plan lists."""


def candidates_of(search: Search) -> tuple[Candidate, ...]:
    """Return all measured candidates, fastest first, then failed ones and the best untried ones by prediction.

    Their times include those by earlier processes.
    """
    trials = {one.choice: one for one in (search.default, *search.trials)}
    default_s, found = search.default_s, list[Candidate]()
    earlier = [one for one in search.earlier.ratios if default_s and one not in trials]
    n_left = max(len(search.queue.proposed), N_NAMED - len(search.trials))
    untried = (one for one in map(choice_of, search.queue.schedules) if not search.tried(one))
    for choice in (*trials, *earlier, *itertools.islice(untried, n_left)):
        trial = trials.get(choice)
        ratio = search.queue.ratios.get(choice.schedule) if isinstance(choice.schedule, Schedule) else None
        if choice.is_default and search.queue.ratios:
            ratio = 1.0
        measured_s, n_samples = search.measured_s.get(choice), search.n_samples.get(choice, 0)
        if (before := search.earlier.ratios.get(choice)) is not None and default_s:
            merged = before if measured_s is None else before.merged(measured_s / default_s, n_samples)
            measured_s, n_samples = merged.value * default_s, merged.n_samples
        one = Candidate(
            choice=choice,
            predicted_s=ratio * default_s if ratio is not None and default_s else None,
            measured_s=default_s if choice.is_default else measured_s,
            n_samples=n_samples,
            predicted_ratio=ratio,
        )
        if trial is not None:
            known = {name: getattr(trial, name) for name in ("build_s", "pack_s", "packed_bytes", "failed")}
            one = dataclasses.replace(one, **known)
        found.append(one)
    found += search.refused
    times_s = [one.measured_s or one.predicted_s or one.predicted_ratio or 0.0 for one in found]
    # Measured candidates come first, by time, then the others by prediction.
    order = sorted(range(len(found)), key=lambda at: (found[at].measured_s is None, times_s[at]))
    return tuple(found[at] for at in order)


def plan_of(search: Search, *, tune_s: float) -> Plan:
    """Return the plan from what is known now, whether the search is finished or not."""
    in_place, candidates = search.in_place, candidates_of(search)
    best = next(one for one in candidates if one.choice == search.incumbent.choice)
    n_raced = sum(one.measured_s is not None and not one.choice.is_default for one in candidates)
    effort = search.effort if search.finished else Effort.OFF
    if search.measured_s or (search.finished and not search.trials):
        effort = search.effort  # something was measured, or nothing was worth it
    elif effort.rank > Effort.ESTIMATE.rank:
        effort = Effort.ESTIMATE  # every candidate failed or had no memory: the next search tries again
    return Plan(
        choice=best.choice,
        why=_why(search, best, n_raced),
        effort=effort.value,
        predicted_s=best.predicted_s,
        measured_s=best.measured_s,
        default_s=search.default_s,
        tune_s=tune_s,
        pack_s=best.pack_s,
        packed_bytes=best.packed_bytes,
        candidates=candidates,
        predicted_ratio=best.predicted_ratio,
        in_place=in_place.schedule if in_place is not None else None,
        in_place_s=search.measured_s.get(in_place.choice) if in_place is not None else None,
        proposed_by=search.queue.proposed_by,
    )


def _why(search: Search, best: Candidate, n_raced: int) -> str:
    unfinished = "" if search.finished else " (search not finished)"
    if n_raced and (failed := [trial.failed for trial in search.trials if trial.failed]):
        unfinished += f"; {len(failed)} more could not be used: {failed[0].rstrip('.')}"
    if best.choice.is_default:
        if n_raced:
            return f"none of {n_raced} measured candidates beat the default kernel{unfinished}"
        if search.untrusted is not None:
            return f"{search.untrusted}: nothing is chosen unmeasured (effort='measure' times candidates)"
        return f"{_why_none_raced(search)}{unfinished}"
    if best.measured_s is None or not search.default_s:
        return f"the model expects it to be the fastest{unfinished}"
    return f"fastest of {n_raced} measured, {search.default_s / best.measured_s:.2f}x the default kernel{unfinished}"


def _why_none_raced(search: Search) -> str:
    """Return a text on why the default kernel stays although no other kernel was measured."""
    failures = Counter(trial.failed for trial in search.trials if trial.failed)
    if search.trials and failures.total() == len(search.trials):
        (reason, n_times), *_ = failures.most_common(1)
        others = f" ({n_times} of them)" if n_times < len(search.trials) else ""
        return f"none of {len(search.trials)} candidates could be used: {(reason or '').rstrip('.')}{others}"
    if search.effort is Effort.ESTIMATE:
        return "no candidate's predicted gain exceeds the acceptance margin"
    return "no candidate was worth measuring"
