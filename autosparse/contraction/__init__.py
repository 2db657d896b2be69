"""The asymptotic scheduler: products of many sparse tensors from index notation (docs/design/einsum.md)."""

from __future__ import annotations
