"""Fixtures of the dispatch tests, shared with `tests/tuning`: kernels, their cache folder, forced paths."""

from __future__ import annotations

from tests.tuning.conftest import long_way, own_cache, paid, untuned_with_early_entries  # noqa: F401
