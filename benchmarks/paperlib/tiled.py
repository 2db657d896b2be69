"""Target of a tiled accelerator: loops and tile sizes on shared axes, and two heterogeneous switches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from autosparse.tuner.research.targets.accelerator import Accelerator, Configuration

from paperlib.base import Category


@dataclass(frozen=True)
class Tiled:
    """Configurations of one accelerator."""

    accelerator: Accelerator

    def loop_order(self, configuration: Configuration) -> Sequence[str]:
        """Return the loops, outermost first; a barrier moves the loop over column panels outside (DASH section 3.3)."""
        outer = ("j2", "i2") if configuration.barrier else ("i2", "j2")
        return ("k2", *outer, "i1", "j1", "k1")

    def sizes(self, configuration: Configuration) -> tuple[int, int, int, int]:
        """Return the tile sizes (p_row, p_col, split limited to the columns, 1), in the order of SIZES."""
        split = min(configuration.split, self.accelerator.n_columns)
        return configuration.p_row, configuration.p_col, split, 1

    def heterogeneous(self, configuration: Configuration) -> Category:
        """Return the values of the parameters that only accelerators have: (bypass, reorder)."""
        return configuration.bypass, configuration.reorder

    def categories(self) -> tuple[Category, ...]:
        """Return all possible results of `heterogeneous`."""
        return tuple(itertools.product(self.accelerator.grid["bypass"], self.accelerator.grid["reorder"]))
