"""Tests that a tuned kernel that turned out to be slow is dropped in torch's products too."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse.tuner.space import families as space

import autosparse as asp
from autosparse.core.plan import Plan
from autosparse.core.solver import choice_of
from autosparse.dispatch.state import state_for
from autosparse.tuning import planner
from autosparse.tuning.setup import context_of, live_tuner_of, session_of
from tests.torch.samples import torch
from tests.tuning.conftest import tuned_is_slower  # noqa: F401

import autosparse.torch as at  # isort: skip
from autosparse.torch.operand import held  # isort: skip


@pytest.mark.usefixtures("tuned_is_slower")
@pytest.mark.parametrize("transposed", [False, True])
def test_a_slow_plan_is_given_up(*, transposed: bool) -> None:
    rng = np.random.default_rng(0)
    crow = torch.arange(0, 6401, 8)
    col = torch.tensor(np.sort(rng.permuted(np.tile(np.arange(800), (800, 1)), axis=1)[:, :8], axis=1).ravel())
    A = at.csr(torch.sparse_csr_tensor(crow, col, torch.randn(6400), (800, 800)))
    B = torch.randn(800, 64)
    schedule = space.schedule("matmul", "bcsr", {"r": 8, "c": 8}, tile=16)
    with asp.options(extra_memory=500.0), torch.no_grad():
        left = A.t() if transposed else A
        for _ in range(60):  # until the transpose is built
            left @ B
        with held(A.rows, A.values, transposed=transposed) as ours:
            state = state_for(ours, ours.rows, 64, False)
            context = context_of(ours, state)
            plan = Plan(choice=choice_of(schedule), why="", default_s=1.0, measured_s=0.5)
            decision = planner.adopt(context, plan)
            assert decision.trial is not None
            live_tuner = live_tuner_of(state, ours)
            live_tuner.install(session_of(live_tuner, ours, (context, decision)))
        for _ in range(400):
            left @ B
            if live_tuner.session.incumbent is None:
                return
        raise AssertionError("a slow kernel still serves")
