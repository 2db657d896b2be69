"""Costs of tiles on a GPU, fitted to measured products, with the uncertainty that the residuals of the fit leave.

The time of a product by one family of layouts is `launch` + columns x (`tile` x tiles + `row` x rows). A tile is an
entry ("csr") or a block of 16 x 16 cells ("block"). `sigma` is the standard deviation of the logarithm of predicted
over measured time for matrices that were left out of the fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Array = NDArray[Any]  # float64

SIDE: Final = 16
"""Rows and columns of a block."""
MIN_MATRICES: Final = 5
"""Minimum number of measured matrices of a family for a fit."""


class Sample(NamedTuple):
    """Measured product by one family: the matrix's name, numbers of tiles, rows and dense columns, seconds."""

    matrix: str
    n_tiles: float
    n_rows: float
    n_columns: int
    seconds: float


class FamilyCost(NamedTuple):
    """Fitted costs of one family, in seconds, and their uncertainty (standard deviation of the log ratio)."""

    launch: float
    tile: float
    row: float
    sigma: float
    n_matrices: int

    def seconds(self, n_tiles: float, n_rows: float, n_columns: int) -> float:
        """Return the expected seconds of one product."""
        return self.launch + n_columns * (self.tile * n_tiles + self.row * n_rows)


Fitted = Mapping[str, FamilyCost]
"""Family -> its costs, for one device and dtype."""


def fit(samples: Sequence[Sample]) -> FamilyCost | None:
    """Return the costs that fit `samples` best in relative terms; None for too few matrices.

    The uncertainty is that of predictions for matrices that are left out, one at a time.
    """
    matrices = sorted({one.matrix for one in samples})
    if len(matrices) < MIN_MATRICES:
        return None
    features = np.array([(1.0, one.n_columns * one.n_tiles, one.n_columns * one.n_rows) for one in samples])
    seconds = np.array([one.seconds for one in samples])
    of_matrix = np.array([matrices.index(one.matrix) for one in samples])
    errors = []
    for left_out in range(len(matrices)):
        known = of_matrix != left_out
        found = features[~known] @ _solved(features[known], seconds[known])
        errors.append(np.log(np.maximum(found, 1e-9) / seconds[~known]))
    launch, tile, row = _solved(features, seconds)
    spread = float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))
    return FamilyCost(float(launch), float(tile), float(row), spread, len(matrices))


def _solved(features: Array, seconds: Array) -> Array:
    """Return the non-negative costs with the least relative errors."""
    scaled = features / seconds[:, None]
    unit = np.maximum(scaled.max(axis=0), 1e-300)
    found: Array = nnls(scaled / unit, np.ones(len(seconds)))[0] / unit
    return found


def distrust(families: Sequence[FamilyCost]) -> float:
    """Return the standard deviation of the log of a planned ratio whose times depend on all of `families`."""
    return math.sqrt(sum(one.sigma**2 for one in families))


FITTED: Final[Mapping[tuple[str, str], Fitted]] = {
    ("h100-sxm", "float16"): {
        "csr": FamilyCost(1.056e-05, 1.652e-13, 1.688e-12, 0.41, 13),
        "block": FamilyCost(1.143e-05, 2.051e-11, 1.928e-12, 0.35, 15),
    },
    ("h100-sxm", "float32"): {
        "csr": FamilyCost(8.342e-06, 2.547e-13, 3.480e-12, 0.32, 15),
    },
    ("h200", "float16"): {
        "csr": FamilyCost(1.010e-05, 1.681e-13, 1.293e-12, 0.42, 13),
        "block": FamilyCost(1.205e-05, 2.064e-11, 1.759e-12, 0.32, 15),
    },
    ("h200", "float32"): {
        "csr": FamilyCost(8.175e-06, 2.513e-13, 2.522e-12, 0.32, 15),
    },
}  # fmt: skip
"""(Target, dtype) -> fitted costs by family. Source: `python benchmarks/hybrid_gpu.py --fit`, the committed tables of
an H100 and an H200. No blocks of float32 were measured on them without TF32."""
