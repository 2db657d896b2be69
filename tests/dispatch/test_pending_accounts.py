"""Tests of calls and times that a process has not recorded yet."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from autosparse.dispatch import accounts


def test_a_process_that_meets_ever_new_problems_keeps_the_longest(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(accounts, "PENDING", {})
    spender: Any = SimpleNamespace(n_calls=1, commit=lambda: None, live_tuner=None, early=None, tuned_ns=0)
    for n in range(1, 3001):
        spender.product_ns = n * 7919 % 3001 * 1000  # 1 to 3000 us in another order
        accounts.ProblemAccount(tmp_path, tmp_path, n.to_bytes(16, "big")).collect(spender)
        assert len(accounts.PENDING) <= 2 * accounts.MAX_WRITTEN
    kept = sorted(round(1e6 * product_s) for _, _, product_s, *_ in accounts.PENDING.values())
    assert kept[-accounts.MAX_WRITTEN :] == list(range(3001 - accounts.MAX_WRITTEN, 3001))
