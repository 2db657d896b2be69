"""
sddmm beside PyTorch's sampled_addmm
====================================

The product of two dense matrices at the stored entries of a sparse one, as the scores of a recommender at its ratings.
"""

import time

import numpy as np
import scipy.sparse as sps
import torch
from matplotlib import pyplot as plt

import autosparse as asp

rng = np.random.default_rng(0)
ratings = sps.random_array((4000, 3000), density=0.005, random_state=rng, format="csr", dtype=np.float32)
A = asp.csr(ratings)
users, items = rng.standard_normal((2, 4000, 32)).astype(np.float32)
items = np.asfortranarray(items[:3000].T)  # columns lie side by side, as the kernel reads them

ours = asp.sddmm(A, users, items)
ones = torch.sparse_csr_tensor(*map(torch.from_numpy, (A.indptr, A.indices, np.zeros(A.nnz, np.float32))), A.shape)
theirs = torch.sparse.sampled_addmm(ones, torch.from_numpy(users), torch.from_numpy(items), beta=0.0)
np.testing.assert_allclose(ours.data, A.data * theirs.values().numpy(), rtol=1e-3, atol=1e-4)


def fastest(call):
    times = []
    for _ in range(15):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


took = {
    "autosparse": fastest(lambda: asp.sddmm(A, users, items)),
    "PyTorch": fastest(
        lambda: torch.sparse.sampled_addmm(ones, torch.from_numpy(users), torch.from_numpy(items), beta=0.0)
    ),
}
plt.figure(figsize=(5, 2))
plt.barh(list(took), list(took.values()), color=["#30588c", "#b9c7da"])
plt.xlabel("ms, on the machine that built this site")
