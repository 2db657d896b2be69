"""Fixtures and hooks of all tests: private caches, the real matrices if present, markers, hypothesis settings."""

from __future__ import annotations

import atexit
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

from tests import chaos, kept_objects
from tests.skips import SkipCount

CHAOS = pytest.StashKey[str]()

# No time limits, and the same examples everywhere: a busy machine or another seed must not make a test fail.
settings.register_profile(
    "full", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("usual", settings.get_profile("full"), max_examples=25)
settings.load_profile("usual")

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked `full`")
    parser.addoption("--chaos", type=int, metavar="SEED", help="another machine and random times (tests/chaos.py)")


def pytest_configure(config: pytest.Config) -> None:
    """Put plans and kernels of the tests in a folder of this process, before anything imports autosparse."""
    folder = tempfile.TemporaryDirectory(prefix="autosparse-tests-")
    config.add_cleanup(folder.cleanup)
    base = os.environ.get("AUTOSPARSE_CACHE_DIR", folder.name)
    atexit.register(leave, os.getpid() if hasattr(config, "workerinput") else None)
    config.pluginmanager.register(SkipCount(config), "skips")
    if config.getoption("--full"):
        settings.load_profile("full")  # 100 examples of each property that names no number
    if (seed := config.getoption("--chaos")) is not None:
        config.stash[CHAOS] = chaos.begin(seed)
    os.environ.setdefault("AUTOSPARSE_RATES", "off")  # estimates do not depend on the machine that runs the tests
    kept_objects.begin(Path(folder.name))
    os.environ.setdefault("AUTOSPARSE_STRICT", "1")  # programming errors of the tuner fail the test that meets them
    os.environ["AUTOSPARSE_CACHE_DIR"] = str(Path(base, os.environ.get("PYTEST_XDIST_WORKER", "main")))


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the simulated machine in the header of the report."""
    return f"chaos: {config.stash[CHAOS]}" if CHAOS in config.stash else None


def matrices_folder() -> Path | None:
    """Return the folder of real matrices: `AUTOSPARSE_MATRICES`, else ../shared/matrices beside the repository."""
    folder = Path(os.environ.get("AUTOSPARSE_MATRICES") or REPOSITORY.parent / "shared" / "matrices")
    return folder if folder.is_dir() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow tests and count them; under chaos, deselect also the tests of other processes.

    Skipping would report each of the thousands of slow tests from a worker process to the main process.
    """
    if CHAOS in config.stash:
        elsewhere = [item for item in items if chaos.starts_processes(getattr(item, "function", None))]
        items[:] = [item for item in items if not chaos.starts_processes(getattr(item, "function", None))]
        config.hook.pytest_deselected(items=elsewhere)
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
    """Turn the garbage collector off during collection, and let workers import test modules in different orders.

    Nearly every object that collection makes stays alive, so garbage collection would find nothing. Two workers that
    import the same modules in the same order compile the same modules to bytecode twice. So every second worker begins
    with the last module.
    """
    gc.disable()
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if number.isdigit() and int(number) % 2 and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        for path in sorted(REPOSITORY.glob("tests/**/test_*.py"), reverse=True):
            # collection reports the error later
            with contextlib.suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):
                importlib.import_module(".".join(path.relative_to(REPOSITORY).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Exempt the collected tests, which live to the end of the run, from garbage collection."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exempt from garbage collection what a test module leaves behind, mostly libraries.

    Without this, each collection takes about a second.
    """
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def leave(worker: int | None) -> None:
    """End the process: a worker of pytest-xdist at once, another process after the interpreter's last collection.

    That collection sees every object, because extension modules report objects that remain as leaks. It is no hook of
    pytest, which collects garbage five times at its end: with the exempted objects that takes ten seconds, after which
    pytest-xdist kills its workers. The messages and the exit status of a worker that has reported its tests are unread.
    Forked children of a worker end as they would without pytest.
    """
    if worker == os.getpid():
        os._exit(0)
    gc.unfreeze()


@pytest.fixture(scope="session")
def matrices() -> Path:
    """Return the folder of real matrices; a test that uses this fixture must be marked `matrices`."""
    folder = matrices_folder()
    assert folder is not None, "mark the test with pytest.mark.matrices"
    return folder


@pytest.fixture(autouse=True)
def clean_settings() -> Iterator[None]:
    """Reset options and shown warnings after each test, and check that subnormal numbers still work.

    Loading a library linked with -ffast-math flushes subnormal numbers to zero for the whole process.
    """
    from autosparse import config, containment, notices

    yield
    config.reload_options()
    containment._traced.clear()
    notices.forget_warnings()
    assert np.float64(5e-324) * np.float64(1) > 0, "this test loaded code that flushes subnormal numbers to zero"
