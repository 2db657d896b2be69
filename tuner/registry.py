"""Registry of models and schedule spaces of the laboratory: the only way from a product to `autosparse.tuner.research`.

An entry is a text ``"module:object"``, imported when an option or a model file names it. For example,
``asp.options(model="waco")`` reads a file with the extractor "waconet", whose scorer is loaded. Products with
default options load none of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

NETWORK: Final = "autosparse.tuner.research.inference.network_scorer:network_scorer"
ENTRIES: Final[Mapping[str, Mapping[str, str]]] = {
    "search": {"graph": "autosparse.tuner.research.graph.search:search_of"},
    "scorer": {"waconet": NETWORK, "statistics": NETWORK, "human": NETWORK},
    "partitioner": {"greedy": "autosparse.tuner.research.hybrid.gpu_plan:planned"},
    "space": {"waco": "autosparse.tuner.research.space.waco:waco_space"},
}
"""Kind -> name -> ``"module:object"``.

A *search* is a function (weights of a model file, number of programs) -> `learned.predict.Search`, for files with a
graph. A *partitioner* is a function (pattern, product, target) -> partition of a matrix on a GPU, and whether it
decides. A *scorer* is a function (weights of a model file) -> `learned.scorers.Scorer`, by the file's extractor. A
*space* is a function (algorithm, threads=...) -> `space.template.TemplateSpace`, by the prefix of its name in a file.
"""


def load(kind: str, name: str) -> Any:  # Any: a function of the kind's signature
    """Return the object registered as `name`, importing its module; raise KeyError where there is none."""
    module, _, attribute = ENTRIES[kind][name].partition(":")
    return getattr(importlib.import_module(module), attribute)
