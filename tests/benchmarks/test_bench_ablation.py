"""Tests of the ablation of formats and schedules: searches stay in their part of the space, tables are right."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ablation
import numpy as np
import pytest
import scipy.sparse
from autosparse.tuner.research.collect.operations import OPS, Op
from autosparse.tuner.research.generators.base import generate
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.space import spaces
from autosparse.tuner.space.neighbours import neighbours
from peerlib.parts import Part, PartSearch, base_schedule, format_part, kernels_of, schedule_part, under, whole
from peerlib.records import ResultFile

from autosparse import _native
from autosparse.calibration.collection import context_for
from autosparse.core.formats import CSR, Format
from autosparse.core.schedule import SuperSchedule
from autosparse.tuning.trials.context import TuningContext

MATRIX_OPS = [op for op in OPS.values() if op.n_dims == 2]


@pytest.fixture(params=MATRIX_OPS, ids=lambda op: op.name)
def op(request: pytest.FixtureRequest) -> Op:
    found: Op = request.param
    return found


@pytest.fixture
def context(op: Op) -> Iterator[TuningContext]:
    with context_for(generate("mesh", nnz=2_000, seed=1), op) as found:
        yield found


def parts_of(context: TuningContext, op: Op) -> list[Part]:
    base = base_schedule(op)
    return [format_part(context, base), schedule_part(base), whole([base])]


def test_the_base_is_csr_row_by_row_in_every_part(context: TuningContext, op: Op) -> None:
    base = base_schedule(op)
    assert context.supports(op.operation, base) is None
    assert (base.format, base.loop_order[:2], base.partition) == (CSR, ("i1", "k1"), "dynamic")
    assert base.chunk == (128 if op.name == "spmv" else 32)
    assert all(part.holds(base) and part.first[0] == base for part in parts_of(context, op))


def test_searches_are_offered_schedules_of_their_part_only(context: TuningContext, op: Op) -> None:
    base = base_schedule(op)
    for part in parts_of(context, op):
        search = PartSearch(context, part)
        offered = [
            *part.first,
            *spaces.candidates(context.problem, search.supports),
            *spaces.everything(context.problem, search.supports),
            *neighbours(context.problem, part.first[-1], search.supports),
        ]
        for one in offered:
            assert context.supports(op.operation, one) is None
            if part.name == "format":
                assert one == under(base, one.format)
            if part.name == "schedule":
                assert one.format == CSR
        n_formats = len({one.format for one in offered})
        assert n_formats == 1 if part.name == "schedule" else n_formats > 5


def test_another_format_keeps_all_but_the_order_of_loops(op: Op) -> None:
    base, fmt = base_schedule(op), Format.parse("i1:U,k1:C,i0:U,k0:U | i=4,k=2")
    changed = under(base, fmt)
    assert changed.loop_order[:4] == fmt.order
    assert changed.unroll == 1  # vectors extend along the blocks
    same = dataclasses.replace(changed, format=base.format, loop_order=base.loop_order, unroll=base.unroll)
    assert same == base
    panels = under(base, Format.parse("k1:U,i1:U,k0:C | k=1024"))
    assert panels.unroll == base.unroll


def test_kernels_to_build_ahead_hold_those_of_the_parts(context: TuningContext, op: Op) -> None:
    base = base_schedule(op)
    ahead = {spec.key() for spec in kernels_of(context, base)}
    assert {context.spec(one).key() for one in format_part(context, base).first} <= ahead
    assert len(ahead) > 50
    assert all(isinstance(spec, _native.KernelSpec) for spec in kernels_of(context, base))


@pytest.mark.full
def test_a_matrix_end_to_end_and_again(tmp_path: Path) -> None:
    found = generate("rmat", nnz=3_000, seed=2)
    m = scipy.sparse.coo_array((np.ones(found.nnz, np.float32), found.indices), shape=found.shape)
    scipy.sparse.save_npz(tmp_path / "graph.npz", m.tocsr())
    out = tmp_path / "out.jsonl"
    given = ["--matrices", str(tmp_path), "--min-nnz", "1", "--ops", "spmv", "--threads", "1", "--seconds", "6"]
    args = ablation.arguments([*given, "--cross", "1", "--json", str(out)])
    ablation.run(args, ResultFile(out))
    lines = out.read_text()
    ablation.run(args, ResultFile(out))
    assert out.read_text() == lines  # nothing is measured twice
    results = ResultFile(out)
    (record,) = results.cases(experiment="ablation")
    made = {name: SuperSchedule.from_json(text) for name, text in record["schedules"].items()}
    assert made["base"] == base_schedule(OPS["spmv"])
    assert made["format"] == under(made["base"], made["format"].format)
    assert made["schedule"].format == CSR
    assert set(record["times"]) == {"base", "format", "schedule", "both", "default"}
    assert not record["left_out"]
    own_s = {name: timing["median_s"] for name, timing in record["times"].items() if name != "default"}
    # the space of both contains the spaces of format and of schedule, which contain the base
    assert own_s["both"] <= min(own_s["format"], own_s["schedule"]) <= own_s["base"]
    (searched,) = results.cases(experiment="search")
    assert min(searched["n_measured"].values()) >= 1
    assert made["format"].to_json() in [made["base"].to_json(), *searched["finalists"]["format"]]
    (crossed,) = results.cases(experiment="cross")
    assert set(crossed["times"]) == {"base", "graph"}
    text = ablation.report(results)
    assert "| matrix | nonzeros | base | F. | S. | F.+S. |" in text
    assert "opt-graph" in text


def test_schedules_tuned_for_others_are_timed_or_left_out_with_the_reason() -> None:
    wide = generate("uniform", nnz=900, seed=1)
    (spmv,) = (op for op in MATRIX_OPS if op.name == "spmv")
    base = base_schedule(spmv)
    dense = under(base, Format.parse("i1:U,k1:U"))
    with context_for(Coordinates.of((30_000, 30_000), wide.indices), spmv) as context:
        record = ablation.borrowed(context, spmv, {"like it": base, "dense one": dense})
    assert record["times"]["like it"] == record["times"]["base"]  # one schedule is timed once
    assert set(record["left_out"]) == {"dense one"}
    assert "needs 3,600,000,000 bytes" in record["left_out"]["dense one"]


def test_schedules_without_room_beside_the_others_race_afterwards() -> None:
    """Two padded slice formats together exceed the memory for packed copies, so one must race after the other."""
    (spmv,) = (op for op in MATRIX_OPS if op.name == "spmv")
    n, length = 4_000, 100  # one long row in each slice, to whose length the others are padded
    rows = np.concatenate([np.arange(n), np.repeat(np.arange(0, n, 16), length)])
    pattern = Coordinates.of((n, n), (rows, np.random.default_rng(1).integers(0, n, rows.size)))
    base = base_schedule(spmv)
    padded = {kind: under(base, Format.parse(f"i1:U,k1:{kind},i0:U | i=16 | bits=16")) for kind in "SD"}
    with context_for(pattern, spmv) as context:
        needed = [
            _native.packed_bytes(context.problem.pattern, one.format, 4, transposed=False) for one in padded.values()
        ]
        assert max(needed) < context.limit_bytes < sum(needed)
        record = ablation.borrowed(context, spmv, padded)
    assert set(record["times"]) == {"base", "S", "D"}
    assert not record["left_out"]
    assert {"median_s", "low_s", "high_s", "n_samples", "n_calls_per_sample"} == set(record["times"]["D"])


def timed(**times_s: float) -> dict[str, Any]:
    return {name: {"median_s": time_s} for name, time_s in times_s.items()}


def test_gains_are_over_the_base_and_losses_over_the_own_schedule() -> None:
    records = [
        {"matrix": "a", "times": timed(base=4.0, a=1.0, b=2.0)},
        {"matrix": "b", "times": timed(base=6.0, a=6.0, b=2.0)},
        {"matrix": "c", "times": timed(base=1.0, a=1.0)},  # its own schedule could not run, so nothing can be compared
    ]
    assert ablation.gains(records[0]) == {"base": 1.0, "a": 4.0, "b": 2.0}
    assert ablation.mean_gain(records, "b") == pytest.approx((2.0 * 3.0) ** 0.5)
    assert ablation.losses(records) == [2.0, 3.0]
    rows = ablation.cross_table(records[:2]).split("\n")
    assert rows[0] == "| matrix | opt-a | opt-b |"
    assert rows[2:] == ["| a | **4.00** | 2.00 |", "| b | 1.00 | **3.00** |"]
