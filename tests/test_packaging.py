"""Tests that the installed package contains exactly the package files of the repository."""

from __future__ import annotations

import importlib
import runpy
import subprocess
import sys
import sysconfig
import types
import zipfile
from pathlib import Path

import pytest
from autosparse._native.kernels import identity
from autosparse._native.torch_extension.build_extension import OLDEST

import autosparse as asp
from autosparse.errors import MissingExtraError
from tests.house.sources import IN_CHECKOUT, REPOSITORY, sources

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

pytestmark = pytest.mark.skipif(not IN_CHECKOUT, reason="needs the sources: this is an installed copy")


def declared() -> dict[str, object]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))


def folders() -> set[str]:
    """Return the packages in the repository: every folder with an __init__.py."""
    found = set()
    for top, name in {
        "autosparse": "autosparse",
        "tuner": "autosparse.tuner",
        "cache": "autosparse.cache",
        "_native": "autosparse._native",
    }.items():
        for init in (REPOSITORY / top).rglob("__init__.py"):
            found.add(".".join((name, *init.parent.relative_to(REPOSITORY / top).parts)))
    return found


def test_packages_list_is_complete():
    assert set(declared()["tool"]["setuptools"]["packages"]) == folders(), "pyproject.toml: [tool.setuptools] packages"


def test_every_python_file_is_in_a_package():
    listed = set(declared()["tool"]["setuptools"]["packages"])
    for source in sources():
        package = source.name if source.path.name == "__init__.py" else source.name.rpartition(".")[0]
        assert package in listed, f"{source.path} is in no listed package"


def test_all_names_every_user_extra():
    extras = declared()["project"]["optional-dependencies"]
    named = set(extras["all"][0].removeprefix("autosparse[").removesuffix("]").split(","))
    assert named == set(extras) - {"test", "docs", "bench", "all"}


def test_bare_checkout_says_what_to_do(tmp_path):
    """A copy of autosparse/ beside a pyproject.toml, without the mapped folders, must name the missing step."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "autosparse").mkdir()
    for name in ("__init__.py", "_version.py", "forking.py"):
        (tmp_path / "autosparse" / name).write_text((REPOSITORY / "autosparse" / name).read_text())
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import autosparse"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert f"Hint: python -m pip install -e {str(tmp_path)!r}" in done.stderr


@pytest.mark.full
def test_wheel_holds_every_module_and_nothing_else(tmp_path):
    """`pip wheel .` must pack every module at its place and the C sources, but neither tests nor benchmarks."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(REPOSITORY),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {
        f"{source.name.replace('.', '/')}{'/__init__' if source.path.name == '__init__.py' else ''}.py"
        for source in sources()
    }
    assert expected == {name for name in names if name.endswith(".py")}
    files = (REPOSITORY / "_native/runtime").rglob("*.[ch]")
    runtime = {f"autosparse/{path.relative_to(REPOSITORY)}" for path in files}
    assert runtime <= names
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert f"autosparse/_native/_extension{suffix}" in names, "the module for this version of Python"
    assert "autosparse/_native/_runtime.abi3.so" in names
    rest = {Path(name).suffix for name in names - expected - runtime}
    assert rest <= {".typed", ".pyi", ".c", ".cpp", ".h", ".so", ".json", ".gz", ".npz", ".safetensors"}, rest


def test_the_extension_module_is_built_with_the_headers_of_numpy_2():
    """A module that is built with NumPy 2 runs with NumPy 1.26, too; one that is built with NumPy 1 needs NumPy 1."""
    facts = declared()
    assert "numpy>=2.0" in facts["build-system"]["requires"]
    header = (REPOSITORY / "_native/extension/extension.h").read_text(encoding="utf-8")
    assert "NPY_TARGET_VERSION NPY_1_25_API_VERSION" in header, "NumPy 1.26 has the C API of 1.25"
    assert "numpy>=1.26" in facts["project"]["dependencies"]


def test_programs_of_pyinstaller_contain_the_modules_and_files_that_are_found_by_name(monkeypatch):
    """The hook is run with the functions of PyInstaller that it calls, as far as they matter here."""
    hooks = types.ModuleType("PyInstaller.utils.hooks")
    names = [source.name for source in sources()]
    hooks.collect_submodules = lambda package, filter, on_error: [one for one in names if filter(one)]
    hooks.collect_data_files = lambda package, include_py_files, excludes: [package] if include_py_files else []
    monkeypatch.setitem(sys.modules, "PyInstaller", types.ModuleType("PyInstaller"))
    monkeypatch.setitem(sys.modules, "PyInstaller.utils", types.ModuleType("PyInstaller.utils"))
    monkeypatch.setitem(sys.modules, "PyInstaller.utils.hooks", hooks)
    module, _, function = declared()["project"]["entry-points"]["pyinstaller40"]["hook-dirs"].partition(":")
    (folder,) = getattr(importlib.import_module(module), function)()
    found = runpy.run_path(str(Path(folder) / "hook-autosparse.py"))
    assert set(asp._HOMES) <= set(found["hiddenimports"])
    assert not any("research" in one for one in found["hiddenimports"])
    assert found["datas"] == ["autosparse"]


def test_bytecode_without_sources_has_the_version_in_the_place_of_their_digest(monkeypatch, tmp_path):
    monkeypatch.setattr(identity, "__file__", str(tmp_path / "identity.pyc"))
    for implementation in identity.EMITTERS:
        assert identity.code_digest.__wrapped__(implementation) == asp.__version__


def test_cibuildwheel_builds_the_declared_versions_and_tests_existing_files():
    facts = declared()
    wheels, project = facts["tool"]["cibuildwheel"], facts["project"]
    named = [text.rpartition(" ")[2] for text in project["classifiers"] if "Python :: 3." in text]
    assert wheels["build"] == [f"cp{version.replace('.', '')}-*" for version in named]
    assert project["requires-python"] == f">={named[0]}", "a wheel for each version of Python"
    assert wheels["archs"] == ["x86_64", "aarch64"]
    words = wheels["test-command"].split()
    assert words[:3] == ["python", "-m", "pytest"]
    paths = [*wheels["test-sources"], *(word for word in words[3:] if not word.startswith("-"))]
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []
    assert set(wheels["test-requires"]) <= set(project["optional-dependencies"]["test"])


def test_the_extras_name_the_oldest_torch_that_the_module_is_built_for():
    wanted = f"torch>={'.'.join(map(str, OLDEST))}"
    extras = declared()["project"]["optional-dependencies"]
    assert [one for name in ("torch", "gpu") for one in extras[name] if one.startswith("torch")] == [wanted, wanted]
    assert wanted in (REPOSITORY / "tools" / "install_tests.sh").read_text(encoding="utf-8")


def test_the_tests_install_the_cpu_build_of_torch_and_every_extra_they_need():
    """`make test` and `make test-wheel` must share one script, which asks for the CPU build of torch."""
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    script = (REPOSITORY / "tools" / "install_tests.sh").read_text(encoding="utf-8")
    assert makefile.count("sh tools/install_tests.sh") == 2
    assert 'evaluate({"extra": "test"})' in script
    assert "https://download.pytorch.org/whl/cpu" in script
    assert "torch==2.13.0" in script
    assert "hnswlib" in script
    named = " ".join(declared()["project"]["optional-dependencies"]["test"])
    for package in (
        "numba",
        "scikit-learn",
        "matplotlib",
        "safetensors",
        "xxhash",
        "threadpoolctl",
        "networkx",
        "pyamg",
    ):
        assert package in named
    for document in ("README.md", "autosparse/errors.py"):
        assert "pip install torch --index-url" in (REPOSITORY / document).read_text(encoding="utf-8")


def test_error_for_missing_torch_names_the_cpu_build() -> None:
    index = "https://download.pytorch.org/whl/cpu"
    assert index in str(MissingExtraError.needed("torch", extra="torch", purpose="training"))
    assert index not in str(MissingExtraError.needed("numba", extra="numba", purpose="training"))
    assert index in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_wheels_for_another_processor_are_refused_with_the_hint(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho aarch64\n")
    python.chmod(0o755)
    command = ["sh", str(REPOSITORY / "tools" / "make_wheels.sh"), str(python), str(tmp_path / "dist")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "this machine is aarch64. Hint: pip install ." in done.stderr
    assert not (tmp_path / "dist").exists()
