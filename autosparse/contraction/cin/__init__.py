"""Protocolized concrete index notation (CIN-P): the language of the asymptotic scheduler's programs."""

from __future__ import annotations
