"""
A matrix in a notebook
======================

A notebook displays a matrix with its statistics and a plot of its entries, and ``A.explain(B)`` as a page.
"""

import numpy as np
import scipy.sparse as sps

import autosparse as asp

A = asp.csr(
    sps.random_array((400, 300), density=0.02, random_state=np.random.default_rng(0), format="csr")
    + sps.eye_array(400, 300)
)
A
