"""Laboratory: collection of data, training, networks, graph search, transfer and simulated targets.

A default product, `tune`, `einsum`, a torch product and a GPU product import nothing from this package. The commands
`collect`, `train`, `calibrate` and `transfer` do, and options do through `autosparse.tuner.registry`.
"""

from __future__ import annotations
