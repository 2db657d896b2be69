"""What every test shares: a cache of its own, the real matrices if there are any, markers, hypothesis settings."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests import chaos
from tests.skips import SkipCount

CHAOS = pytest.StashKey[str]()

# No asserted times, same examples everywhere: a busy machine or another seed must not make a test fail.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("repeatable")

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked `full`")
    parser.addoption("--chaos", type=int, metavar="SEED", help="another machine and random times (tests/chaos.py)")


def pytest_configure(config: pytest.Config) -> None:
    """Before anything imports autosparse: plans and kernels of the tests go to a folder of this process."""
    folder = tempfile.TemporaryDirectory(prefix="autosparse-tests-")
    config.add_cleanup(folder.cleanup)
    base = os.environ.get("AUTOSPARSE_CACHE_DIR", folder.name)
    config.pluginmanager.register(SkipCount(config), "skips")
    if (seed := config.getoption("--chaos")) is not None:
        config.stash[CHAOS] = chaos.begin(seed)
    os.environ.setdefault("AUTOSPARSE_STRICT", "1")  # programming errors of the tuner fail the test that meets them
    os.environ["AUTOSPARSE_CACHE_DIR"] = str(Path(base, os.environ.get("PYTEST_XDIST_WORKER", "main")))


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the machine that the tests pretend to run on."""
    return f"chaos: {config.stash[CHAOS]}" if CHAOS in config.stash else None


def matrices_folder() -> Path | None:
    """The folder of real matrices (`AUTOSPARSE_MATRICES`, else ../shared/matrices beside the repository)."""
    folder = Path(os.environ.get("AUTOSPARSE_MATRICES") or REPOSITORY.parent / "shared" / "matrices")
    return folder if folder.is_dir() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests are left out and counted, not skipped one by one: thousands, each told from process to process."""
    if not config.getoption("--full"):
        slow = [item for item in items if item.get_closest_marker("full")]
        items[:] = [item for item in items if not item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=slow)
        config.pluginmanager.getplugin("skips").left_out = len(slow)
    no_matrices = pytest.mark.skip(reason="no real matrices: set AUTOSPARSE_MATRICES to a folder of .npz files")
    for item in items:
        if item.get_closest_marker("matrices") and matrices_folder() is None:
            item.add_marker(no_matrices)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Nearly all that is made while tests are collected stays: looking for garbage finds none, again and again.

    Where nothing is compiled to bytecode yet, two processes that import the same modules in the same order both compile
    each: every other process begins with the last.
    """
    gc.disable()
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if number.isdigit() and int(number) % 2 and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        for path in sorted(REPOSITORY.glob("tests/**/test_*.py"), reverse=True):
            with contextlib.suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):  # it is collected later
                importlib.import_module(".".join(path.relative_to(REPOSITORY).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """The collected tests live to the end: no garbage collection looks at them, and tests ask for many of those."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor does it look at what a module of tests leaves behind, libraries above all: each look would take a second."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_unconfigure() -> None:
    """The interpreter's last look must see everything: extension modules report what it leaves as leaks."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def matrices() -> Path:
    """The folder of real matrices; a test that takes it must be marked `matrices`."""
    folder = matrices_folder()
    assert folder is not None, "mark the test with pytest.mark.matrices"
    return folder


@pytest.fixture(autouse=True)
def clean_settings() -> Iterator[None]:
    """Options set by a test end with it, each test sees its own warnings, and the processor still knows subnormals.

    A library linked with -ffast-math turns them off for the whole process when it is loaded.
    """
    from autosparse import config, containment, notices

    yield
    config.reload_options()
    containment.forget_faults()
    notices.forget_warnings()
    assert np.float64(5e-324) * np.float64(1) > 0, "this test loaded code that flushes subnormal numbers to zero"
