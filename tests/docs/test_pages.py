"""Tests that every Python block of the documentation and every example of the gallery runs, page by page."""

from __future__ import annotations

import ast
import builtins
import re
import runpy
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
MADE = {"archive", "_generated"}
"""Folders of pages that are kept unchanged, or written by the build of the site."""
PAGES = [REPOSITORY / "README.md", *sorted(path for path in DOCS.rglob("*.md") if MADE.isdisjoint(path.parts))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ON_A_GPU = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS = {"torch": "torch", "gpu": "torch", "dask": "dask", "scikit-learn": "sklearn"}
"""Stem of a page -> the package that its code needs."""

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="needs the sources: this is an installed copy")


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def test_pages_have_code():
    assert len([page for page in PAGES if blocks(page)]) >= 12


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_a_block_that_imports_autosparse_can_be_copied_alone(page):
    """Compare the names that it reads with those that it assigns or imports."""
    for code in blocks(page):
        nodes = list(ast.walk(ast.parse(code)))
        bound = {alias.asname or alias.name.split(".")[0] for node in nodes for alias in getattr(node, "names", ())
                 if isinstance(alias, ast.alias)}  # fmt: skip
        names = [node for node in nodes if isinstance(node, ast.Name)]
        bound |= {node.id for node in names if isinstance(node.ctx, ast.Store)} | {*dir(builtins)}
        bound |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        if re.search(r"^import autosparse", code, re.MULTILINE):
            assert sorted({node.id for node in names} - bound) == []


def test_every_public_name_is_in_the_reference():
    from autosparse import _HOME_OF

    text = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    assert [name for name in _HOME_OF if name not in text] == []


@pytest.mark.full
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_code_of_a_page_runs(page, tmp_path, monkeypatch):
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem], reason=f"{NEEDS[page.stem]} is not installed")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for number, code in enumerate(blocks(page), start=1):
        exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)


def test_only_pages_about_gpus_have_code_that_needs_one():
    assert {page.stem for page in PAGES if ON_A_GPU.search(page.read_text(encoding="utf-8"))} <= {"gpu"}


@pytest.mark.full
def test_code_for_a_gpu_runs():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    for code in ON_A_GPU.findall((DOCS / "howto" / "gpu.md").read_text(encoding="utf-8")):
        exec(compile(code, "gpu.md", "exec"), {})


@pytest.mark.full
@pytest.mark.parametrize("path", sorted((DOCS / "gallery_src").glob("plot_*.py")), ids=lambda path: path.stem)
def test_examples_of_the_gallery_run(path, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(path))
