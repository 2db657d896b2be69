"""Tests that run SciPy's test classes of all formats with our classes: none may fail."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

tb = pytest.importorskip("scipy.sparse.tests.test_base", reason="this SciPy was installed without its tests")

from tests.conformance.shipped import SHIPPED, over_our_classes  # noqa: E402

_MADE = over_our_classes(tb)
globals().update(_MADE)


def test_every_shipped_class_is_tested() -> None:
    shipped = [name for name in SHIPPED if hasattr(tb, name)]
    assert shipped
    twice = [name for name in shipped if name[4:7] in ("CSR", "CSC", "BSR", "COO")]
    assert set(_MADE) == {*shipped, *(f"{name}NonCanonical" for name in twice)}


_BROKEN_KERNEL = textwrap.dedent("""
    from autosparse.dispatch import executor

    right = executor.matmul

    def wrong(*args, **kwargs):
        C = right(*args, **kwargs)
        if C.size:
            C.reshape(-1)[-1] += 1
        return C

    executor.matmul = wrong
""")


@pytest.mark.full
def test_the_suite_notices_a_kernel_that_is_wrong_by_one(tmp_path: Path) -> None:
    (tmp_path / "broken_kernel.py").write_text(_BROKEN_KERNEL)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "broken_kernel", "-p", "no:cacheprovider", __file__]
    command += ["-k", "not wrong_by_one", "--no-header", "--tb=no"]
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        command, cwd=root, env={**_environment(), "PYTHONPATH": f"{tmp_path}"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 1, run.stdout[-2000:]
    failed = sum(line.startswith("FAILED") for line in run.stdout.splitlines())
    assert failed >= 20, run.stdout[-2000:]


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)
