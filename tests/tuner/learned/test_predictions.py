"""Tests that the encoding of schedules for models does not change with their representation."""

from __future__ import annotations

import json

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse.tuner.learned.predict import LearnedModel
from autosparse.tuner.space.own import own_space

from autosparse.core.schedule import RUNTIME_TILE, SuperSchedule
from autosparse.core.target import Target
from autosparse.tuning.learned import shipped_folder
from tests.house.sources import REPOSITORY
from tests.tuner.learned import predictions

WANTED = json.loads((REPOSITORY / "tests/golden/predictions.json").read_text(encoding="utf-8"))
pytestmark = pytest.mark.skipif(
    not runtime_api.available or Target.host().machine != "x86_64", reason="no model is shipped for this machine"
)


@pytest.mark.parametrize("op", predictions.COLUMNS)
@pytest.mark.parametrize("family", predictions.FAMILIES)
def test_predictions_equal_those_recorded_before_the_implementation_field(op: str, family: str) -> None:
    """Compare with recorded predictions.

    The values were recorded before schedules had the field `implementation`. Learned values of spmm32 and sddmm32 and
    analytic values of spmv were recorded again when models or portfolios changed.
    """
    wanted = WANTED[f"{op} {family}"]
    for kind, ratios in predictions.learned(op, family).items():
        np.testing.assert_allclose(ratios, wanted["learned"][kind], rtol=1e-3, err_msg=kind)
    found = predictions.analytic(op, family)
    np.testing.assert_allclose(
        [found[name] for name in wanted["analytic"]], list(wanted["analytic"].values()), rtol=1e-6
    )


@pytest.mark.parametrize("op", ["spmm256", "sddmm256"])
def test_codes_of_a_portfolio_are_those_of_their_schedules(op: str) -> None:
    model = LearnedModel.read(shipped_folder(Target.host()), op)
    known = {node: model.schedule(node) for node in range(len(model.codes))}
    found = {node: one for node, one in known.items() if one is not None}
    assert any(one.is_precompiled for one in found.values())
    np.testing.assert_array_equal(model._rows(list(found.values())), model.codes[list(found)])


@pytest.mark.parametrize("algorithm", ["spmm", "sddmm"])
def test_texts_from_before_the_field_are_read(algorithm: str) -> None:
    """Check that old records with a tile of RUNTIME_TILE, which meant the runtime's loops, are still read."""
    space = own_space(algorithm, threads=(0,))
    rng = np.random.default_rng(0)
    ready = next(one for one in (space.sample(rng) for _ in range(1000)) if one.is_precompiled)
    loops = ["i1", "j1", "k1", "j0"] if algorithm == "spmm" else ["i1", "k1", "j1", "j0"]
    old = {**json.loads(ready.to_json()), "loop_order": loops, "dense_splits": [["j", RUNTIME_TILE]]}
    del old["implementation"]
    assert SuperSchedule.from_json(json.dumps(old)) == ready
    assert SuperSchedule.from_json(ready.to_json()) == ready
