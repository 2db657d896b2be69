"""Enumeration of the programs of one kernel, a module per stage."""

from __future__ import annotations
