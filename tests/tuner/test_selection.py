"""Tests of selecting the fastest of ranked candidates, with scripted times."""

from __future__ import annotations

from collections import Counter

from autosparse.tuner.search.selection import BATCH, Selection, Selector

from autosparse.core.plan import Candidate
from autosparse.core.solver import DEFAULT, Choice
from autosparse.errors import BuildError


def candidate(name: str) -> Candidate:
    return Candidate(choice=Choice("toy", name), name=name, predicted_s=1.0)


def selected(times_s: dict[str, float], *names: str, default_s: float = 1.0, **how: object) -> Selection[str]:
    """Return the selection among `names` whose runs take `times_s`; "broken" cannot be prepared."""

    def prepare(choice: Choice) -> str:
        if choice.knobs == "broken":
            raise BuildError("no compiler likes it", key="k")
        return str(choice.knobs)

    selector: Selector[str] = Selector(
        prepare=prepare, measure=lambda one: default_s if one is None else times_s[one], **how
    )
    return selector.select(map(candidate, names))


def test_the_fastest_candidate_wins_and_all_are_listed_with_their_times() -> None:
    found = selected({"a": 0.9, "b": 0.5, "c": 0.7}, "a", "b", "c")
    assert (found.choice, found.bound) == (Choice("toy", "b"), "b")
    assert {one.name: one.measured_s for one in found.candidates} == {"default": 1.0, "a": 0.9, "b": 0.5, "c": 0.7}


def test_the_default_stays_where_nothing_beats_it_by_the_margin() -> None:
    found = selected({"a": 0.98, "b": 1.5}, "a", "b")
    assert found.choice == DEFAULT
    assert found.bound is None


def test_a_winner_of_one_batch_races_again_in_the_next() -> None:
    names = [f"k{n}" for n in range(3 * BATCH)]
    times_s = {name: 0.9 - 0.05 * n for n, name in enumerate(names)}
    assert selected(times_s, *names).choice.knobs == names[-1]
    assert selected(times_s, *reversed(names)).choice.knobs == names[-1]


def test_a_candidate_that_fails_or_is_wrong_is_listed_with_the_reason() -> None:
    found = selected({"a": 0.1, "b": 0.5}, "broken", "a", "b", difference=lambda one: "wrong" * (one == "a") or None)
    assert found.choice.knobs == "b"
    assert {one.name: one.failed for one in found.candidates if one.failed} == {
        "broken": "no compiler likes it", "a": "wrong",
    }  # fmt: skip


def test_a_handicap_counts_in_comparisons_only() -> None:
    def handicap(choice: Choice) -> float:
        return 1.1 if choice.knobs == "b" else 1.0

    found = selected({"a": 0.52, "b": 0.5}, "a", "b", handicap=handicap)
    assert found.choice.knobs == "a"
    assert found.measured_s(Choice("toy", "b")) == 0.5


def test_a_race_over_its_time_limit_ends_after_its_first_round() -> None:
    runs: Counter[str | None] = Counter()

    def measure(one: str | None) -> float:
        runs[one] += 1
        return 1.0

    selector: Selector[str] = Selector(prepare=lambda choice: str(choice.knobs), measure=measure, limit_s=-1.0)
    assert selector.select([candidate("a")]).choice == DEFAULT
    assert runs == {None: 2, "a": 2}  # one to warm up, and one round
