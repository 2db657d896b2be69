"""Tests of imports: a fork while another thread imports, and modules that are loaded without garbage collection."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp

PROGRAM = """
import faulthandler, importlib, os, sys, threading
from autosparse import forking
forking.PATIENCE_S = 0.05
import autosparse
autosparse.__path__.append(sys.argv[1])
sys.begun, sys.may_end = threading.Event(), threading.Event()
thread = threading.Thread(target=importlib.import_module, args=("autosparse.imported_slowly",))
thread.start()
sys.begun.wait()
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(60, exit=True)
    sys.may_end.set()
    os._exit(0 if importlib.import_module("autosparse.imported_slowly").DONE == "whole" else 3)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.may_end.set()
thread.join()
assert sys.modules["autosparse.imported_slowly"].DONE == "whole", "the parent's own import goes on"
sys.exit(code)
"""
SLOW = """
import sys
from autosparse import imported_beside
sys.begun.set()
sys.may_end.wait()
DONE = imported_beside.DONE
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX")
def test_a_module_that_another_thread_was_importing_is_imported_anew_in_the_child(tmp_path: Path) -> None:
    (tmp_path / "imported_slowly.py").write_text(SLOW)
    (tmp_path / "imported_beside.py").write_text("DONE = 'whole'")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


LOADING = """
import gc, importlib, sys
from autosparse import forking
sys.path.insert(0, sys.argv[1])
collections = []
gc.collect()
gc.callbacks.append(lambda phase, info: collections.append(info))
with forking.loading():
    importlib.import_module("many_objects")
assert gc.isenabled() and gc.get_freeze_count() == 0
kept = [[] for _ in range(10)]
assert not collections, collections

gc.freeze()
with forking.loading():
    del sys.modules["many_objects"]
    importlib.import_module("many_objects")
assert gc.get_freeze_count() > 0, "what the program froze stays frozen"

gc.disable()
with forking.loading():
    del sys.modules["many_objects"]
    importlib.import_module("many_objects")
assert not gc.isenabled()
"""


def test_objects_of_loaded_modules_cause_no_collection(tmp_path: Path) -> None:
    (tmp_path / "many_objects.py").write_text("kept = [[] for _ in range(20_000)]\n")
    subprocess.run([sys.executable, "-c", LOADING, str(tmp_path)], check=True, timeout=300)


@pytest.mark.parametrize(
    "name", ["autosparse.arrays.sparse_tensor", "autosparse.ops.registry", "dask.array", "sparse", "pandas"]
)
def test_a_module_that_another_thread_imports_is_not_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A = sps.csr_array(np.arange(12.0).reshape(4, 3))
    module = ModuleType(name)  # no class and no function exists yet
    module.__spec__ = ModuleSpec(name, None)
    module.__spec__._initializing = True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    ours = asp.csr(A)
    np.testing.assert_array_equal((ours.T @ ours).toarray(), (A.T @ A).toarray())
    np.testing.assert_array_equal(asp.einsum("ij,j->i", ours, np.ones(3)), A @ np.ones(3))
