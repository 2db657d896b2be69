"""
What a notebook shows
=====================

A matrix shows what it holds and where; ``A.explain(B)`` shows as a page.
"""

import numpy as np
import scipy.sparse as sps

import autosparse as asp

A = asp.csr(
    sps.random_array((400, 300), density=0.02, rng=np.random.default_rng(0), format="csr") + sps.eye_array(400, 300)
)
A
