"""Cost models that travel: from a platform where samples are cheap to a target where few can be had (DASH).

`counts` and `features` describe programs on a pattern, `samples` holds what was measured, `source` is a model of
another platform, `residual` corrects it by the target's samples (NumPy alone). DASH's own network is
`tuner.networks.dash`, its training `tuner.training.few_shot` (extra `train`).
"""

from __future__ import annotations
