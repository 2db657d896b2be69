"""Tests of the build script of the C++ module for PyTorch; nothing is compiled here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from autosparse._native.torch_extension import build_extension


def torch_folder(folder: Path, version: str) -> Path:
    """Create a folder that looks like PyTorch's as far as the script reads it."""
    folder.mkdir()
    (folder / "version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\n")
    return folder


def compiler(folder: Path, program: str) -> str:
    """Create a program that takes the place of the compiler, and return its command."""
    path = folder / "compiler.py"
    path.write_text(program)
    return f"{sys.executable} {path}"


WRITES = "import sys\nopen(sys.argv[sys.argv.index('-o') + 1], 'w').write('module')\n"


def test_a_module_is_built_once_for_each_version(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", compiler(tmp_path, WRITES))
    out = tmp_path / "out"
    first = build_extension.build_into(out, torch_folder(tmp_path / "a", "2.13.0+cpu"))
    second = build_extension.build_into(out, torch_folder(tmp_path / "b", "2.14.1"))
    assert first.name == build_extension.file_name("2.13.0")
    assert sorted(out.iterdir()) == sorted([first, second])
    monkeypatch.setenv("CXX", compiler(tmp_path, "raise SystemExit(1)"))  # not called again
    assert build_extension.build_into(out, tmp_path / "a") == first


def test_a_module_of_other_sources_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", compiler(tmp_path, WRITES))
    torch, out = torch_folder(tmp_path / "torch", "2.13.0"), tmp_path / "out"
    old = build_extension.build_into(out, torch)
    sources = tmp_path / "sources"
    sources.mkdir()
    for source in build_extension.FOLDER.glob("*.[ch]*"):
        (sources / source.name).write_text(source.read_text() + "\n")
    monkeypatch.setattr(build_extension, "FOLDER", sources)
    new = build_extension.build_into(out, torch)
    assert new != old
    assert list(out.iterdir()) == [new]


def test_faults_are_reported(tmp_path, monkeypatch):
    out = tmp_path / "out"
    with pytest.raises(build_extension.UnbuiltError, match="older than"):
        build_extension.build_into(out, torch_folder(tmp_path / "old", "2.8.0"))
    with pytest.raises(build_extension.UnbuiltError, match="no PyTorch"):
        build_extension.build_into(out, tmp_path / "nowhere")
    torch = torch_folder(tmp_path / "torch", "2.13.0")
    monkeypatch.setenv("CXX", compiler(tmp_path, "raise SystemExit('no header')"))
    with pytest.raises(build_extension.UnbuiltError, match="no header"):
        build_extension.build_into(out, torch)
    assert not list(out.glob("*.so"))
    monkeypatch.setenv("AUTOSPARSE_TORCH", "")
    assert build_extension.torch_folders() == []
    assert build_extension.main() == 1
    monkeypatch.setenv("AUTOSPARSE_TORCH", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    assert build_extension.torch_folders() == [tmp_path / "a", tmp_path / "b"]
