"""Law: a tuned kernel that is faster computes nearly all products; it is compared with the default one now and then."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse.tuner import space

import autosparse
from tests.executor.forcing import force, make, slot_of

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")


def test_pauses_between_comparisons_are_kept() -> None:
    A = autosparse.csr(make(), copy=True)
    x = np.ones(A.shape[1], np.float32)
    force(A, space.schedule("matmul", "csr", {}))
    slot = slot_of(A)
    for _ in range(3000):
        A @ x
    if slot.turn is None:
        pytest.skip("the machine was so busy that the comparison dropped the tuned kernel")
    slot.settle()
    # Comparisons of 8 rounds after 64, 256, 1024, ... products: the default kernel had a few dozen turns, no more.
    assert slot.n_calls == 3000
    assert slot.n_calls - slot.n_tuned <= 60
