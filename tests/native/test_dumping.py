"""Tests that the folder of `dump_dir` is trusted by the rules of the cache folder: owner, mode, links."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from autosparse._native.kernels import dumping

from autosparse import config
from autosparse.errors import BuildError

NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "dumps"
    made.mkdir(mode=0o700)
    return made


def test_dumped_files_are_read_back(folder: Path) -> None:
    with config.options(dump_dir=folder):
        dumping.write({"a.c": "int a;", "a.ir": "loop"}, "a")
        assert dumping.read("a.c") == "int a;"
        assert dumping.read("b.c") is None
    assert dumping.read("a.c") is None
    assert sorted(path.name for path in folder.iterdir()) == ["a.c", "a.ir"]


def test_a_new_folder_is_private(tmp_path: Path) -> None:
    with config.options(dump_dir=tmp_path / "new" / "dumps"):
        dumping.write({"a.c": ""}, "a")
    assert stat.S_IMODE((tmp_path / "new" / "dumps").stat().st_mode) & 0o077 == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no mode bits")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o703])
def test_a_folder_that_others_can_write_is_refused(folder: Path, mode: int) -> None:
    (folder / "a.c").write_text("of somebody")
    folder.chmod(mode)
    with config.options(dump_dir=folder):
        assert dumping.read("a.c") is None
        with pytest.raises(BuildError, match=r"(?s)can be written by other users.*Hint: set AUTOSPARSE_DUMP_DIR"):
            dumping.write({"a.c": ""}, "a")
    assert (folder / "a.c").read_text() == "of somebody"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no mode bits")
def test_a_file_that_others_can_write_is_not_read(folder: Path) -> None:
    (folder / "a.c").write_text("of somebody")
    (folder / "a.c").chmod(0o666)
    with config.options(dump_dir=folder):
        assert dumping.read("a.c") is None


def test_links_are_neither_read_nor_written_through(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder / "a.c").symlink_to(victim)
    with config.options(dump_dir=folder):
        assert dumping.read("a.c") is None
        dumping.write({"a.c": "int a;"}, "a")
        assert dumping.read("a.c") == "int a;"
    assert victim.read_text() == "precious"


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root to give files away")
def test_files_and_folders_of_another_user_are_not_read(folder: Path) -> None:
    (folder / "a.c").write_text("of nobody")
    os.chown(folder / "a.c", NOBODY, NOBODY)
    with config.options(dump_dir=folder):
        assert dumping.read("a.c") is None
        os.chown(folder, NOBODY, NOBODY)
        with pytest.raises(BuildError, match="belongs to another user"):
            dumping.write({"b.c": ""}, "b")


PRODUCT = """
import numpy as np, scipy.sparse as sps, autosparse as asp, warnings
warnings.simplefilter("ignore")
A = asp.csr(sps.random_array((300, 300), density=.1, random_state=np.random.default_rng(0), format="csr"))
A.tune("matmul", columns=8, effort="measure", budget_s=1)
X = np.ones((300, 8))
np.testing.assert_allclose(A @ X, A.toarray() @ X)
np.testing.assert_allclose(asp.einsum("ij,ij->i", A, A), A.power(2).sum(axis=1))
"""


def test_products_go_on_without_a_folder_that_is_trusted(folder: Path, tmp_path: Path) -> None:
    folder.chmod(0o777)
    environment = {**os.environ, "AUTOSPARSE_DUMP_DIR": str(folder), "AUTOSPARSE_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", PRODUCT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
