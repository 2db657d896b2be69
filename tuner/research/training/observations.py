"""Cache of patterns in the extractors' input form, made from their recipes."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Final

from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.research.networks.extractor import Extractor, Observed

DEFAULT_BYTES: Final = 4 << 30


class Observations:
    """Cache that returns an extractor's input for a recipe, and evicts the least recently used ones beyond a limit.

    `folder` holds the real matrices that recipes name; a missing one raises FileNotFoundError.
    """

    def __init__(self, extractor: Extractor, folder: Path | None, *, limit_bytes: int = DEFAULT_BYTES) -> None:
        self._extractor, self._folder, self._limit_bytes = extractor, folder, limit_bytes
        self._kept: OrderedDict[Recipe, Observed] = OrderedDict()
        self._sizes: dict[Recipe, int] = {}

    def __call__(self, recipe: Recipe) -> Observed:
        """Return the extractor's input for `recipe`, made or cached."""
        found = self._kept.get(recipe)
        if found is None:
            found = self._extractor.prepare(recipe.make(self._folder))
            self._make_room()
            self._kept[recipe] = found
        self._kept.move_to_end(recipe)
        return found

    def _make_room(self) -> None:
        # The last entry has grown since it was added: its first use created the maps of its layers.
        for recipe in list(self._kept)[-1:]:
            self._sizes[recipe] = self._kept[recipe].n_bytes
        while self._kept and sum(self._sizes.values()) > self._limit_bytes:
            recipe, _ = self._kept.popitem(last=False)
            del self._sizes[recipe]
