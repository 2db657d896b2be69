"""Tiled accelerators as data: machine, space of configurations and default of each (DASH section 3).

`accelerator` reads a description. `simulation` computes the cost of a product.
"""

from __future__ import annotations
