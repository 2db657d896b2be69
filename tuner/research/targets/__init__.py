"""Target platforms of learned cost models as data: configuration spaces, sample costs and mappings (DASH section 3).

`base` defines a target. `gpu` has those of CPUs and GPUs, and `accelerator` reads descriptions and lists the shipped
ones. `mapper` turns a configuration into numbers. `simulation` models the cost of a tiled accelerator.
"""

from __future__ import annotations
