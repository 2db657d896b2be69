"""Learned cost models in PyTorch: sparse convolution, WACONet, the other extractors, program embedder, predictor.

Needed for training only (extra `train`). What a product needs at run time is computed from the weights alone, without
torch. Sources: WACO (Won et al., ASPLOS 2023) §4.1 and §5.3.
"""

from __future__ import annotations

from autosparse.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError.needed("torch", extra="train", purpose="autosparse.tuner.networks") from error
