"""Tests of batches, files and the collector: with simulated kernels, then with real ones through the command line."""

from __future__ import annotations

import dataclasses
import math
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse
from autosparse.tuner.analytic.matmul import TrafficModel
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.features.statistics import pattern_facts
from autosparse.tuner.research.collect import collector as collecting
from autosparse.tuner.research.collect import files
from autosparse.tuner.research.collect.batches import Batches, Load, wait_for_quiet
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.collect.recipes import Recipe, is_held_out
from autosparse.tuner.research.collect.sampling import Shares, first_draw, neighbourhood
from autosparse.tuner.research.generators.base import generate
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.research.training.scale import DEFAULT_LIKE
from autosparse.tuner.space import families as space
from autosparse.tuner.space import spaces

from autosparse import _native, cli
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from autosparse.errors import RecordError
from tests.tuner.fakes import FakeClock, FakeTrial

PATTERN = generate("mesh", nnz=3_000, seed=1)
TENSOR = generate("tensor_power_law", nnz=3_000, seed=1)


def problem_of(op, pattern=None) -> Problem:
    return Problem(
        operation=op.operation,
        pattern=(pattern or (PATTERN if op.n_dims == 2 else TENSOR)).to_structure(),
        transposed=False,
        n_dense_cols=op.n_dense_cols,
        dtype="float32",
        threads=2,
        deterministic=False,
        target=Target.host(),
    )


def true_ratio(schedule: SuperSchedule) -> float:
    """Return an invented time relative to the default kernel's: different for each schedule, some far too slow."""
    return 0.2 + int(schedule.stable_hash()[:4], 16) / 6_000


@dataclass
class FakeBench:
    """Bench with simulated kernels; schedules whose hash begins with 0 do not fit into memory."""

    problem: Problem
    clock: FakeClock = field(default_factory=FakeClock)
    default_s: float = 1e-2
    trials: list = field(default_factory=list)

    def __call__(self, choice):
        schedule = choice.schedule
        ratio = 1.0 if schedule is None else true_ratio(schedule)
        fails = schedule is not None and schedule.stable_hash()[0] == "0"
        trial = FakeTrial(schedule, self.clock, ratio * self.default_s, pack_fails=fails)
        trial.drop = lambda: setattr(trial, "packed", False)
        self.trials.append(trial)
        return trial

    def supports(self, operation, schedule):
        return _native.supports(operation, schedule)

    def build(self, trials):
        for trial in trials:
            trial.build()

    def runner(self, trial, turn=0):
        return lambda: self.clock.spend(trial.true_s)


def last_of_space(bench, n):
    """Return the last `n` schedules of the space, a set that no other source would draw."""
    return spaces.everything(bench.problem, _native.supports)[-n:] if n else []


def batches_on(bench) -> Batches:
    return Batches(bench, clock=bench.clock)


def some_schedules(n: int) -> list[SuperSchedule]:
    whole = space.everything(problem_of(OPS["spmv"]), _native.supports)
    return [whole[at] for at in np.random.default_rng(0).permutation(len(whole))[:n]]


def test_short_products_take_more_rounds():
    counts = []
    for default_s in (2e-5, 2e-4, 1e-2):
        bench = FakeBench(problem_of(OPS["spmv"]), default_s=default_s)
        batches = batches_on(bench)
        batches.run(some_schedules(40))
        counts.append(max(one.n_rounds for one in batches.timings))
        assert any(one.status == files.MEASURED for one in batches.timings)
        assert all(one.n_rounds >= 7 for one in batches.timings if one.status == files.MEASURED)
    assert counts == [21, 21, 7]


def test_ratios_are_true_and_losers_leave_early():
    bench = FakeBench(problem_of(OPS["spmv"]))
    batches = batches_on(bench)
    batches.run(some_schedules(40))
    assert len(batches.timings) == 40
    for one in batches.timings:
        if one.status == files.REFUSED:
            assert one.schedule.stable_hash()[0] == "0"
            assert math.isnan(one.ratio)
            continue
        assert one.ratio == pytest.approx(true_ratio(one.schedule), rel=1e-6)
        assert one.seconds == pytest.approx(one.ratio * bench.default_s, rel=1e-6)
        assert (one.status == files.MEASURED) == (one.n_rounds == 7)
    censored = [one for one in batches.timings if one.status == files.CENSORED]
    measured = [one for one in batches.timings if one.status == files.MEASURED]
    assert censored, "some are far slower than the best of their batch"
    assert measured
    assert all(one.n_rounds < 7 for one in censored)
    assert min(one.ratio for one in censored) > min(one.ratio for one in measured)
    assert not any(trial.packed for trial in bench.trials), "everything was dropped"


def test_no_batch_starts_after_the_time_limit():
    batches = batches_on(FakeBench(problem_of(OPS["spmv"])))
    batches.run(some_schedules(40), until_s=0.0)
    assert batches.timings == []


def test_trials_beyond_memory_run_in_a_separate_batch():
    bench = FakeBench(problem_of(OPS["spmv"]))
    schedules = [one for one in some_schedules(40) if one.stable_hash()[0] != "0"][:6]
    n_packed = []

    class Narrow(FakeBench):
        def __call__(self, choice):
            trial = super().__call__(choice)
            trial.room = lambda one: sum(other.packed for other in self.trials) < 3 or n_packed.append(1)
            return trial

    bench = Narrow(problem_of(OPS["spmv"]))
    batches = batches_on(bench)
    batches.run(schedules)
    assert n_packed, "some did not fit beside the others"
    assert sorted(one.schedule.stable_hash() for one in batches.timings) == sorted(s.stable_hash() for s in schedules)
    assert all(one.status != files.REFUSED for one in batches.timings)


def measurements(op="spmv") -> files.Measurements:
    batches = batches_on(FakeBench(problem_of(OPS[op])))
    batches.run(some_schedules(13))
    columns, batch_columns = batches.columns()
    recipe = {"kind": "generated", "source": "mesh", "group": "g", "n_dims": 2, "nnz": 3_000, "seed": 1}
    facts = {"op": op, "recipe": recipe, "machine": {"cpu": "this one"}, "nnz": PATTERN.nnz}
    return files.Measurements(facts, [one.schedule.to_json() for one in batches.timings], columns, batch_columns)


def assert_same(a: files.Measurements, b: files.Measurements) -> None:
    assert a.facts == b.facts
    assert list(a.schedules) == list(b.schedules)
    for mine, theirs in ((a.columns, b.columns), (a.batches, b.batches)):
        assert all(np.array_equal(mine[name], theirs[name], equal_nan=True) for name in mine)


def test_files_give_back_what_was_written(tmp_path):
    found = measurements()
    files.write(tmp_path / "a.npz", found)
    again = files.read(tmp_path / "a.npz")
    assert_same(found, again)
    assert again.super_schedules() == [SuperSchedule.from_json(text) for text in found.schedules]
    assert again.recipe == Recipe(**found.facts["recipe"])
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_merging_loses_nothing_and_depends_on_no_order(tmp_path):
    one, two = measurements(), measurements()
    two.facts["recipe"]["seed"] = 2
    assert files.merge([one, two], tmp_path / "m.npz") == 2
    for found, expected in zip(files.read_merged(tmp_path / "m.npz"), (one, two), strict=True):
        assert_same(found, expected)
    files.merge([two, one], tmp_path / "n.npz")
    for a, b in zip(files.read_merged(tmp_path / "m.npz"), files.read_merged(tmp_path / "n.npz"), strict=True):
        assert_same(a, b)


def test_folders_are_read_whole_without_broken_files(tmp_path):
    files.merge([measurements()], tmp_path / "spmv.npz")
    files.write(tmp_path / "spmv" / "x.npz", measurements())
    (tmp_path / "spmv" / "broken.npz").write_bytes(b"PK not really")
    assert len(list(files.read_folder(tmp_path, "spmv"))) == 2
    assert list(files.read_folder(tmp_path, "spmm32")) == []


def test_other_schemas_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FILE_SCHEMA", 99)
    files.write(tmp_path / "a.npz", measurements())
    monkeypatch.undo()
    with pytest.raises(RecordError, match="schema 99"):
        files.read(tmp_path / "a.npz")


# -- sampling


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_draws_are_distinct_supported_and_seeded(op):
    problem = problem_of(op)
    model = statistics_model(problem)

    def draw(seed, n=48):
        rng = np.random.default_rng(seed)
        return first_draw(problem, _native.supports, model, rng=rng, shares=Shares.of(n))

    drawn = draw(0)
    assert len(set(drawn)) == len(drawn)
    assert 30 <= len(drawn) <= 48
    assert all(_native.supports(op.operation, one) is None for one in drawn)
    assert drawn == draw(0)
    assert drawn != draw(1)
    assert all(any(str(one.format) in DEFAULT_LIKE for one in draw(2, n)) for n in (1, 8))  # for any number
    assert len(draw(2, 1)) <= 5
    near = neighbourhood(problem, _native.supports, drawn[:3], drawn, n=8, rng=np.random.default_rng(0))
    assert len(near) == 8
    assert not set(near) & set(drawn)


def test_the_runtimes_own_loops_are_drawn_where_it_has_some():
    op = OPS["spmm256"]
    wide = generate("uniform", nnz=40_000, seed=1)  # a B larger than any core's own cache
    problem = problem_of(op, wide)
    small_cache = dataclasses.replace(Target.host(), l2_bytes=1 << 16)
    problem = dataclasses.replace(problem, target=small_cache)
    drawn = first_draw(
        problem, _native.supports, statistics_model(problem), rng=np.random.default_rng(0), shares=Shares.of(64)
    )
    ready = [one for one in drawn if one.is_precompiled]
    assert len(ready) >= Shares().ready
    assert len({one.prefetch for one in ready}) > 1


# -- the collector


def order_of(tmp_path, **changes) -> collecting.Order:
    return collecting.Order(out=tmp_path, ops=[OPS["spmv"], OPS["spmm32"]], n_schedules=16, **changes)


RECIPES = [
    Recipe(kind="generated", source=name, group=f"g:{name}", nnz=2_000, seed=3) for name in ("mesh", "rmat", "kkt")
]


def collector_of(order) -> collecting.Collector:
    @contextmanager
    def bench(pattern, op):
        yield FakeBench(problem_of(op, pattern))

    return collecting.Collector(
        order, bench, last_of_space, lambda one: TrafficModel(pattern_facts(one.pattern)), {"cpu": "fake"},
        _native.supports,
    )  # fmt: skip


def test_completed_patterns_are_not_measured_again(tmp_path):
    steps = []
    for step in collector_of(order_of(tmp_path)).run(RECIPES):
        steps.append(step)
        if len(steps) == 3:
            break  # the collector stops here
    done = {path: path.read_bytes() for path in tmp_path.rglob("*.npz")}
    assert len(done) == 3
    rest = list(collector_of(order_of(tmp_path)).run(RECIPES))
    assert len(rest) == 3
    assert rest[-1].n_found == 3
    assert all(path.read_bytes() == data for path, data in done.items())
    assert len(list(tmp_path.rglob("*.npz"))) == 6
    assert list(collector_of(order_of(tmp_path)).run(RECIPES)) == []


def test_the_learned_models_favourites_are_measured_too(tmp_path):
    list(collector_of(order_of(tmp_path, n_proposed=7)).run(RECIPES[:1]))
    for op in (OPS["spmv"], OPS["spmm32"]):
        (path,) = (tmp_path / op.name).glob("*.npz")
        proposed = spaces.everything(problem_of(op, RECIPES[0].make(None)), _native.supports)[-7:]
        assert {one.to_json() for one in proposed} <= set(files.read(path).schedules)


@pytest.mark.parametrize(("for_training", "n_steps"), [(True, 6), (False, 8)])
def test_a_collection_for_training_leaves_out_what_no_training_may_see(tmp_path, for_training, n_steps):
    held_out = next(name for name in map(str, range(99)) if is_held_out(name))
    scipy.sparse.save_npz(tmp_path / "real.npz", scipy.sparse.eye_array(300, format="csr"))
    real = Recipe(kind="real", source="real.npz", group=held_out, nnz=300)
    order = order_of(tmp_path / "out", for_training=for_training, folder=tmp_path)
    assert len(list(collector_of(order).run([real, *RECIPES]))) == n_steps


def test_a_time_limit_ends_collection_and_the_rest_is_reported(tmp_path):
    assert list(collector_of(order_of(tmp_path, seconds=0.0)).run(RECIPES)) == []
    steps = list(collector_of(order_of(tmp_path, n_patterns=2)).run(RECIPES))
    assert len(steps) == 4
    assert steps[-1].left_s == 0.0


def test_kernels_ahead_are_those_that_patterns_ask_for(tmp_path):
    collector = collector_of(order_of(tmp_path, n_template_kernels=5))
    ahead = set(collector.kernels_ahead(OPS["spmv"]))
    assert set(space.everything(problem_of(OPS["spmv"]), _native.supports)) <= ahead
    assert len({one for one in ahead if one.threads}) == 5, "the template names threads"


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_kernels_ahead_are_those_of_patterns_of_any_shape(tmp_path, op):
    ahead = set(collector_of(order_of(tmp_path, n_template_kernels=5)).kernels_ahead(op))
    shapes = ([(100, 90), (100, 70_000), (70_000, 100), (70_000, 70_000)] if op.n_dims == 2 else
              [(9, 8, 7), (9, 7, 8), (70_000, 8, 7), (9, 70_000, 8), (9, 8, 70_000), (70_000, 70_000, 9)])  # fmt: skip
    for shape in shapes:
        corner = Coordinates.of(shape, [np.zeros(1, np.int64)] * op.n_dims)
        assert set(spaces.everything(problem_of(op, corner), _native.supports)) <= ahead


def test_patterns_that_cannot_be_made_are_left_out(tmp_path):
    gone = Recipe(kind="real", source="gone.npz", group="gone")
    assert len(list(collector_of(order_of(tmp_path)).run([gone, *RECIPES]))) == 6


def test_load_of_others_is_never_negative():
    before = Load.now()
    if before is None:
        pytest.skip("this system does not tell its load")
    assert Load.now().others_since(before) >= 0.0


def test_waiting_for_quiet_ends_with_the_time():
    ticks = iter(range(10))
    assert not wait_for_quiet(most_load=-1.0, until_s=3.0, clock=lambda: next(ticks), look_s=0.0) or Load.now() is None


def test_command_collects_resumes_and_merges(tmp_path, capsys):
    """Run collect, again (nothing new), merge and read, with real kernels on tiny patterns."""
    out, merged = tmp_path / "out", tmp_path / "merged"
    command = ["collect", "--out", str(out), "--ops", "spmv", "--patterns", "1", "--schedules", "8", "--seed", "11"]
    assert cli.main(command) == 0
    (path,) = (out / "spmv").glob("*.npz")
    found = files.read(path)
    assert found.facts["machine"]["cpu"] == Target.host().cpu
    assert found.facts["threads"] >= 1
    assert np.isfinite(found["ratio"][found["status"] != files.REFUSED]).all()
    assert (found["status"] != files.REFUSED).any()  # all may be far slower than the default kernel
    assert found.recipe.make(None).to_pattern().sparsity_hash == found.facts["sparsity_hash"]
    capsys.readouterr()
    assert cli.main(command) == 0
    assert capsys.readouterr().out.startswith("0 new times")
    assert cli.main(["collect", "--out", str(out), "--ops", "spmv", "--merge", str(merged)]) == 0
    (again,) = files.read_folder(merged, "spmv")
    assert_same(found, again)


def test_command_collects_matrices_and_tensors_in_turn(tmp_path, capsys):
    """Check with real kernels that every operation gets patterns of its order."""
    out = tmp_path / "out"
    command = ["collect", "--out", str(out), "--ops", "sddmm32,mttkrp16", "--patterns", "2", "--schedules", "6"]
    assert cli.main(command) == 0
    (matrix,), (tensor,) = (list(files.read_folder(out, op)) for op in ("sddmm32", "mttkrp16"))
    assert len(matrix.facts["shape"]) == 2
    assert len(tensor.facts["shape"]) == tensor.recipe.n_dims == 3
    for found, operation in ((matrix, "sddmm"), (tensor, "mttkrp")):
        assert found.facts["operation"] == operation
        assert {one.operation for one in found.super_schedules()} == {operation}
        assert (found["status"] != files.REFUSED).any()  # all may be far slower than the default kernel
        assert np.isfinite(found["ratio"][found["status"] != files.REFUSED]).all()
        assert found.recipe.make(None).to_structure().sparsity_hash == found.facts["sparsity_hash"]
    capsys.readouterr()
    assert cli.main(command) == 0
    assert capsys.readouterr().out.startswith("0 new times")


@pytest.mark.parametrize(
    "bad",
    [
        ["--ops", "nonsense"],
        ["--ops", ","],
        ["--matrices", "/no/such/folder"],
        ["--families", "batch,nonsense"],
        ["--families", "batch", "--ops", "spmv,mttkrp16"],
    ],
)
def test_command_refuses_what_it_cannot_do(tmp_path, bad, capsys):
    assert cli.main(["collect", "--out", str(tmp_path), *bad]) == 1
    assert "Hint" in capsys.readouterr().err
