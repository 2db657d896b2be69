"""Every test of this folder: what those of `tests/tuning` share, kernels and their folder too."""

from __future__ import annotations

from tests.tuning.conftest import long_way, own_cache, paid, untuned_with_early_entries  # noqa: F401
