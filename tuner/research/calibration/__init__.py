"""Calibration: fit a shipped cost model to this machine from few measured patterns, without PyTorch.

`examples` holds measurements, `adjustments` the ways to change a model, and `choice` compares them by cross-validation.
`store` replaces model files atomically and can undo a replacement.
"""

from __future__ import annotations
