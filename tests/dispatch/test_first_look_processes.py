"""Tests of the first look in fresh processes: what they import, and what they leave for the next process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse as sps
from autosparse.cache.accounts.rows import ACCOUNTS

import autosparse as asp
from tests.dispatch.test_first_look import account_of, matrix, own_cache, remembered  # noqa: F401  # a fixture

PROGRAM = """
import json, sys
import numpy as np, scipy.sparse as sps
import autosparse as asp
m = sps.load_npz(sys.argv[1])
A, x = asp.csr(m, copy=True), np.ones(m.shape[1])
A @ x
state = list(A._cell.dispatcher.states.values())[0] if A._cell.dispatcher else None
before = set(sys.modules)
n = 0
while n < 100000 and (state is None or not state.is_known):
    A @ x
    n += 1
    state = list(A._cell.dispatcher.states.values())[0] if A._cell.dispatcher else None
served = state.serving is not None
assert np.allclose(A @ x, m @ x)
state.commit()
{more}
print(json.dumps({{"n_calls": state.n_calls, "served": served, "new": sorted(set(sys.modules) - before)}}))
"""


def program(folder: Path, where: Path, more: str = "", **environment: str) -> dict[str, Any]:
    """Return what a fresh process reports about its products."""
    sps.save_npz(where / "m.npz", matrix())
    own = {"AUTOSPARSE_CACHE_DIR": str(folder), "AUTOSPARSE_EXTRA_MEMORY": "50"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(more=more), str(where / "m.npz")], env=os.environ | own | environment,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def files_in(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


def test_time_spent_by_a_process_is_read_by_the_next_one(tmp_path):
    folder = tmp_path / "kept"
    counts = [program(folder, tmp_path)["n_calls"] for _ in range(2)]
    with asp.options(cache_dir=folder, extra_memory=50.0):
        spent = account_of(folder, asp.csr(matrix(), copy=True)).spent
    assert spent.n_calls == sum(counts)
    assert (spent.n_processes, spent.n_objects) == (2, 2)
    assert spent.life_s > spent.product_s > 0.0


def test_a_process_writes_its_account_without_the_modules_of_tuning(tmp_path):
    more = "import atexit; atexit.register(lambda: print([m for m in sys.modules if 'tun' in m and 'sparse' in m]))\n"
    with pytest.raises(json.JSONDecodeError) as caught:
        program(tmp_path / "kept", tmp_path, more)
    assert caught.value.doc.splitlines()[-1] == "[]"
    assert [Path(one).name for one in files_in(tmp_path / "kept")].count(ACCOUNTS) == 1


@pytest.mark.parametrize("environment", [{"AUTOSPARSE_CACHE": "0"}, {"AUTOSPARSE_CACHE_MAX_BYTES": "0"}])
def test_without_a_cache_nothing_is_written(tmp_path, environment):
    found = program(tmp_path / "none", tmp_path, **environment)
    assert not found["served"]
    assert not files_in(tmp_path / "none")


def test_a_dead_matrix_is_counted_too(tmp_path):
    found = program(tmp_path / "kept", tmp_path, "n_calls = state.n_calls; del A")
    with asp.options(cache_dir=tmp_path / "kept", extra_memory=50.0):
        account = account_of(tmp_path / "kept", asp.csr(matrix(), copy=True))
    assert account.spent.n_calls == found["n_calls"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_does_not_write_what_its_parent_spent(tmp_path):
    more = "import os\npid = os.fork()\nif pid == 0:\n    sys.exit(0)\nos.waitpid(pid, 0)"
    found = program(tmp_path / "kept", tmp_path, more)
    with asp.options(cache_dir=tmp_path / "kept", extra_memory=50.0):
        account = account_of(tmp_path / "kept", asp.csr(matrix(), copy=True))
    assert account.spent.n_calls == found["n_calls"]
    assert account.spent.n_processes == 1


ALLOWED = {
    "autosparse.cache": {"", "accounts", "accounts.ledger", "accounts.rows", "artefacts", "envelope", "folder", "keys",
                         "locks", "stores", "trust"},
    "autosparse.core": {"", "expression", "formats", "pattern", "problem", "schedule", "solver", "target", "values"},
    "autosparse.dispatch": {"accounts", "calls", "fast_path", "first_look"},
    "autosparse.operands": {"holding"},
    "autosparse.ops": {"base", "matmul", "names", "table", "tuned"},
    "autosparse.targets": {"", "priors"},
    "autosparse.tuning": {"", "memory", "memory.light_bench", "memory.agreement", "memory.recall", "memory.recall_any",
                          "memory.stamps", "problems", "trials", "trials.copy_policy", "trials.comparison",
                          "trials.operand_adapter", "trials.iterations", "trials.kernel_trial", "trials.matmul",
                          "trials.served", "trials.service", "trials.specs"},
    "autosparse._native": {"c", "c.build", "ir", "ir.rough_times", "ir.slice_layout", "ir.spec", "kernels",
                           "kernels.kernel",
                           "kernels.precompiled", "kernels.shipped", "kernels.slice_names",
                           "storage", "storage.levels", "storage.dictionary",
                           "storage.packers", "storage.packing", "storage.row_orders", "storage.rows",
                           "storage.slices", "storage.stored"},
    "autosparse": {"_version", "log"},
}  # fmt: skip
"""Modules that loading a remembered plan of any format may import. Who adds one must say why it is needed.

`tests/dispatch/test_recalled_slices.py` bounds those of a plan on slices. `memory.recall_any` was part
of `memory.recall`, and `kernels.slice_names` says which plans are on slices.

Records name the version that wrote them (`_version`). `memory.light_bench` was part of `memory.recall`.

`core.solver` and `trials.served` name the choice that a trial runs; `ops.tuned` and `targets` hold the operation's
tuning row, which was part of `ops.matmul`. `ir.slice_layout` holds constants that were part of `storage.slices`.
"""


def test_serving_a_remembered_plan_imports_nothing_else(tmp_path):
    folder = tmp_path / "kept"
    with asp.options(cache_dir=folder, extra_memory=50.0):
        remembered(asp.csr(matrix(), copy=True))
    found = program(folder, tmp_path)
    assert found["served"]
    allowed = {f"{part}.{name}".rstrip(".") for part, names in ALLOWED.items() for name in names}
    ours = {name for name in found["new"] if name.startswith("autosparse")}
    assert not ours - allowed, sorted(ours - allowed)


def test_a_process_of_another_pattern_imports_no_tuning(tmp_path):
    found = program(tmp_path / "kept", tmp_path)
    assert not found["served"]
    assert not [name for name in found["new"] if name.startswith(("autosparse.tuning", "autosparse.tuner"))]


FIRST_USES = """
import json, sys
import numpy as np, scipy.sparse as sps, scipy.sparse.linalg
import autosparse as asp
def n_modules():
    return sum(name.startswith("autosparse") and one.__name__ == name for name, one in list(sys.modules.items()))
A = asp.csr(sps.eye_array(4000, format="csr"))
A @ np.ones(4000)
counts = [n_modules()]
A @ A
counts.append(n_modules() - sum(counts))
asp.linalg.cg(A, np.ones(4000), maxiter=3)
counts.append(n_modules() - sum(counts))
from autosparse.tuning import loading
of_steps = []
for name in (*loading.STEPS[:-1], "autosparse.tuning.live"):
    n_before = n_modules()
    __import__(name)
    of_steps.append(n_modules() - n_before)
counts += sum(of_steps), max(of_steps)
print(json.dumps(counts))
"""
MAX_MODULES = {
    "first product": 42, "first sparse product": 3, "first cg": 10, "modules of tuning": 100,
    "one of its steps": 30,
}  # fmt: skip
"""Maximum number of modules that a first use loads. Each costs 0.2 to 0.5 ms: the numbers may only fall."""


def test_first_uses_load_few_modules():
    own = {"AUTOSPARSE_EFFORT": "off"}  # where products are slow, the first look would come between them
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USES], env=os.environ | own, capture_output=True, text=True, check=True,
        timeout=300,
    )  # fmt: skip
    counts = dict(zip(MAX_MODULES, json.loads(done.stdout), strict=True))
    assert {use: n for use, n in counts.items() if n > MAX_MODULES[use]} == {}
