"""Calibration: fit a shipped cost model to this machine from few measured patterns, without PyTorch.

`examples` holds what was measured, `adjustments` are the ways to change a model, `choice` compares them on patterns
that they were not fitted to, `store` replaces files so that a model is always whole and can be had back.
"""

from __future__ import annotations
