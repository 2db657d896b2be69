"""Training of learned cost models on measurements of `collect` (WACO section 4.1.3); extra `train`.

`data` reads measurements, `pairs` is the loss, and `observations` prepares patterns. `trainer` runs epochs and can be
killed at any moment. `weights` writes a trained model, and `ranking` draws its learning curve.
"""

from __future__ import annotations
