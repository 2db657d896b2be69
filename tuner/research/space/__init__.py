"""Schedule spaces of papers; products search the spaces of `autosparse.tuner.space`."""

from __future__ import annotations
