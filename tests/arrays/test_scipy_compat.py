"""The namespace whose constructors return matrices of the library, and its deprecated name."""

from __future__ import annotations

import subprocess
import sys

import autosparse as asp


def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own: a module warns where it is imported first."""
    return subprocess.run([sys.executable, *options, "-c", script], capture_output=True, text=True, check=False)


def test_the_module_is_found_by_its_name_and_as_an_attribute():
    from autosparse import scipy_compat

    assert asp.scipy_compat is scipy_compat
    assert scipy_compat.csr_array is asp.csr_array
    assert scipy_compat.linalg is asp.linalg


def test_the_old_name_warns_once_and_returns_the_same_objects():
    for first in ("import autosparse.ours as sp", "from autosparse import ours as sp", "sp = autosparse.ours"):
        script = (
            "import warnings, autosparse\nwith warnings.catch_warnings(record=True) as caught:\n"
            f"    warnings.simplefilter('always')\n    {first}\n"
            "found = [one for one in caught if 'autosparse.scipy_compat' in str(one.message)]\n"
            "assert [one.category for one in found] == [DeprecationWarning], caught\n"
            "assert sp.eye_array is autosparse.scipy_compat.eye_array and sp.csr_array is autosparse.csr_array\n"
            "assert dir(sp) == dir(autosparse.scipy_compat)"
        )
        done = run(script)
        assert done.returncode == 0, done.stderr


def test_the_warning_names_the_line_that_imports():
    done = run("from autosparse.ours import vstack\nassert vstack", "-W", "error::DeprecationWarning:__main__")
    assert "autosparse.ours is now autosparse.scipy_compat" in done.stderr
    assert done.returncode == 1


def test_the_old_name_is_not_listed():
    assert "ours" not in dir(asp)
    assert "scipy_compat" in dir(asp)
    done = run("import autosparse, sys; dir(autosparse); assert 'autosparse.ours' not in sys.modules")
    assert done.returncode == 0, done.stderr
