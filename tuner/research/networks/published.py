"""Loader of the weights that WACO's authors published, with the parameters that their program embedders read.

They were trained on a Xeon E5-2680 v3 with 48 threads and rank schedules of that machine. The inputs of ``feature.0``
were standardised by unpublished statistics of the training set. They therefore test the architecture and do not tune.
Their loops and levels share one order.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from autosparse.tuner.research.networks.cost_model import NetworkCostModel, ProgramEmbedder
from autosparse.tuner.research.networks.waconet import WACONet
from autosparse.tuner.space.template import Categorical, Parameter, Permutation

from autosparse.errors import OptionError


def _powers(name: str, n_values: int) -> Categorical:
    return Categorical(name, tuple(1 << power for power in range(n_values)))


def _levels(*coordinates: str) -> tuple[Categorical, ...]:
    return tuple(Categorical(f"format{name}", ("C", "U"), is_ladder=False) for name in coordinates)


_MATRIX_LOOPS: Final = ("i1", "i0", "k1", "k0", "j1", "j0")

PUBLISHED: Final[Mapping[str, tuple[Parameter, ...]]] = {
    "SpMV": (
        _powers("isplit", 17), _powers("ksplit", 17),
        Permutation("order", ("i1", "i0", "k1", "k0")),
        *_levels("i1", "i0", "k1", "k0"), _powers("parchunk", 9),
    ),
    "SpMM": (
        _powers("isplit", 17), _powers("ksplit", 17), _powers("jsplit", 8),
        Permutation("order", _MATRIX_LOOPS),
        *_levels("i1", "i0", "k1", "k0"), _powers("parchunk", 9),
    ),
    "SDDMM": (
        _powers("isplit", 17), _powers("jsplit", 17), _powers("ksplit", 8),
        Permutation("order", _MATRIX_LOOPS),
        *_levels("i1", "i0", "j1", "j0"), Categorical("paridx", _MATRIX_LOOPS, is_ladder=False), _powers("parchunk", 6),
    ),
}  # fmt: skip
"""Name of the published file -> its parameters, in the order in which ``schedule_embedding`` reads them."""


def published_model(algorithm: str, *, backend: str = "own") -> NetworkCostModel:
    """Return a network of the form of WACO's published weights of `algorithm`, with random weights."""
    if algorithm not in PUBLISHED:
        raise OptionError.bad_value("algorithm", algorithm, domain=f"one of {', '.join(PUBLISHED)}", source="argument")
    return NetworkCostModel(WACONet(2, backend), ProgramEmbedder(PUBLISHED[algorithm], plain_permutations=True))


def read_published(path: Path, *, backend: str = "own") -> NetworkCostModel:
    """Read WACO's published weights, ``SpMV.npz``, ``SpMM.npz`` or ``SDDMM.npz``, into a cost model.

    `backend` names the implementation of its sparse convolutions (`BACKENDS`).
    """
    model = published_model(path.stem, backend=backend)
    with np.load(path, allow_pickle=False) as file:
        model.load_weights({name: file[name] for name in file.files})
    return model.eval()
