"""Tests of type information: checkers see every public name, and report wrong arguments."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autosparse.config import Options
from tests.house.sources import IN_CHECKOUT, REPOSITORY

pytestmark = pytest.mark.skipif(not IN_CHECKOUT, reason="needs the sources: this is an installed copy")
SURFACE = Path(__file__).with_name("surface.py")
FOLDERS = {"autosparse": "", "tuner": "tuner", "cache": "cache", "_native": "_native"}


def typing_imports(module: Path) -> list[ast.ImportFrom]:
    """Return the imports under `TYPE_CHECKING`, in order."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    return [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]


def test_our_names_come_before_and_after_scipys():
    """Check the order of imports, because `scipy.sparse.csr` is also a module.

    Of two imports of one name, mypy takes the first and pyright the last.
    """
    order = [node.module for node in typing_imports(REPOSITORY / "autosparse" / "__init__.py")]
    assert order == ["autosparse._names", "autosparse._version", "scipy.sparse", "autosparse._names"]


def test_type_checkers_are_told_every_public_name():
    from autosparse import _HOMES

    tree = ast.parse((REPOSITORY / "autosparse" / "_names.py").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    told = {(node.module, alias.name) for node in imports for alias in node.names if alias.asname == alias.name}
    assert sorted(name for _, name in told) == sorted(name for names in _HOMES.values() for name in names)
    for home, name in told:  # csr_array and its siblings are typed in another module than the one that defines them
        assert getattr(importlib.import_module(str(home)), name) is getattr(importlib.import_module("autosparse"), name)


def test_options_are_typed_one_by_one():
    tree = ast.parse((REPOSITORY / "autosparse" / "config.py").read_text(encoding="utf-8"))
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    typed = [node.target for node in classes["OptionValues"].body if isinstance(node, ast.AnnAssign)]
    assert {node.id for node in typed if isinstance(node, ast.Name)} == set(Options._fields)


def installed(folder: Path) -> Path:
    """Copy the package into `folder` in its installed layout, for type checkers; return `folder`."""
    for name, inner in FOLDERS.items():
        kept = shutil.ignore_patterns("__pycache__", "*.so", "*.safetensors")
        shutil.copytree(REPOSITORY / name, folder / "autosparse" / inner, ignore=kept, dirs_exist_ok=True)
    return folder


@pytest.mark.full
def test_mypy_sees_wrong_arguments(tmp_path: Path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    copied = shutil.copy(SURFACE, tmp_path)
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        f"[mypy]\nstrict = True\nmypy_path = {installed(tmp_path / 'site')}\nignore_missing_imports = True\n"
        "[mypy-scipy.*]\nfollow_imports = skip\n[mypy-autosparse.*]\nignore_errors = True\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), "--python-executable", sys.executable]
    done = subprocess.run([*command, str(copied)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
def test_pyright_takes_csr_for_a_function(tmp_path: Path):
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    shutil.copy(SURFACE, tmp_path)
    installed(tmp_path / "site")
    (tmp_path / "pyrightconfig.json").write_text(
        '{"include": ["surface.py"], "extraPaths": ["site"], "reportUnnecessaryTypeIgnoreComment": "error"}'
    )
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "0 errors" in done.stdout, done.stdout + done.stderr
