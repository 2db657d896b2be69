"""Every known way of writing to a sparse matrix's arrays, applied to our class and to SciPy's at the same time.

A `World` is a matrix and the references to its arrays that a program keeps (aliases, views, siblings). A write is a
function of a world and a random generator. With the same seed it does the same to a world over our class and to one
over SciPy's, so SciPy's matrix gives the expected product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sps

N_ROWS, N_COLUMNS = 9, 11


class World:
    """A matrix `A` and the references to its arrays that a program keeps."""

    def __init__(self, make: Callable[..., Any], fmt: str, seed: int) -> None:
        m = sps.random(N_ROWS, N_COLUMNS, 0.35, format=fmt, random_state=np.random.RandomState(seed))
        self.kept: dict[str, Any] = {}
        arrays = (m.data.copy(), m.indices.copy(), m.indptr.copy())
        if seed % 3 == 0:
            self.kept["origin"] = arrays[0]
        if seed % 5 == 0:
            self.kept["origin_indices"] = arrays[1]
        self.A = make(arrays, shape=m.shape)

    @property
    def n_minor(self) -> int:
        return self.A.shape[0] if self.A.format == "csc" else self.A.shape[1]


Write = Callable[[World, np.random.Generator], None]
WRITES: dict[str, Write] = {}


def write(function: Write) -> Write:
    WRITES[function.__name__] = function
    return function


def spot(array: Any, rng: np.random.Generator) -> int:
    return int(rng.integers(len(array)))
