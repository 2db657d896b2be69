"""Tests that every skip reason is classified: allowed anywhere, or only outside of continuous integration."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import IN_CHECKOUT, REPOSITORY
from tests.skips import REFUSED, is_allowed

pytestmark = pytest.mark.skipif(not IN_CHECKOUT, reason="needs the sources: this is an installed copy")
SKIPS = ("skip", "skipif", "importorskip")


def reasons() -> Iterator[tuple[str, str]]:
    """Return (location, reason) of every call that skips with a literal reason."""
    for path in sorted((REPOSITORY / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] not in SKIPS:
                continue
            named = {one.arg: one.value for one in node.keywords}
            said = named.get("reason", node.args[0] if node.args else None)
            where = f"{path.relative_to(REPOSITORY)}:{node.lineno}"
            if isinstance(said, ast.Constant) and isinstance(said.value, str):
                is_package = ast.unparse(node.func).endswith("importorskip") and "reason" not in named
                yield where, f"could not import {said.value!r}" if is_package else said.value


def test_every_reason_is_sorted():
    found = dict(reasons())
    assert len(found) > 50
    neither = {where: one for where, one in found.items() if not is_allowed(one) and not re.search(REFUSED, one)}
    assert not neither, "tests/skips.py: a row of ALLOWED, or words of REFUSED"


def test_packages_of_the_extras_are_not_allowed_to_be_missing():
    for package in (
        "torch",
        "numba",
        "hnswlib",
        "scikit-learn",
        "matplotlib",
        "xxhash",
        "threadpoolctl",
        "safetensors",
    ):
        for reason in (f"{package} is not installed", f"could not import {package!r}: No module named {package!r}"):
            assert not is_allowed(reason)


PROGRAM = """
import pytest
def test_skipped(): pytest.importorskip("no_such_package")
def test_elsewhere(): pytest.skip("needs a GPU")
def test_done(): pass
"""


@pytest.mark.parametrize(("is_ci", "workers"), [(True, "1"), (False, "0")], ids=["ci", "elsewhere"])
def test_a_missing_extra_fails_in_continuous_integration_only(tmp_path: Path, is_ci: bool, workers: str):
    (tmp_path / "conftest.py").write_text(
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\nfrom tests.skips import SkipCount\n"
        "def pytest_configure(config): config.pluginmanager.register(SkipCount(config))\n"
    )
    (tmp_path / "test_one.py").write_text(PROGRAM)
    (tmp_path / "test_two.py").write_text('import pytest\npytest.importorskip("torch_of_nobody")\n')
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CI"))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", str(tmp_path)]
    command += ["-p", "xdist.plugin"]
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | ({"CI": "true"} if is_ci else {})
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == int(is_ci), done.stdout + done.stderr
    for package in ("no_such_package", "torch_of_nobody"):
        assert f"1 could not import {package!r}" in done.stdout
    assert done.stdout.count("not in continuous integration") == 2
