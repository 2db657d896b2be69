"""Learned cost models in PyTorch: sparse convolution, WACONet, other extractors, program embedder, predictor.

They are needed for training only (extra `train`); inference uses the weights alone, without torch. Source: WACO (Won et
al., ASPLOS 2023), sections 4.1 and 5.3.
"""

from __future__ import annotations

from autosparse.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError.needed("torch", extra="train", purpose="autosparse.tuner.research.networks") from error
