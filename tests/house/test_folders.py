"""Tests of folders: a folder of the library holds at most 15 modules; a folder of tests is named like a library's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.house.sources import REPOSITORY, library

TESTS = Path(__file__).resolve().parent.parent
MAX_MODULES = 15

EXCEPTIONS = {
    "conformance": "SciPy's own tests, which know none of our folders",
    "docs": "the pages of `docs/`",
    "benchmarks": "the scripts of `benchmarks/`",
    "einsum": "of `autosparse/contraction`, by the name that users call",
    "fuzz": "whole programs with inputs drawn by seed: files, records, forks, calls",
    "golden": "texts that tests of several folders compare with",
    "house": "laws about the source itself",
    "triton": "of `_native/triton`, `autosparse/cuda` and `autosparse/gpu`, on one device that stands in",
    "typing": "what type checkers see of the surface",
}
"""Folder of `tests/` without a counterpart in the library -> subject of its tests."""


def modules() -> Counter[str]:
    names = [source.name for source in library()]
    folders = {name.rpartition(".")[0] for name in names}
    return Counter(name.rpartition(".")[0] for name in names if name not in folders)


@pytest.mark.parametrize("folder", sorted(modules()))
def test_a_folder_holds_few_modules(folder: str) -> None:
    assert modules()[folder] <= MAX_MODULES, "too many modules: make a folder of those that belong together"


def folders_of_tests() -> list[str]:
    """Return the paths below `tests/` that hold tests or helpers of tests."""
    return sorted({path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py")} - {"."})


def library_folders() -> set[str]:
    """Return the paths of the library's folders as tests write them: `tuner/learned`, `torch/autograd`, `native`."""
    found = set()
    for source in library():
        parts = source.name.removeprefix("autosparse.").lstrip("_").split(".")[:-1]
        found |= {"/".join(parts[: n + 1]) for n in range(len(parts))}
    return found


@pytest.mark.parametrize("folder", [one for one in folders_of_tests() if one.split("/")[0] not in EXCEPTIONS])
def test_a_folder_of_tests_is_named_like_one_of_the_library(folder: str) -> None:
    assert folder in library_folders(), "name it like the folder whose laws it states, or explain it in EXCEPTIONS"


def test_sources_of_the_runtime_have_distinct_names() -> None:
    """Check the names without folders: `build_runtime.py` puts all objects into one folder, and includes by name."""
    names = Counter(path.name for kind in "ch" for path in (REPOSITORY / "_native" / "runtime").rglob(f"*.{kind}"))
    assert [name for name, n in names.items() if n > 1] == []


@pytest.mark.parametrize("folder", sorted(EXCEPTIONS))
def test_exceptions_are_there(folder: str) -> None:
    assert (TESTS / folder).is_dir(), "remove it from EXCEPTIONS"


def test_folders_are_found() -> None:
    assert {"dispatch", "tuner/learned", "torch/dispatcher", "native"} <= set(folders_of_tests())
