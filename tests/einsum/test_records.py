"""Tests of records of programs from wisdom files and other workers: only enumerated programs may run."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from autosparse.cache import wisdom
from autosparse.cache.envelope import Envelope
from autosparse.cache.stores import open_store

import autosparse as asp
from autosparse.contraction import remembered
from autosparse.contraction.candidates import candidates, listed
from tests.einsum.test_structures import as_dense, matrix

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.usefixtures("kernels_at_once"),
]
PRODUCT = "∀ij R[i,j] += T0[i:l,j:s] * T1[i:l,j:s]"
FORGED = {
    "sum for product": ("ij,ij->ij", {"knobs": "∀ij R[i,j] += T0[i:l,j:s] + T1[i:l,j:s]"}),
    "factor twice": ("ij,ij->ij", {"knobs": "∀ij R[i,j] += T0[i:l,j:s] * T1[i:l,j:s] * T1[i:l,j:s]"}),
    "stepped dense level": (
        "ij,ij->ij", {"knobs": "∀ij R[i,j] += T0[i:s,j:s] * T1[i:l,j:s]"}
    ),
    "workspace too small": (
        "ij,jk,k->ik",
        {"knobs": "∀i ((∀jk R[i,k] += w[j:s] * T2[k]) where (∀jk w[k] += T0[i:l,j:s] * T1[j:l,k:s]))"},
    ),
    "workspace of another": (
        "ij,jk,k->ik",
        {"knobs": "∀i ((∀k R[i,k] += w[k:l] * T2[k]) where (∀jk w[j] += T0[i:l,j:s] * T1[j:l,k:s]))"},
    ),
    "loops in another order": ("ij,j->ij", {"knobs": "∀ji R[i,j] += T0[i:l,j:s] * T1[j]"}),
    "index that no loop has": ("ij,ij->ij", {"knobs": "R[i,j] += T0[i:l,j:s] * T1[i:l,j:s]"}),
    "many parentheses": ("ij,ij->ij", {"knobs": "(" * 100_000 + PRODUCT + ")" * 100_000}),
    "knobs that are no text": ("ij,jk,k->ik", {"knobs": [1, 2]}),
    "another solver": ("ij,jk,k->ik", {"solver": "default"}),
    "no number of seconds": ("ij,jk,k->ik", {"predicted_s": float("1e300")}),
    "no seconds": ("ij,jk,k->ik", {"predicted_s": "many"}),
    "many seconds": ("ij,jk,k->ik", {"predicted_s": 1e15}),
}  # fmt: skip


def operands_of(text):
    return [matrix(n) if len(one) == 2 else np.ones(30) for n, one in enumerate(text.split("->")[0].split(","))]


def entry_of(text, folder):
    """Return the record that a call writes."""
    with asp.options(cache_dir=folder):
        remembered._choices.clear()
        asp.einsum(text, *operands_of(text))
        (entry,) = (one for one in wisdom.document_of(open_store().envelopes(("plan",)))["entries"])
    return entry


def sealed(entry, change):
    record = entry["record"] | change
    made = Envelope.seal("plan", entry["key"], record, schema=entry["schema"], saved_at=entry["saved_at"] + 10)
    return {"autosparse_wisdom": 1, "library": asp.__version__, "entries": [made.to_json()]}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("is_from_a_worker", [False, True], ids=["file", "worker"])
def test_forged_programs_do_not_run(name, is_from_a_worker, tmp_path):
    text, change = FORGED[name]
    document = sealed(entry_of(text, tmp_path / "mine"), change)
    remembered._choices.clear()
    with asp.options(cache_dir=tmp_path / "theirs"):
        if is_from_a_worker:  # as `autosparse.dask.sharing` does with a plan of another worker
            wisdom.merge(open_store(), json.loads(json.dumps(document)), name="the scheduler")
        else:
            (tmp_path / "forged.json").write_text(json.dumps(document))
            asp.wisdom_import(tmp_path / "forged.json")
        given = operands_of(text)
        found = as_dense(asp.einsum(text, *given))
    np.testing.assert_allclose(found, np.einsum(text, *[as_dense(one) for one in given]))
    (ran,) = remembered._choices.values()
    assert ran.program.plan.text in {str(one) for one in _enumerated(text)}
    assert ran.program.plan.dense_levels <= set(ran.program.plan.sparse)


def _enumerated(text):
    left, right = text.split("->")
    inputs = tuple(left.split(","))
    return candidates(inputs, right, tuple(len(one) == 2 for one in inputs)).members


def test_an_honest_record_is_used(tmp_path, monkeypatch):
    text = "ij,jk,k->ik"
    members = [str(one) for one in _enumerated(text)]
    document = sealed(entry_of(text, tmp_path / "mine"), {"knobs": members[-1]})
    (tmp_path / "honest.json").write_text(json.dumps(document))
    remembered._choices.clear()
    with asp.options(cache_dir=tmp_path / "theirs"):
        assert asp.wisdom_import(tmp_path / "honest.json") == 1
        given = operands_of(text)
        found = as_dense(asp.einsum(text, *given))
    np.testing.assert_allclose(found, np.einsum(text, *[as_dense(one) for one in given]))
    (ran,) = remembered._choices.values()
    assert ran.program.plan.text == members[-1]


def test_programs_of_an_expression_that_does_not_ship_are_listed():
    inputs, output, sparse = ("ij", "kj", "lj", "l"), "ik", (True, True, True, False)
    assert listed("∀i R[i,k] += T0[i:s]", inputs, output, sparse) is None
    found = candidates(inputs, output, sparse).members
    for one in (found[0], found[-1]):
        known = listed(str(one), inputs, output, sparse)
        assert known is not None
        assert (known.program, known.steps) == (one.program, one.steps)


def test_tensors_have_records_too(tmp_path):
    values = np.random.default_rng(0).random(40)
    T = asp.tensor(np.random.default_rng(1).integers(0, 9, (3, 40)), values, (9, 9, 9))
    with asp.options(cache_dir=tmp_path):
        wanted = as_dense(asp.einsum("ijk,jk->i", T, np.ones((9, 9))))
        remembered._choices.clear()
        np.testing.assert_array_equal(as_dense(asp.einsum("ijk,jk->i", T, np.ones((9, 9)))), wanted)
