"""
SciPy: conjugate gradients
==========================

Heat on a plate: one import is changed, the solver is SciPy's.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.sparse.linalg import cg

import autosparse as sp  # was: import scipy.sparse as sp

n = 60
line = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
plate = sp.csr_array(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))
heat = np.zeros((n, n))
heat[20:30, 20:40] = 1
temperature, failed = cg(plate, heat.ravel(), rtol=1e-8)
assert not failed

plt.imshow(temperature.reshape(n, n), cmap="inferno")
plt.title(f"{plate.nnz:,} entries, {n * n:,} unknowns")
plt.axis("off")
