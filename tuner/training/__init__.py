"""Training of learned cost models on what `collect` measured (WACO §4.1.3); extra `train`.

`data` reads measurements, `pairs` is the loss, `observations` prepares patterns, `trainer` runs epochs and can be
killed at any moment, `weights` writes what a model has learned, `curves` draws it.
"""

from __future__ import annotations
