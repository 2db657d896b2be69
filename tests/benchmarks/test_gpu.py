"""The comparison on a GPU: what it says of a wrong result."""

from __future__ import annotations

from typing import Any

import gpu
import pytest


def record(**changes: Any) -> dict[str, Any]:
    return {
        "case": "spmm A 32 float32", "part": "spmm", "schedule": "rows", "wrong": [], "rejected": [], "failed": {},
        "seconds": {"torch": 4.0, "autosparse": 2.0}, "is_dry": False, **changes,
    }  # fmt: skip


def test_a_wrong_result_is_told_and_is_no_win():
    wrong = record(case="spmm B 32 float32", wrong=["autosparse"], seconds={"torch": 9.0})
    told = gpu.table([record(), wrong])
    assert "WRONG spmm B 32 float32: autosparse" in told
    assert next(line for line in told.splitlines() if "torch " in line).split() == [
        "spmm",
        "torch",
        "1",
        "2.00",
        "2.00",
    ]


@pytest.mark.parametrize(
    ("changes", "is_bad"),
    [
        ({}, False),
        ({"wrong": ["autosparse"]}, True),
        ({"wrong": ["DGL"]}, False),
        ({"rejected": ["rows"]}, True),
        ({"failed": {"autosparse": "no"}}, True),
        ({"failed": {"autosparse": "no", "torch": "no"}}, False),
        ({"failed": {"kernel": "no", "torch": "no"}}, True),
    ],
)
def test_exit_status_is_of_what_is_ours(changes: dict[str, Any], is_bad: bool):
    assert gpu.is_bad(record(**changes)) is is_bad
