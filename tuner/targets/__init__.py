"""Target platforms of learned cost models as data: what may be configured, what a sample costs, how it maps (DASH §3).

`base` says what a target is, `cpu`, `gpu` and `accelerator` are kinds of targets, `registry` names those that ship,
`mapper` and `latent` turn a configuration into numbers, `simulation` counts what a tiled accelerator would do.
"""

from __future__ import annotations
