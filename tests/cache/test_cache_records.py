"""Tests of keys, envelopes and records: exact round trips, and damaged content is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
from autosparse.cache.envelope import Envelope
from autosparse.cache.keys import PlanKey, canonical_json, file_name
from autosparse.cache.records import (
    FAILURE_LIFE_S,
    KINDS,
    Failure,
    plan_from_record,
    plan_to_record,
)
from hypothesis import given
from hypothesis import strategies as st

from autosparse.core.plan import Plan
from autosparse.core.solver import DEFAULT
from autosparse.errors import RecordError
from tests.cache.conftest import plans

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
records = st.dictionaries(st.text(), json_values, max_size=4)

KEY = PlanKey(
    pattern="ab" * 16,
    operation="matmul",
    transposed=False,
    columns_bucket=32,
    dtype="float32",
    index_dtype="int32",
    threads=2,
    deterministic=False,
    target="t",
    space="s",
    implementation="c",
    compiler="gcc",
    emitter="e",
    runtime="r",
)
OTHER_VALUES = {
    "solvers": "toy 1",
    "pattern": "cd" * 16,
    "operation": "sddmm",
    "transposed": True,
    "columns_bucket": 64,
    "dtype": "float64",
    "index_dtype": "int64",
    "threads": 1,
    "deterministic": True,
    "target": "u",
    "space": "r",
    "implementation": "numba",
    "compiler": "clang",
    "emitter": "f",
    "runtime": "q",
    "schema": 999,
}


@pytest.mark.parametrize("field", [item.name for item in dataclasses.fields(PlanKey)])
def test_key_every_field_changes_the_hash(field: str) -> None:
    other = dataclasses.replace(KEY, **{field: OTHER_VALUES[field]})
    assert other.stable_hash() != KEY.stable_hash()


def test_key_hash_is_the_same_in_every_process() -> None:
    fields = dataclasses.asdict(KEY)
    code = f"from autosparse.cache.keys import PlanKey; print(PlanKey(**{fields!r}).stable_hash())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == KEY.stable_hash()


@given(key=st.text())
def test_file_name_is_safe(key: str) -> None:
    name = file_name(key)
    assert set(name) <= set("0123456789abcdef")
    assert 16 <= len(name) <= 64


@given(one=st.text(), two=st.text())
def test_file_name_differs_for_different_keys(one: str, two: str) -> None:
    assert (file_name(one) == file_name(two)) == (one == two)


@given(record=records, key=st.text(max_size=50), saved_at=st.floats(0, 1e12))
def test_envelope_round_trip(record: dict[str, object], key: str, saved_at: float) -> None:
    sealed = Envelope.seal("plan", key, record, schema=1, saved_at=saved_at)
    assert sealed.record == record
    assert Envelope.from_bytes(sealed.to_bytes(), name="x") == sealed


@given(data=st.data(), plan=plans)
def test_envelope_one_changed_byte_is_noticed_or_harmless(data: st.DataObject, plan: Plan) -> None:
    sealed = Envelope.seal("plan", "k", plan_to_record(plan), schema=1, saved_at=1.5)
    content = bytearray(sealed.to_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(RecordError):
        # only white space changed, or a number to an equal one
        assert Envelope.from_bytes(bytes(content), name="x") == sealed


@given(data=st.data(), plan=plans)
def test_envelope_cut_short_is_noticed(data: st.DataObject, plan: Plan) -> None:
    content = Envelope.seal("plan", "k", plan_to_record(plan), schema=1, saved_at=1.5).to_bytes()
    n_bytes = data.draw(st.integers(0, len(content) - 2))  # without its last newline the content is still whole
    with pytest.raises(RecordError):
        Envelope.from_bytes(content[:n_bytes], name="x")


@given(content=st.binary() | records.map(lambda value: json.dumps(value).encode()))
def test_envelope_of_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(RecordError):
        Envelope.from_bytes(content, name="x")


def test_envelope_deeply_nested_json_is_refused() -> None:
    with pytest.raises(RecordError):
        Envelope.from_bytes(b"[" * 200_000, name="x")


def test_envelope_takes_numpy_scalars() -> None:
    record = {"f": np.float32(0.5), "i": np.int64(3), "b": np.bool_(True)}
    assert Envelope.seal("plan", "k", record, schema=1, saved_at=0).record == {"f": 0.5, "i": 3, "b": True}
    with pytest.raises(TypeError):
        canonical_json({"a": object()})


@given(plan=plans)
def test_plan_round_trip_is_exact(plan: Plan) -> None:
    on_disk = json.loads(json.dumps(plan_to_record(plan)))
    assert plan_from_record(on_disk) == dataclasses.replace(plan, remembered=True)


@given(record=records)
def test_plan_of_any_json_is_a_plan_or_a_record_error(record: dict[str, object]) -> None:
    with pytest.raises(RecordError):  # a random record never has both required fields
        plan_from_record(record)


@given(data=st.data(), plan=plans)
def test_plan_with_a_wrong_field_is_a_record_error(data: st.DataObject, plan: Plan) -> None:
    record = plan_to_record(plan)
    name = data.draw(st.sampled_from(sorted(record)))
    with pytest.raises(RecordError):
        plan_from_record(record | {name: {"wrong": []}})


def test_plan_of_a_later_release_with_more_fields_is_read() -> None:
    plan = Plan(choice=DEFAULT, why="w")
    assert plan_from_record(plan_to_record(plan) | {"later": [1]}) == dataclasses.replace(plan, remembered=True)


def test_failure_holds_for_its_compiler_for_a_while() -> None:
    failed = Failure(reason="r", compiler="gcc 12", failed_at=100.0)
    assert Failure.from_record(failed.to_record()) == failed
    assert failed.holds(compiler="gcc 12", now=100.0 + FAILURE_LIFE_S / 2)
    assert not failed.holds(compiler="gcc 13", now=101.0)
    assert not failed.holds(compiler="gcc 12", now=100.0 + 2 * FAILURE_LIFE_S)
    assert not failed.holds(compiler="gcc 12", now=50.0)  # before it failed: the clock was set back
    assert not dataclasses.replace(failed, library="other").holds(compiler="gcc 12", now=101.0)


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "machine"])  # the tuner checks that kind itself
def test_kind_refuses_records_of_others(kind: str) -> None:
    with pytest.raises(RecordError):
        KINDS[kind].check({"n_calls": "many", "reason": 3, "schedule": 7})
