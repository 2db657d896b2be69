"""The asymptotic scheduler: products of many sparse tensors from index notation (docs/adr/0034)."""

from __future__ import annotations
