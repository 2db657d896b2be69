"""Fixtures of the cache tests: a private folder, strategies for records, and a recorder of CacheWarnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from autosparse.cache.store import Store
from autosparse.cache.stores import close_stores
from hypothesis import strategies as st

from autosparse.config import Effort
from autosparse.core.formats import Format
from autosparse.core.plan import Candidate, Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.notices import CacheWarning

SCHEDULES = (
    None,
    SuperSchedule(),
    SuperSchedule(loop_order=("i1", "j1", "k1", "j0"), dense_splits=(("j", 32),), unroll=4, prefetch=8),
    SuperSchedule(
        format=Format.parse("i1:U,k1:C,i0:U,k0:U | i=4,k=4 | bits=16"),
        loop_order=("i1", "k1", "i0", "k0"),
        partition="dynamic",
        chunk=7,
    ),
)

seconds = st.floats(min_value=0.0, max_value=1e15)
maybe_seconds = st.none() | seconds
candidates = st.builds(
    Candidate,
    choice=st.sampled_from(SCHEDULES).map(choice_of),
    predicted_s=maybe_seconds,
    measured_s=maybe_seconds,
    build_s=seconds,
    pack_s=seconds,
    packed_bytes=st.integers(0, 2**53),
    failed=st.none() | st.text(max_size=20),
)
plans = st.builds(
    Plan,
    choice=st.sampled_from(SCHEDULES).map(choice_of),
    why=st.text(max_size=40),
    effort=st.sampled_from([effort.value for effort in Effort]),
    predicted_s=maybe_seconds,
    measured_s=maybe_seconds,
    default_s=maybe_seconds,
    tune_s=seconds,
    pack_s=seconds,
    packed_bytes=st.integers(0, 2**53),
    candidates=st.lists(candidates, max_size=4).map(tuple),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that does not exist yet."""
    return tmp_path / "cache"


@pytest.fixture
def open_again(folder: Path) -> Callable[..., Store]:
    """Return a function that opens another store on `folder`, as another process would."""

    def open_(**options: object) -> Store:
        return Store(folder, **options)  # type: ignore[arg-type]

    return open_


@pytest.fixture(autouse=True)
def no_open_stores() -> Iterator[None]:
    close_stores()
    yield
    close_stores()


@contextmanager
def cache_warnings() -> Iterator[list[str]]:
    """Collect the messages of the CacheWarnings shown inside the block."""
    seen: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield seen
    seen += [str(item.message) for item in caught if issubclass(item.category, CacheWarning)]


def failure(reason: str = "no compiler") -> dict[str, object]:
    """Return a small valid record of the kind `failure`."""
    return {"reason": reason, "compiler": "cc 1", "failed_at": 5.0, "library": "0", "n_times": 1}


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() or path.is_symlink()]
