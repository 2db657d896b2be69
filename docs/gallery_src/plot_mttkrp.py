"""
mttkrp: one step of CP-ALS beside PyTorch's einsum
==================================================

MTTKRP is the matricised tensor times a Khatri-Rao product. PyTorch computes it for dense tensors only.
"""

import time

import numpy as np
import torch
from matplotlib import pyplot as plt

import autosparse as asp

rng = np.random.default_rng(0)
shape, rank = (120, 100, 80), 16
coords = np.stack([rng.integers(0, extent, 20_000) for extent in shape])
T = asp.tensor(coords, rng.standard_normal(20_000).astype(np.float32), shape)
F1, F2 = (rng.standard_normal((extent, rank)).astype(np.float32) for extent in shape[1:])
M = asp.mttkrp(T, [None, F1, F2], mode=0)

dense = np.zeros(shape, np.float32)
np.add.at(dense, tuple(coords), T.values)
of_torch = [torch.from_numpy(one) for one in (dense, F1, F2)]
np.testing.assert_allclose(M, torch.einsum("ikl,kj,lj->ij", *of_torch).numpy(), rtol=1e-3, atol=1e-2)


def fastest(call):
    times = []
    for _ in range(10):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


took = {
    "autosparse, sparse": fastest(lambda: asp.mttkrp(T, [None, F1, F2], mode=0)),
    "PyTorch, dense": fastest(lambda: torch.einsum("ikl,kj,lj->ij", *of_torch)),
}
plt.figure(figsize=(5, 2))
plt.barh(list(took), list(took.values()), color=["#30588c", "#b9c7da"])
plt.xlabel("ms, on the machine that built this site")
