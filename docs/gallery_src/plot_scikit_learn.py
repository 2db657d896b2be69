"""
scikit-learn: topics by randomised SVD
======================================

Estimators accept autosparse matrices as SciPy's.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.decomposition import TruncatedSVD

import autosparse as asp

rng = np.random.default_rng(0)
topics = np.repeat(np.arange(4), 250)
words = (rng.integers(0, 300, (1000, 30)) + 250 * topics[:, None]) % 1200
documents = asp.csr((np.ones(words.size), (np.repeat(np.arange(1000), 30), words.ravel())), shape=(1000, 1200))
where = TruncatedSVD(3, random_state=0).fit_transform(documents)

plt.scatter(where[:, 1], where[:, 2], c=topics, s=8, cmap="viridis")
plt.xlabel("second component")
plt.ylabel("third component")
