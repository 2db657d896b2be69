"""Tests that our warnings never raise: where a filter makes errors of them, they are logged."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from autosparse._native import runtime_api

import autosparse as asp
from autosparse.notices import CacheWarning, FallbackWarning, warn_once
from tests.tuning.compilers import executable
from tests.tuning.forcing import ENOUGH_S, close, dense, make, until

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


@pytest.mark.parametrize("category", [FallbackWarning, CacheWarning])
def test_a_warning_that_would_be_raised_is_logged(category: type[Warning], caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "autosparse"):
        warnings.simplefilter("error")
        for _ in range(3):
            warn_once(category, "key", "what happened")
    assert [record.getMessage() for record in caplog.records] == [f"{category.__name__}: what happened"]


@pytest.mark.parametrize("asked", [True, False])
def test_neither_product_nor_plan_is_lost_to_a_warning(
    tmp_path: Path, asked: bool, caplog: pytest.LogCaptureFixture, paid: None
) -> None:
    """Check a compiler that fails and a cache that cannot be written: each is warned of once."""
    no_folder = tmp_path / "file"
    no_folder.write_text("no folder")
    plain = make(300, 300)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    compiler = executable(tmp_path / "cc", "#!/bin/sh\nexit 1\n")
    options = {"compiler": compiler, "cache_dir": no_folder, "overhead": 1.0, "runs": 10**12}
    with asp.options(**options), warnings.catch_warnings():
        warnings.simplefilter("error")
        if asked:
            assert A.tune(columns=8, budget_s=ENOUGH_S).candidates
        for _ in until(lambda: {"FallbackWarning", "CacheWarning"} <= {text.split(":")[0] for text in caplog.messages}):
            close(A @ B, plain @ B)
    logged = [text.split(":")[0] for text in caplog.messages]
    assert logged.count("FallbackWarning") == logged.count("CacheWarning") == 1


def test_a_foreign_warning_ends_tuning_but_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    from autosparse.tuning import live

    def warn(*given: object, **hints: object) -> None:
        warnings.warn("of somebody else", RuntimeWarning, stacklevel=1)

    plain = make(300, 300)
    A, B = asp.csr(plain, copy=True), dense(plain, 8)
    monkeypatch.setattr(live.LiveTuner, "_go_on", warn)
    with asp.options(overhead=1.0, runs=10**12), warnings.catch_warnings():
        warnings.simplefilter("error")
        close(A @ B, plain @ B)


def test_the_library_emits_no_warnings_itself(tmp_path: Path) -> None:
    """Check all steps from import to exit, in an interpreter that makes errors of all warnings."""
    script = (
        "import numpy as np, scipy.sparse as sps, autosparse as asp\n"
        "m = sps.random_array((200, 200), density=0.1, format='csr', random_state=np.random.default_rng(0))\n"
        f"asp.set_options(cache_dir={str(tmp_path)!r}, overhead=1.0, runs=10**12)\n"
        "A = asp.csr(m); x = np.ones(200)\n"
        "for _ in range(30): assert np.allclose(A @ x, m @ x)\n"
        "A.tune(columns=4, budget_s=1); str(A.explain(x)); A.T @ x; A @ A\n"
        "asp.sddmm(A, np.ones((200, 4)), np.ones((4, 200)))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
