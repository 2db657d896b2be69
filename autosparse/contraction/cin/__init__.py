"""Protocolized concrete index notation (CIN-P): the language of the programs that einsum chooses from."""

from __future__ import annotations
