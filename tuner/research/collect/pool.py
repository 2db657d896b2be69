"""Pool of kernels that samples share, since compiling takes longer than measuring.

Two schedules share a kernel when they differ only in run-time parameters: partition, chunk, threads, and the windows of
sorted slices (`SuperSchedule.as_compiled`). WACO compiled each of its 100 samples per matrix (section 4.1.3). Here, the
samples of all matrices use one pool of kernels, each with new run-time parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from autosparse.tuner.research.collect.steps import with_run_time
from autosparse.tuner.space.template import Supports, TemplateSpace

from autosparse.core.schedule import SuperSchedule
from autosparse.errors import ScheduleError

MAX_REPEATS: Final = 200
"""Number of consecutive samples without a new kernel after which the space counts as exhausted."""


class KernelPool:
    """Fixed random selection of at most `n_kernels` kernels of `space`, the same for the same `seed`."""

    def __init__(
        self, space: TemplateSpace, n_kernels: int, *, seed: int = 0, supports: Supports | None = None
    ) -> None:
        self.space = space
        self._members = tuple(_distinct(space, n_kernels, np.random.default_rng(seed), supports))

    def __len__(self) -> int:
        """Return the number of kernels."""
        return len(self._members)

    @property
    def members(self) -> tuple[SuperSchedule, ...]:
        """Return one schedule of each kernel."""
        return self._members

    def sample(self, rng: np.random.Generator) -> SuperSchedule:
        """Return a schedule of a randomly drawn kernel of the pool, with newly drawn run-time parameters."""
        return with_run_time(self.space, self._members[int(rng.integers(len(self._members)))], rng)


def _distinct(
    space: TemplateSpace, n_kernels: int, rng: np.random.Generator, supports: Supports | None
) -> Iterator[SuperSchedule]:
    """Yield random schedules of `space`, at most `n_kernels`, that need different kernels."""
    seen: set[SuperSchedule] = set()
    n_repeats = 0
    while len(seen) < n_kernels and n_repeats < MAX_REPEATS:
        try:
            made = space.sample(rng, supports)
        except ScheduleError:
            if not seen:
                raise
            return
        compiled = made.as_compiled()
        if compiled in seen:
            n_repeats += 1
            continue
        n_repeats = 0
        seen.add(compiled)
        yield made
