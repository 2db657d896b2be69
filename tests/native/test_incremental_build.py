"""A changed source or header of the runtime recompiles what includes it, and nothing else; only `make dev` compiles it
with less optimisation.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.house.sources import IN_CHECKOUT, REPOSITORY

pytestmark = [
    pytest.mark.skipif(not IN_CHECKOUT, reason="needs the sources: this is an installed copy"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
]


@pytest.fixture(scope="module")
def builder() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "_native" / "runtime" / "build_runtime.py"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sources, one of which includes a header through another one; all older than any compilation."""
    (tmp_path / "inner.h").write_text("#define VALUE 1\n")
    (tmp_path / "outer body.h").write_text('#include "inner.h"\n')
    (tmp_path / "includes.c").write_text('#include "outer body.h"\nint includes(void) { return VALUE; }\n')
    (tmp_path / "alone.c").write_text("int alone(void) { return 2; }\n")
    age(tmp_path)
    return tmp_path


def age(folder: Path) -> None:
    for path in folder.iterdir():
        os.utime(path, (time.time() - 10,) * 2)


def compiled(builder: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Names of the sources that a build compiles."""
    capsys.readouterr()
    objects = folder / "objects"
    objects.mkdir(exist_ok=True)
    for name in ("includes.c", "alone.c"):
        assert builder["_object"](folder / name, objects, ["-O0"]).exists()
    return [line.split()[1] for line in capsys.readouterr().out.splitlines()]


def test_only_what_includes_a_changed_file_is_compiled(
    builder: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiled(builder, folder, capsys) == ["includes.c", "alone.c"]
    assert compiled(builder, folder, capsys) == []
    (folder / "inner.h").write_text("#define VALUE 3\n")
    age(folder)
    assert compiled(builder, folder, capsys) == ["includes.c"]
    (folder / "alone.c").write_text("int alone(void) { return 4; }\n")
    age(folder)
    assert compiled(builder, folder, capsys) == ["alone.c"]
    assert compiled(builder, folder, capsys) == []


def test_times_alone_compile_nothing(builder: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fresh clone, and a branch that was left and taken up again, have new times and the same contents."""
    compiled(builder, folder, capsys)
    for path in folder.glob("*.[ch]"):
        path.touch()
    assert compiled(builder, folder, capsys) == []


def test_a_file_edited_meanwhile_is_compiled_again(
    builder: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.utime(folder / "inner.h", (time.time() + 60,) * 2)
    assert compiled(builder, folder, capsys) == ["includes.c", "alone.c"]
    assert compiled(builder, folder, capsys) == ["includes.c"]


def test_a_header_that_is_gone_is_noticed(
    builder: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled(builder, folder, capsys)
    (folder / "inner.h").rename(folder / "renamed.h")
    (folder / "outer body.h").write_text('#include "renamed.h"\n')
    age(folder)
    assert compiled(builder, folder, capsys) == ["includes.c"]


def objects(
    builder: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str], dev_flags: list[str]
) -> tuple[list[str], list[str]]:
    """Return the sources that a build compiles, and those that it links as compiled with `dev_flags`."""
    capsys.readouterr()
    made, dev_sources = builder["_objects"]([folder / "includes.c", folder / "alone.c"], ["-O3"], dev_flags)
    assert all(one.exists() for one in made)
    return sorted(line.split()[1] for line in capsys.readouterr().out.splitlines()), dev_sources


def test_dev_flags_are_for_changed_sources_until_the_next_full_build(
    builder: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(builder["_kept"].__globals__, "BUILD", folder / "build")
    assert objects(builder, folder, capsys, []) == (["alone.c", "includes.c"], [])
    assert objects(builder, folder, capsys, ["-O0"]) == ([], [])
    (folder / "inner.h").write_text("#define VALUE 3\n")
    os.utime(folder / "inner.h", (time.time() - 10,) * 2)
    assert objects(builder, folder, capsys, ["-O0"]) == (["includes.c"], ["includes.c"])
    assert objects(builder, folder, capsys, ["-O0"]) == ([], ["includes.c"])
    assert objects(builder, folder, capsys, []) == (["includes.c"], [])
    assert objects(builder, folder, capsys, ["-O0"]) == ([], [])


def test_generated_sources_are_written_again_when_a_module_that_writes_them_changes(
    builder: dict[str, Any], tmp_path: Path
) -> None:
    folder, module, state = tmp_path / "generated", tmp_path / "module.py", tmp_path / "generated.state"
    folder.mkdir()
    (folder / "written.c").write_text("int one;\n")
    module.write_text("ONE = 1\n")
    assert not builder["_is_written"](folder, state)
    state.write_text(f"{builder['_state_of_generated'](folder, [str(module)])}\n{module}")
    assert builder["_is_written"](folder, state)
    (folder / "written.c").write_text("int other;\n")
    assert not builder["_is_written"](folder, state)
    (folder / "written.c").write_text("int one;\n")
    assert builder["_is_written"](folder, state)
    module.write_text("ONE = 11\n")
    assert not builder["_is_written"](folder, state)


def test_generated_sources_are_written_again_when_a_header_gets_sources_of_each_level(
    builder: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, state, header = tmp_path / "generated", tmp_path / "generated.state", tmp_path / "products_isa.h"
    folder.mkdir()
    state.write_text(builder["_state_of_generated"](folder, []))
    assert builder["_is_written"](folder, state)
    header.write_text("int one;\n")
    monkeypatch.setitem(builder["_is_written"].__globals__, "_found", lambda pattern: [header])
    assert not builder["_is_written"](folder, state)


def test_a_runtime_with_dev_flags_has_another_identity(builder: dict[str, Any]) -> None:
    """Check that plans of one are not used by the other."""
    full, dev = builder["_identity"](), builder["_identity"](["-O1"], ["a.c", "b.c"])
    assert 'asp_dev_sources(void) { return ""; }' in full
    assert 'asp_dev_sources(void) { return "a.c b.c"; }' in dev
    assert full.split("asp_identity")[1].split(";")[0] != dev.split("asp_identity")[1].split(";")[0]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", ["dev", "test", "chaos", "bench", "demo", "wheel", "transfer"])
def test_only_make_dev_has_dev_flags(target: str) -> None:
    command = ["make", "--dry-run", "--always-make", target]
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert ("--dev=" in shown) == (target == "dev")
