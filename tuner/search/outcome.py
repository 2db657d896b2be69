"""Results of a search: its candidates, measured or not, and the plan."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Final

from autosparse.tuner.search.search import Search
from autosparse.tuner.search.trial import Trial

from autosparse.config import Effort
from autosparse.core.composite import Schedule
from autosparse.core.plan import Candidate, Plan, named
from autosparse.core.solver import choice_of

N_NAMED: Final = 10
"""Minimum number of candidates, measured or predicted, that a plan lists."""


def candidates_of(search: Search) -> tuple[Candidate, ...]:
    """Return all measured candidates, fastest first, then failed ones and the best untried ones by prediction."""
    found = [_candidate(search, trial) for trial in (search.default, *search.trials)]
    n_left = max(search.queue.n_proposed, N_NAMED - len(search.trials))
    untried = itertools.islice((one for one in search.queue if not search.tried(choice_of(one))), n_left)
    found += _measured_earlier(search)
    found += [
        Candidate(schedule=one, predicted_s=_predicted_s(search, one), predicted_ratio=search.predicted_ratio(one))
        for one in untried
    ]
    return tuple(sorted((*found, *search.refused), key=_by_time))


def _measured_earlier(search: Search) -> list[Candidate]:
    """Return the candidates that earlier processes measured and this search did not enter."""
    default_s, entered = search.default_s or 0.0, {one.choice for one in search.trials}
    return [
        Candidate(**named(choice), measured_s=found.value * default_s, n_samples=found.n_samples)
        for choice, found in search.earlier.ratios.items()
        if default_s and choice not in entered
    ]


def _measured(search: Search, trial: Trial) -> tuple[float | None, int]:
    """Return (seconds, number of samples) of a candidate, samples of earlier processes included; None if not timed."""
    measured_s, n_samples = search.measured_s.get(trial.choice), search.n_samples.get(trial.choice, 0)
    earlier = search.earlier.ratios.get(trial.choice)
    if earlier is None or not search.default_s:
        return measured_s, n_samples
    if measured_s is not None:
        earlier = earlier.merged(measured_s / search.default_s, n_samples)
    return earlier.value * search.default_s, earlier.n_samples


def _predicted_s(search: Search, schedule: Schedule | None) -> float | None:
    ratio = search.predicted_ratio(schedule)
    return ratio * search.default_s if ratio is not None and search.default_s else None


def _candidate(search: Search, trial: Trial) -> Candidate:
    measured_s, n_samples = _measured(search, trial)
    is_known = trial.choice.is_default or trial.schedule is not None  # to models
    ratio = search.predicted_ratio(trial.schedule) if is_known and search.queue.best_ratio() is not None else None
    return Candidate(
        **named(trial.choice),
        predicted_s=_predicted_s(search, trial.schedule) if is_known else None,
        measured_s=search.default_s if trial is search.default else measured_s,
        n_samples=n_samples,
        build_s=trial.build_s,
        pack_s=trial.pack_s,
        packed_bytes=trial.packed_bytes,
        failed=trial.failed,
        predicted_ratio=ratio,
    )


def plan_of(search: Search, *, tune_s: float) -> Plan:
    """Return the plan from what is known now, whether the search is finished or not."""
    best = _candidate(search, search.incumbent)
    n_raced = sum(1 for trial in search.trials if trial.choice in search.measured_s) + len(_measured_earlier(search))
    return Plan(
        **named(best.choice),
        why=_why(search, best, n_raced),
        effort=_effort_made(search).value,
        predicted_s=best.predicted_s,
        measured_s=best.measured_s,
        default_s=search.default_s,
        tune_s=tune_s,
        pack_s=best.pack_s,
        packed_bytes=best.packed_bytes,
        candidates=candidates_of(search),
        predicted_ratio=best.predicted_ratio,
        proposed_by=search.queue.proposed_by,
    )


def _effort_made(search: Search) -> Effort:
    """Return the effort that the plan counts as: as requested, if something was measured or nothing was worth it.

    If every candidate failed or had no memory, it counts as an estimate: the next search tries again.
    """
    if search.measured_s or (search.finished and not search.trials):
        return search.effort
    return min(search.effort, Effort.ESTIMATE, key=lambda one: one.rank) if search.finished else Effort.OFF


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


def _by_time(one: Candidate) -> tuple[bool, float]:
    """Return the sort key of a candidate: measured ones by time, then the others by prediction."""
    predicted = one.predicted_s if one.predicted_s is not None else one.predicted_ratio
    return one.measured_s is None, one.measured_s or predicted or 0.0
