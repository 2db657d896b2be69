"""Tests of the public names: a change shows as a difference from tests/golden/public_api.txt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import scipy.sparse

import autosparse

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "public_api.txt"
FAMILY = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
HEAVY = ("torch", "numba", "matplotlib", "hnswlib", "dask", "pycparser", "sklearn", "pandas", "setuptools", "triton")


def public_api() -> list[str]:
    """Return the package's own names, and the public names that its classes add to SciPy's."""
    from autosparse import _HOME_OF, _SUBMODULES

    names = [f"autosparse.{name}" for name in (*_HOME_OF, *_SUBMODULES)]
    for cls in FAMILY:
        added = {name for name in dir(getattr(autosparse, cls)) if not name.startswith("_")}
        added -= set(dir(getattr(scipy.sparse, cls)))
        names += [f"autosparse.{cls}.{name}" for name in added]
    return sorted(names)


def test_public_names_are_those_of_the_golden_file():
    assert public_api() == GOLDEN.read_text().split()


def test_every_public_name_can_be_had():
    from autosparse import _HOME_OF

    for name in _HOME_OF:
        assert getattr(autosparse, name) is not None


def test_every_name_of_scipy_sparse_is_there():
    for name in scipy.sparse.__all__:
        assert getattr(autosparse, name) is not None
    assert set(scipy.sparse.__all__) <= set(dir(autosparse)) >= set(autosparse.__all__)


def test_family_is_scipys():
    for name in FAMILY:
        assert issubclass(getattr(autosparse, name), getattr(scipy.sparse, name))


def test_csgraph_is_scipys_own():
    import autosparse.csgraph

    assert autosparse.csgraph is scipy.sparse.csgraph


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'autosparse' has no attribute 'nonsense'"):
        _ = autosparse.nonsense


@pytest.mark.parametrize(
    ("script", "absent"),
    [
        ("import autosparse", (*HEAVY, "scipy", "numpy", "cffi")),
        ("import autosparse, numpy; A = autosparse.csr_array(numpy.eye(9)); A @ numpy.ones(9)", HEAVY),
    ],
    ids=["import", "first product"],
)
def test_nothing_optional_is_imported(script, absent):
    check = f"{script}\nimport sys\nfound = [name for name in {absent} if name in sys.modules]\nassert not found, found"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
