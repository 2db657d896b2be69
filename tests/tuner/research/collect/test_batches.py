"""Tests that entrants of one round of a batch are timed on the same memory."""

from __future__ import annotations

from autosparse.tuner.research.collect import files
from autosparse.tuner.research.collect.batches import Batches
from autosparse.tuner.research.collect.operations import OPS

from tests.tuner.research.collect.test_measurements import FakeBench, problem_of, some_schedules


def test_entrants_of_one_round_meet_the_same_memory():
    class Watched(FakeBench):
        def runner(self, trial, turn=0):
            run = super().runner(trial)
            return lambda: turns.setdefault(trial.schedule, []).append(turn) or run()

    turns = {}
    bench = Watched(problem_of(OPS["spmv"]))
    batches = Batches(bench, clock=bench.clock)
    batches.run([one for one in some_schedules(40) if one.stable_hash()[0] != "0"][:4])
    rounds = {schedule: sorted(set(found)) for schedule, found in turns.items()}
    whole = [one.schedule for one in batches.timings if one.status == files.MEASURED]
    assert whole
    assert all(rounds[one] == list(range(7)) for one in whole)
    assert all(found == list(range(len(found))) for found in rounds.values())
