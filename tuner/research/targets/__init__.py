"""Target platforms of learned cost models as data: configuration spaces, sample costs and mappings (DASH section 3).

`base` defines a target. `cpu`, `gpu` and `accelerator` are kinds of targets, and `registry` lists the shipped ones.
`mapper` and `latent` turn a configuration into numbers. `simulation` models the cost of a tiled accelerator.
"""

from __future__ import annotations
